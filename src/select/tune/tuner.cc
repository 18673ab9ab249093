#include "select/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "select/choose/candidates.h"
#include "select/choose/filter.h"
#include "select/choose/objective.h"
#include "select/choose/remembered.h"
#include "select/measure/workbench.h"
#include "select/tune/decision.h"
#include "select/tune/knob_search.h"

namespace convoy::selection {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr double kDefaultsShare = 0.5;     // of the time left, for timing some while others are still to come
constexpr double kUnlikelyFactor = 2;      // of the best prediction: predicted slower, not likely to be the fastest
constexpr std::ptrdiff_t kMostLikely = 8;  // candidates, of likely_only
constexpr int kSecondChances = 3;
constexpr double kPromising = 1.5;  // a variant whose first time is within this of the best is timed properly

// How well times are to be known.
struct Effort {
  double hopeless;  // so many times slower than the best is out after its first time
  TimingOptions timing;
  double unbudgeted_seconds = 2;  // of sampling, a candidate, where there is no budget
};
Effort thorough() { return {kHopeless, {}}; }
Effort full() { return {kInfinity, {.hopeless = kInfinity}, kInfinity}; }
// Everything has been warm since its first time, and a GPU's sample is a median itself.
Effort quick() { return {1.25, {.warm_ups = 0, .min_samples = 3, .max_samples = 3}}; }

// What is measured, in which order and for how long; who wins is Decision's.
class Tuner {
 public:
  Tuner(const ConvProblem& problem, std::span<const Candidate> ranked, std::size_t wanted,
        std::span<const Engine* const> engines, const SelectionOptions& options, const PlanRequest& request,
        const SelectionProgress& progress, const Effort& effort, Planner::Batch* ahead = nullptr)
      : problem_(problem),
        ranked_(ranked),
        wanted_(ranked.first(wanted)),
        engines_(engines),
        options_(options),
        request_(request),
        habits_(habits_on(request)),
        progress_(progress),
        effort_(effort),
        ahead_(ahead),
        key_(measurement_key(problem, request, options.caches)),
        start_(monotonic_seconds()),
        cut_(options.objective.workspace == 0 && options.objective.energy == 0 ? effort.hopeless : kInfinity) {}

  Result<Selection> run() {
    CONVOY_CHECK(open_counter());
    CONVOY_CHECK(list_contestants());
    if (!open_.empty() || options_.all_knobs) CONVOY_CHECK(measure());
    return choose();
  }

 private:
  bool interrupted() const {
    return stopped_ || (options_.stop != nullptr && *options_.stop) || (bench_ != nullptr && bench_->lost());
  }

  double time_left() const {
    if (interrupted()) return 0;
    return options_.budget_seconds != 0 ? options_.budget_seconds - (monotonic_seconds() - start_) : kInfinity;
  }

  // However short the budget, a problem gets an answer: the first candidate that gives one, unless that takes far
  // longer. A negative budget measures nothing.
  bool first_answer_by(double seconds) const {
    if (interrupted() || options_.budget_seconds < 0 || best_seconds() < kInfinity) return false;
    return time_left() + kOvertimeSeconds >= seconds;
  }

  // Running for the counter takes up to half a second a candidate, more than all else: only where energy counts.
  Result<void> open_counter() {
    if (options_.objective.energy <= 0) return {};
    auto counter = open_energy_counter(request_);
    if (!counter.ok()) return counter.error().within(fmt::format("objective '{}'", print(options_.objective)));
    counter_ = std::move(*counter);
    return {};
  }

  Result<void> list_contestants() {
    for (const Candidate& candidate : ranked_) {
      CONVOY_TRY(const Engine* engine, runnable_engine(problem_, candidate, engines_, request_));
      contestants_.push_back({candidate, engine});
      const int size =
          options_.all_knobs ? KnobSearch(candidate.engine, engine->configurations(problem_, request_)).size() : 1;
      total_ = size > std::numeric_limits<int>::max() - total_ ? std::numeric_limits<int>::max() : total_ + size;
    }
    std::vector<Candidate> candidates;
    for (const Contestant& contestant : contestants_) candidates.push_back(contestant.candidate);
    CONVOY_TRY(open_, unsettled(candidates));
    return {};
  }

  // Those of `candidates` that have to be measured; what is known of the others goes to the results.
  Result<std::vector<Candidate>> unsettled(const std::vector<Candidate>& candidates) {
    if (options_.store == nullptr) return candidates;
    CONVOY_TRY(Remembered known, recall(*options_.store, key_, candidates, engines_));
    reopen(known,
           [this](const Measurement& m) { return m.state == MeasurementState::cut_off && is_sampled_further(m); });
    if (options_.objective.energy > 0) {  // where energy counts, a row without it doesn't settle anything
      reopen(known, [](const Measurement& m) { return !m.failure && !m.energy_joules; });
    }
    done_ += static_cast<int>(known.settled.size());
    for (Measurement& measurement : known.settled) settled_.push_back(std::move(measurement));
    return std::move(known.open);
  }

  static void reopen(Remembered& known, FunctionRef<bool(const Measurement&)> is_open) {
    std::erase_if(known.settled, [&](const Measurement& m) {
      const bool open = is_open(m);
      if (open) known.open.push_back(m.candidate);
      return open;
    });
  }

  bool may_be_disturbed(const Measurement& m) const { return selection::may_be_disturbed(m, request_.kind()); }
  // Rather than being out for a rough time: where that seems disturbed, and the heuristic's choice, which yields to
  // what is faster beyond doubt only.
  bool is_sampled_further(const Measurement& m) const {
    return may_be_disturbed(m) &&
           (m.candidate == expected() || seems_disturbed(m, predicted(m.candidate), request_.kind()));
  }
  // The heuristic's choice: the best predicted that hasn't failed.
  const Candidate& expected() const {
    const auto failed = [this](const Candidate& candidate) {
      const Measurement* m = measurement_of(candidate);
      return m != nullptr && m->failure.has_value();
    };
    const auto found = std::ranges::find_if_not(ranked_, failed);
    return found == ranked_.end() ? ranked_.front() : *found;
  }

  Result<void> measure() {
    const std::int64_t terms = oracle_terms(options_, request_.threads);
    const double setup = Workbench::setup_seconds(problem_, request_, terms);
    if (setup > time_left() && !first_answer_by(setup)) {
      partial_ = true;
      return {};
    }
    CONVOY_TRY(Workbench bench, Workbench::make(problem_, engines_, request_, options_.caches, terms));
    bench_ = &bench;
    measure_on(bench);
    bench_ = nullptr;
    lost_ = bench.lost();
    return {};
  }

  void measure_on(Workbench& bench) {
    // Under a budget the likely ones first, up to a good answer; then the others against the best of them.
    const auto unlikely = options_.likely_only || time_left() < kInfinity ? first_unlikely() : open_.end();
    const std::ptrdiff_t at_most = std::max<std::ptrdiff_t>(0, kMostLikely - (unlikely - open_.begin()));
    const std::ptrdiff_t others = options_.likely_only ? std::min(at_most, open_.end() - unlikely) : 0;
    measure_wave(bench, {open_.begin(), unlikely}, {unlikely, unlikely + others});
    if (options_.likely_only) {
      partial_ = partial_ || unlikely != open_.end() || options_.all_knobs;
      return;
    }
    if (unlikely != open_.end()) measure_wave(bench, {unlikely, open_.end()}, {});
    if (options_.all_knobs) search_knobs(bench);
  }

  // `open_` is in the order of the predictions, but for those wanted in any case at its front.
  std::vector<Candidate>::iterator first_unlikely() {
    const auto begin = std::find_if(open_.begin(), open_.end(), [&](const Candidate& candidate) {
      return std::find(wanted_.begin(), wanted_.end(), candidate) == wanted_.end();
    });
    if (begin == open_.end()) return begin;
    const double best = predicted(*begin);
    const auto end = options_.likely_only ? begin + std::min(kMostLikely, open_.end() - begin) : open_.end();
    return std::find_if(begin, end,
                        [&](const Candidate& candidate) { return predicted(candidate) > kUnlikelyFactor * best; });
  }

  // Each plan packs constant weights of its own.
  double packing_seconds() const {
    constexpr double seconds_per_byte = 2e-9;
    return request_.constant_weights != nullptr ? static_cast<double>(problem_.w.bytes()) * seconds_per_byte : 0;
  }

  double predicted(const Candidate& candidate) const {
    return contestant_of(candidate.engine).engine->predict_seconds(problem_, candidate.knobs, request_);
  }

  // Of `others`, in the order of the predictions, those that are predicted to take less than the best of the wave took
  // are as likely.
  void measure_wave(Workbench& bench, const std::vector<Candidate>& wave, std::span<const Candidate> others) {
    const std::size_t known = runners_.size();
    screen_open(bench, wave);
    const auto slower = [&](const Candidate& candidate) { return predicted(candidate) >= best_seconds(); };
    screen_open(bench, {others.begin(), std::ranges::find_if(others, slower)});
    cut_off_hopeless(bench);
    std::vector<Runner*> racing;
    for (std::size_t i = known; i < runners_.size(); ++i) {
      if (runners_[i]->plan != nullptr) racing.push_back(runners_[i].get());
    }
    if (racing.empty()) return;
    const std::vector<Runner*> fresh = racing;
    if (incumbent_ != nullptr && incumbent_->plan == nullptr) incumbent_ = nullptr;  // hopeless beside a new one
    if (incumbent_ != nullptr) racing.push_back(incumbent_);
    const double left = time_left();
    const bool more_to_come =
        !options_.likely_only && (options_.all_knobs || done_ < static_cast<int>(contestants_.size()));
    race(bench, racing, more_to_come && left < kInfinity ? left * kDefaultsShare : left);
    for (Runner* runner : fresh) keep_incumbent(*runner);
  }

  // Only the best keeps its plan, which variants are timed against.
  void keep_incumbent(Runner& runner) {
    if (incumbent_ != nullptr && incumbent_->plan == nullptr) incumbent_ = nullptr;  // it failed, timed once more
    if (runner.plan == nullptr) return;
    if (incumbent_ == nullptr || runner.measurement.median_seconds < incumbent_->measurement.median_seconds) {
      if (incumbent_ != nullptr) incumbent_->plan.reset();
      incumbent_ = &runner;
    } else {
      runner.plan.reset();
    }
  }

  void screen_open(Workbench& bench, std::span<const Candidate> candidates) {
    if (habits_.compiles) return screen_as_planned(bench, candidates);
    for (const Candidate& candidate : candidates) {
      const double planning = packing_seconds();
      if (!affords(candidate, planning) && !gives_first_answer(candidate, planning)) continue;
      screen_affordable(bench, bench.plan(candidate));
    }
  }

  // In the order in which plans are ready: the device measures while the host makes the next ones.
  void screen_as_planned(Workbench& bench, std::span<const Candidate> candidates) {
    if (ahead_ != nullptr) return screen_batch(bench, *std::exchange(ahead_, nullptr));
    while (!candidates.empty()) {
      std::vector<Candidate> affordable;
      for (const Candidate& candidate : candidates) {
        if (affords(candidate, planning_)) affordable.push_back(candidate);
      }
      const Candidate& next = candidates.front();
      candidates = affordable.empty() ? candidates.subspan(1) : std::span<const Candidate>();
      if (affordable.empty()) {
        if (!gives_first_answer(next, planning_)) return;
        affordable.push_back(next);
      }
      if (!planner_) planner_.emplace(habits_.planning_threads);
      screen_batch(bench, *planner_->start(problem_, std::move(affordable), engines_, request_));
    }
  }

  void screen_batch(Workbench& bench, Planner::Batch& batch) {
    for (double start = monotonic_seconds(); auto runner = batch.next(); start = monotonic_seconds()) {
      planning_ = monotonic_seconds() - start;
      screen_affordable(bench, std::move(*runner));
      if (interrupted() || (time_left() <= 0 && best_seconds() < kInfinity)) {
        partial_ = true;
        return;
      }
    }
  }

  // What planning cost is spent.
  void screen_affordable(Workbench& bench, Runner runner) {
    const Candidate& candidate = runner.measurement.candidate;
    if (affords(candidate, 0) || gives_first_answer(candidate, 0)) screen(bench, std::move(runner));
  }

  bool gives_first_answer(const Candidate& candidate, double planning) const {
    return first_answer_by(2 * predicted(candidate) + planning);
  }

  // Where compiling decides, what the plans before took.
  double planning_seconds() const { return habits_.compiles ? planning_ : packing_seconds(); }

  // Where not, later ones may be quicker. `planning`: what is to come besides running it.
  bool affords(const Candidate& candidate, double planning) {
    const bool enough = time_left() > 0 && time_left() >= 2 * predicted(candidate) + planning;
    partial_ = partial_ || !enough;
    return enough;
  }

  // Null where it failed or the filter holds it back.
  Runner* screen(Workbench& bench, Runner runner) {
    if (runner.plan != nullptr) {
      const Candidate& candidate = runner.measurement.candidate;
      const Engine& engine = *contestant_of(candidate.engine).engine;
      if (const auto refusal =
              filtered(problem_, engine, candidate.knobs, options_.filter, request_, runner.plan.get())) {
        excluded_ += fmt::format("\n  {}: {}", print(candidate), refusal->reason);
        return nullptr;
      }
    }
    bench.screen(runner, cut_ * best_seconds());
    ++done_;
    runners_.push_back(std::make_unique<Runner>(std::move(runner)));
    Runner* const kept = runners_.back().get();
    report(kept->measurement);
    return kept->measurement.failure ? nullptr : kept;
  }

  double best_seconds() const {
    double best = kInfinity;
    for (const Measurement& m : settled_) {
      if (!m.failure) best = std::min(best, m.median_seconds);
    }
    for (const auto& runner : runners_) {
      if (!runner->measurement.failure) best = std::min(best, runner->measurement.median_seconds);
    }
    return best;
  }

  void cut_off_hopeless(Workbench& bench) {
    const double limit = cut_ * best_seconds();
    for (const auto& runner : runners_) {
      if (runner->plan == nullptr) continue;
      for (int again = 0; !habits_.undisturbed && again < kSecondChances && runner->measurement.median_seconds > limit;
           ++again) {
        if (runner->measurement.median_seconds > kLongestDisturbanceSeconds || time_left() <= 0) break;
        bench.time_again(*runner);
        if (runner->plan == nullptr) break;
      }
      if (runner->plan == nullptr) {
        report(runner->measurement);
        continue;
      }
      if (runner->measurement.median_seconds <= limit || is_sampled_further(runner->measurement)) continue;
      runner->plan.reset();
      // While some were not even tried, nobody knows whether this one is to be measured again; but a time that stands,
      // stands, and whoever goes on from here needs its seconds for the others (recall() compares it with the best by
      // then).
      if (partial_ && !habits_.undisturbed) continue;
      runner->measurement.state = MeasurementState::cut_off;
      report(runner->measurement);
    }
  }

  void race(Workbench& bench, const std::vector<Runner*>& runners, double seconds) {
    if (runners.empty()) return;
    TimingOptions timing = effort_.timing;
    timing.budget_seconds = std::min(seconds, effort_.unbudgeted_seconds * static_cast<double>(runners.size()));
    bench.sample(runners, timing, [this] { return time_left() > 0; });
    const double best = best_seconds();
    for (Runner* runner : runners) {
      Measurement& measurement = runner->measurement;
      if (counter_ && !measurement.failure && time_left() > 0) bench.measure_energy(*runner, *counter_);
      if (measurement.state == MeasurementState::partial) {
        // Out of the timer's race: settled, if only roughly. Out of time: not.
        const bool lost = measurement.samples > 1 && measurement.median_seconds > cut_ * best;
        if (!may_be_disturbed(measurement) && (lost || time_left() > 0)) {
          measurement.state = lost ? MeasurementState::cut_off : MeasurementState::complete;
        } else {
          partial_ = true;
        }
      }
      report(measurement);
    }
  }

  struct Search {
    KnobSearch knobs;
    Candidate best;
    double seconds;
  };

  void search_knobs(Workbench& bench) {
    std::vector<Search> searches;
    for (const Contestant& contestant : contestants_) {
      const Measurement* own = measurement_of(contestant.candidate);
      const double seconds = own == nullptr || own->failure ? kInfinity : own->median_seconds;
      searches.push_back(
          {KnobSearch(contestant.candidate.engine, contestant.engine->configurations(problem_, request_)),
           contestant.candidate, seconds});
    }
    while (!searches.empty()) {
      if (time_left() <= 0) {
        partial_ = true;
        return;
      }
      const auto first = std::min_element(searches.begin(), searches.end(),
                                          [](const Search& a, const Search& b) { return a.seconds < b.seconds; });
      const auto candidate = first->knobs.next(first->best);
      if (!candidate) {
        searches.erase(first);
        continue;
      }
      const auto seconds = try_variant(bench, *candidate);
      if (!seconds) continue;
      if (*seconds < first->seconds) {
        first->seconds = *seconds;
        first->best = *candidate;
      }
    }
  }

  // Its time, where it has one.
  std::optional<double> try_variant(Workbench& bench, const Candidate& candidate) {
    const Engine& engine = *contestant_of(candidate.engine).engine;
    if (filtered(problem_, engine, candidate.knobs, options_.filter, request_)) return std::nullopt;
    const auto open = unsettled({candidate});
    if (!open.ok()) return std::nullopt;
    if (open->empty()) return settled_.back().failure ? std::nullopt : std::optional(settled_.back().median_seconds);
    const double best = best_seconds();
    if (!affords(candidate, planning_seconds())) return std::nullopt;
    Runner* const runner = screen(bench, bench.plan(candidate));
    if (runner == nullptr) return std::nullopt;
    const bool poor = runner->measurement.median_seconds > kPromising * best;
    if (poor && cut_ < kInfinity && !is_sampled_further(runner->measurement)) {
      runner->plan.reset();
      runner->measurement.state = MeasurementState::cut_off;
      report(runner->measurement);
    } else {
      // Beside the best again, since the machine may not be what it was.
      std::vector<Runner*> racing = {runner};
      if (incumbent_ != nullptr) racing.push_back(incumbent_);
      race(bench, racing, time_left());
      keep_incumbent(*runner);
      if (runner->measurement.failure) return std::nullopt;
    }
    return runner->measurement.median_seconds;
  }

  void report(const Measurement& measurement) {
    if (options_.store != nullptr) {
      if (auto stored = options_.store->store(key_, measurement); !stored.ok()) not_stored_ = stored.error();
    }
    if (log_enabled(LogLevel::info)) {
      log(measurement.failure ? LogLevel::error : LogLevel::info, "measured",
          {{"problem", key_.problem},
           {"candidate", print(measurement.candidate)},
           {"seconds", fmt::format("{:.3g}", measurement.median_seconds)},
           {"samples", fmt::format("{}", measurement.samples)},
           {"state", name_of(measurement.state)},
           {"failure", measurement.failure ? measurement.failure->message : std::string()}});
    }
    if (progress_ && !progress_(measurement, done_, std::max(done_, total_))) stopped_ = true;
  }

  struct Contestant {
    Candidate candidate;
    const Engine* engine;
  };
  const Contestant& contestant_of(const std::string& engine) const {
    return *std::find_if(contestants_.begin(), contestants_.end(),
                         [&](const Contestant& contestant) { return contestant.candidate.engine == engine; });
  }
  const Measurement* measurement_of(const Candidate& candidate) const {
    for (const Measurement& m : settled_) {
      if (m.candidate == candidate) return &m;
    }
    for (const auto& runner : runners_) {
      if (runner->measurement.candidate == candidate) return &runner->measurement;
    }
    return nullptr;
  }

  Result<Selection> choose() {
    Measured measured{.measurements = std::move(settled_),
                      .any_new = !runners_.empty(),
                      .partial = partial_ || stopped_ || lost_,
                      .done = done_,
                      .total = total_,
                      .excluded = std::move(excluded_),
                      .lost = std::move(lost_),
                      .not_stored = std::move(not_stored_)};
    for (const auto& runner : runners_) measured.measurements.push_back(std::move(runner->measurement));
    return Decision(problem_, ranked_, engines_, options_, request_).of(std::move(measured));
  }

  const ConvProblem& problem_;
  std::span<const Candidate> ranked_;
  std::span<const Candidate> wanted_;  // the first of them
  std::span<const Engine* const> engines_;
  const SelectionOptions& options_;
  const PlanRequest& request_;
  const Habits habits_;
  const SelectionProgress& progress_;
  const Effort effort_;
  Planner::Batch* ahead_;  // null: plans are made here
  const MeasurementKey key_;
  const double start_;
  const double cut_;  // so many times slower than the best is out

  std::optional<Planner> planner_;  // once it is needed
  std::optional<EnergyCounter> counter_;
  std::vector<Contestant> contestants_;  // engines with their default candidates, best predicted first
  std::vector<Candidate> open_;          // of those, the ones to measure
  std::vector<Measurement> settled_;     // known from the store
  std::vector<std::unique_ptr<Runner>> runners_;
  Runner* incumbent_ = nullptr;  // the fastest of them, while knobs are searched
  double planning_ = 0;          // seconds, of the last plans made
  std::string excluded_;         // by what only plans know
  std::optional<Error> not_stored_;
  const Workbench* bench_ = nullptr;  // while something is measured
  std::optional<Error> lost_;         // the device, while it measured
  bool stopped_ = false;
  bool partial_ = false;  // something that may win was not measured, or not to the end
  int done_ = 0;
  int total_ = 0;
};

}  // namespace

Result<Selection> choose_by_measuring(const ConvProblem& problem, std::span<const Candidate> ranked, std::size_t wanted,
                                      std::span<const Engine* const> engines, const SelectionOptions& options,
                                      const PlanRequest& request, bool to_the_end, const SelectionProgress& progress) {
  const Effort effort = to_the_end ? full() : thorough();
  return Tuner(problem, ranked, wanted, engines, options, request, progress, effort).run();
}

Result<Selection> measure_offered(const ConvProblem& problem, std::span<const Candidate> candidates,
                                  std::span<const Engine* const> engines, const SelectionOptions& options,
                                  const PlanRequest& request, Planner::Batch* planned,
                                  const SelectionProgress& progress) {
  return Tuner(problem, candidates, candidates.size(), engines, options, request, progress, quick(), planned).run();
}

}  // namespace convoy::selection
