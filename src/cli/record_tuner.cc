#include "cli/record_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <span>
#include <thread>

#include "base/clock.h"
#include "base/spent.h"
#include "cli/interrupt.h"
#include "cli/offers.h"
#include "cli/tuning.h"
#include "core/provider.h"
#include "engines/cuda/reference/reference_kernels.h"
#include "report/format.h"
#include "select/choose/candidates.h"
#include "select/choose/filter.h"
#include "select/choose/former_knobs.h"
#include "select/choose/objective.h"
#include "select/choose/remembered.h"
#include "select/measure/habits.h"
#include "select/measure/planner.h"
#include "select/tune/rounds.h"
#include "select/tune/tuner.h"

namespace convoy::cli {
namespace {

// Where no budget is given: on a processor so long for each; on a GPU so many times as long in all as what cuDNN offers
// first and what stands in for it took, as if each problem had taken the least.
constexpr double kSecondsOfEach = 2;
constexpr double kTimesOffered = 1.5;
constexpr double kLeastOfEach = 0.1;
constexpr std::int64_t kAutomatic = -1;    // a knob that is left to cuDNN
constexpr std::size_t kProblemsAhead = 3;  // whose plans are made while one is measured

}  // namespace

RecordTuner::RecordTuner(const Program& program, const report::Record& record, const RecordTuning& tuning,
                         const SelectionOptions& options, const PlanRequest& request, WatchedStore& store)
    : program_(program), tuning_(tuning), options_(options), request_(request), store_(store), bar_("tuning") {
  options_.mode = SelectionMode::measured;
  options_.store = &store_;
  same_library_ = is_same_library(record.cudnn);
  list(record);
  const Spent spent("finding what ran");
  on_all_threads([this](Recorded& each) {
    find_what_ran(each);
    estimate(each);
  });
  weigh();
}

Result<void> RecordTuner::run() {
  if (request_.kind() == DeviceKind::cuda) {
    compile_verdicts();
    measure_what_is_offered();
    if (program_.shared.budget < 0) {
      const auto inferred = std::ranges::count_if(recorded_, [](const Recorded& each) { return each.inferred; });
      const double least = kLeastOfEach * static_cast<double>(inferred);
      options_.budget_seconds = kTimesOffered * std::max(monotonic_seconds() - tuning_.start, least);
    }
    CONVOY_CHECK(share_budget());
  } else if (program_.shared.budget < 0) {
    for (Recorded& each : recorded_) {
      if (interrupted()) break;
      measure(each, kSecondsOfEach, false);
    }
  } else {
    CONVOY_CHECK(share_budget());
  }
  bar_.finish();
  return {};
}

double RecordTuner::covered() const {
  double sum = 0;
  for (const Recorded& each : recorded_) sum += each.inferred && !each.selection.measurements.empty() ? each.share : 0;
  return std::min(sum, 1.0);
}

const Measurement* RecordTuner::best_of(std::span<const Measurement> all, const Objective& objective,
                                        const Candidate& expected,
                                        FunctionRef<bool(const Measurement&)> may_win) const {
  return selection::best_of(all, objective, {&expected, 1}, request_.kind(), may_win);
}

Finding RecordTuner::finding(const Recorded& each) const {
  Finding finding;
  const std::vector<Measurement>& all = each.selection.measurements;
  const auto time_of = [&](const Candidate& candidate) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Measurement& m) { return !m.failure && m.candidate == candidate; });
    return found == all.end() ? 0 : found->median_seconds;
  };
  for (std::size_t i = 0; i < each.plans.size(); ++i) {
    const double seconds = each.ran[i] ? time_of(*each.ran[i]) : 0;
    if (i == 0) finding.ran_seconds = seconds;
    if (seconds <= 0) continue;
    finding.timed_calls += each.plans[i].calls;
    finding.seconds += seconds * static_cast<double>(each.plans[i].calls);
  }
  const auto right = [&](const Measurement& m) {
    return selection::may_be_chosen(each.problem, m, program_.engines(), options_.filter, request_);
  };
  const Candidate expected = !each.ran.empty() && each.ran[0] ? *each.ran[0] : each.selection.candidate;
  finding.best = best_of(all, {}, expected, [&](const Measurement& m) { return right(m) && can_be_given(each, m); });
  const Measurement* const any = best_of(all, {}, expected, right);
  if (any != nullptr && (finding.best == nullptr || any->median_seconds < finding.best->median_seconds)) {
    finding.elsewhere = any;
  }
  if (finding.best == nullptr) return finding;
  for (std::size_t i = 0; i < each.plans.size(); ++i) {
    const double seconds = each.ran[i] ? time_of(*each.ran[i]) : 0;
    finding.gain += std::max(seconds - finding.best->median_seconds, 0.0) * static_cast<double>(each.plans[i].calls);
  }
  return finding;
}

std::string RecordTuner::predicted_and_known() const {
  std::array<int, 4> sources{};
  for (const Recorded& each : recorded_) ++sources[static_cast<std::size_t>(each.source)];
  std::string text;
  const std::array<const char*, 4> names = {"the stored time of what ran", "the best stored time", "a prediction",
                                            "nothing: no engine here can run them"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (sources[i] > 0) text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", sources[i], names[i]);
  }
  return text;
}

bool RecordTuner::is_same_library(const std::string& cudnn) {
  for (const Engine* engine : program_.engines()) {
    const auto provider = provider_of(*engine);
    if (!engine->info().name.starts_with(kGraphEngines) || !provider) continue;
    here_ = *provider;
    recorded_with_ = "cuDNN " + cudnn;
    return here_ == recorded_with_;
  }
  return true;
}

void RecordTuner::list(const report::Record& record) {
  for (const report::RecordedGraph& graph : record.graphs) {
    if (graph.problem.empty()) continue;
    const auto problem = parse_problem(graph.problem);
    if (!problem) continue;  // parse_record has read it
    const MathMode inferred = report::inferred_math(graph).math;
    std::vector<MathMode> modes = {inferred};
    if (inferred != MathMode::reduced) {
      modes.push_back(inferred == MathMode::strict ? MathMode::tf32 : MathMode::strict);
    }
    for (const MathMode math : modes) add(*problem, math, math == inferred, graph);
  }
}

void RecordTuner::add(ConvProblem problem, MathMode math, bool inferred, const report::RecordedGraph& graph) {
  problem.math = math;
  auto known =
      std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& r) { return r.problem == problem; });
  if (known == recorded_.end()) {
    known = recorded_.insert(known, Recorded{.problem = problem, .inferred = inferred});
  }
  known->inferred = known->inferred || inferred;
  known->legacy = known->legacy || report::calls_legacy_api(graph);
  known->calls += graph.calls;
  for (const report::RecordedPlan& plan : graph.plans) {
    if (plan.calls > 0) known->plans.push_back(plan);
  }
}

template <class Body>
void RecordTuner::on_all_threads(Body body) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < std::max(1, request_.cpu.logical_cpus); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < recorded_.size(); at = next++) body(recorded_[at]);
    });
  }
}

void RecordTuner::find_what_ran(Recorded& each) {
  for (const report::RecordedPlan& plan : each.plans) {
    auto candidate = measurable(each.problem, plan.candidate);
    if (!candidate.ok() && each.not_here.empty()) each.not_here = candidate.error().message;
    each.ran.push_back(candidate.ok() ? std::optional(*std::move(candidate)) : std::nullopt);
  }
}

Result<Candidate> RecordTuner::measurable(const ConvProblem& problem, const std::string& text) const {
  CONVOY_TRY(Candidate recorded, parse_candidate(text));
  recorded = selection::with_named_knobs(recorded, &problem).value_or(recorded);
  if (!same_library_) {
    return Error{ErrorCode::unsupported, fmt::format("it was recorded with {}, here is {}", recorded_with_, here_)};
  }
  CONVOY_TRY(const Engine* engine,
             selection::runnable_engine(problem, {recorded.engine, {}}, program_.engines(), request_));
  const Configurations configurations = engine->configurations(problem, request_);
  KnobValues knobs = recorded.knobs;
  for (const Knob& knob : configurations.knobs) {
    const bool named = std::any_of(knobs.begin(), knobs.end(), [&](const KnobValue& k) { return k.name == knob.name; });
    const bool automatic = std::find(knob.values.begin(), knob.values.end(), kAutomatic) != knob.values.end();
    if (!named && automatic) knobs.push_back({knob.name, kAutomatic});
  }
  CONVOY_TRY(knobs, completed(knobs, configurations));
  return Candidate{recorded.engine, std::move(knobs)};
}

void RecordTuner::weigh() {
  double sum = 0;
  for (Recorded& each : recorded_) {
    each.share = each.seconds * static_cast<double>(each.calls);
    if (each.inferred) sum += each.share;
  }
  for (Recorded& each : recorded_) each.share = sum > 0 ? each.share / sum : 0;
  std::stable_sort(recorded_.begin(), recorded_.end(), [](const Recorded& a, const Recorded& b) {
    return a.inferred != b.inferred ? a.inferred : a.share > b.share;
  });
}

void RecordTuner::estimate(Recorded& each) {
  const auto known = store_.find(measurement_key(each.problem, request_, options_.caches));
  double best = std::numeric_limits<double>::infinity();
  for (const Measurement& m : known.ok() ? *known : std::vector<Measurement>()) {
    if (m.failure || !is_current(m, program_.engines())) continue;
    if (!each.ran.empty() && each.ran[0] == m.candidate) {
      each.seconds = m.median_seconds;
      each.source = Share::of_what_ran;
      return;
    }
    best = std::min(best, m.median_seconds);
  }
  if (best < std::numeric_limits<double>::infinity()) {
    each.seconds = best;
    each.source = Share::of_the_best_known;
  } else if (const auto predicted = predict_best(each.problem, program_.engines(), options_.filter, request_)) {
    each.seconds = predicted->seconds;
    each.source = Share::predicted;
  }
}

double RecordTuner::left() const {
  const double budget = options_.budget_seconds;
  return budget > 0 ? budget - (monotonic_seconds() - tuning_.start) : std::numeric_limits<double>::infinity();
}

Result<void> RecordTuner::share_budget() {
  std::vector<double> weights;
  double sum = 0;
  for (const Recorded& each : recorded_) sum += each.share;
  for (const Recorded& each : recorded_) {
    weights.push_back(0.5 / static_cast<double>(recorded_.size()) + (sum > 0 ? 0.5 * each.share / sum : 0));
  }
  return selection::measure_in_rounds(
      weights, [this] { return left(); },
      [this](const selection::Slice& slice) -> Result<selection::SliceOutcome> {
        Recorded& each = recorded_[slice.problem];
        const std::int64_t before = store_.stored;
        const bool over = interrupted() || slice.seconds < 0;
        measure(each, over ? -1 : slice.seconds, slice.likely_only);
        return selection::SliceOutcome{!each.partial, store_.stored > before};
      });
}

void RecordTuner::compile_verdicts() {
  std::vector<ConvProblem> problems;
  for (const Recorded& each : recorded_) problems.push_back(each.problem);
  static_cast<void>(
      cuda::compile_references(problems, request_.cuda->architecture));  // else the first verdict says why
}

void RecordTuner::measure_what_is_offered() {
  const double start = monotonic_seconds();
  measure_quickly([this](const Recorded& each) {
    return offers(each.problem, ran_once(each), program_.engines(), options_.filter, request_);
  });
  offered_seconds_ = monotonic_seconds() - start;
  measure_quickly(
      [this](const Recorded& each) { return stand_ins(each.problem, program_.engines(), options_.filter, request_); });
}

template <class List>
void RecordTuner::measure_quickly(List list) {
  struct Open {
    std::vector<Candidate> candidates;
    std::unique_ptr<selection::Planner::Batch> plans;
  };
  const auto engines = program_.engines();
  selection::Planner planner(selection::habits_on(request_).planning_threads);
  std::deque<Open> begun;
  std::size_t next = 0;
  for (std::size_t i = 0; i < recorded_.size() && recorded_[i].inferred; ++i) {
    for (; next < recorded_.size() && recorded_[next].inferred && next <= i + kProblemsAhead; ++next) {
      const Recorded& each = recorded_[next];
      Open open{unsettled(each.problem, list(each), engines, options_, request_), nullptr};
      open.plans = planner.start(each.problem, open.candidates, engines, request_);
      begun.push_back(std::move(open));
    }
    const Open open = std::move(begun.front());
    begun.pop_front();
    if (interrupted() || left() <= 0) break;
    if (open.candidates.empty()) continue;
    SelectionOptions options = options_;
    options.budget_seconds = options_.budget_seconds > 0 ? left() : 0;
    measured_so(recorded_[i], true, [&](const SelectionProgress& progress) {
      return selection::measure_offered(recorded_[i].problem, open.candidates, engines, options, request_,
                                        open.plans.get(), progress);
    });
  }
}

std::vector<Candidate> RecordTuner::ran_once(const Recorded& each) {
  std::vector<Candidate> candidates;
  for (const auto& ran : each.ran) {
    if (ran && std::find(candidates.begin(), candidates.end(), *ran) == candidates.end()) candidates.push_back(*ran);
  }
  return candidates;
}

void RecordTuner::measure(Recorded& each, double seconds, bool likely_only) {
  SelectionOptions options = options_;
  options.budget_seconds = seconds;  // 0: no limit; negative: nothing is measured
  options.likely_only = likely_only;
  std::vector<Candidate> first = ran_once(each);
  for (Candidate& own : stand_ins(each.problem, program_.engines(), options_.filter, request_)) {
    if (std::find(first.begin(), first.end(), own) == first.end()) first.push_back(std::move(own));
  }
  measured_so(each, likely_only, [&](const SelectionProgress& progress) {
    return selection::select_with_first(each.problem, program_.engines(), options, request_, first, progress);
  });
}

template <class Select>
void RecordTuner::measured_so(Recorded& each, bool some, Select select) {
  std::vector<Candidate> seen;
  auto selection = select([&](const Measurement& measurement, int, int) {
    if (std::find(seen.begin(), seen.end(), measurement.candidate) == seen.end()) {
      seen.push_back(measurement.candidate);
    }
    show(each, measurement);
    return !interrupted();
  });
  each.measured += static_cast<std::int64_t>(seen.size());
  each.failure.reset();
  if (selection.ok()) {
    each.partial = some || selection->partial;
    keep(each, *std::move(selection));
  } else {
    each.partial = some;
    if (!some || each.selection.measurements.empty()) each.failure = selection.error();
  }
}

void RecordTuner::keep(Recorded& each, Selection found) {
  for (Measurement& before : each.selection.measurements) {
    const bool again =
        std::ranges::any_of(found.measurements, [&](const Measurement& m) { return m.candidate == before.candidate; });
    if (!again) found.measurements.push_back(std::move(before));
  }
  selection::sort_measurements(found.measurements);
  const Measurement* const best =
      best_of(found.measurements, options_.objective, found.candidate, [&](const Measurement& m) {
        return selection::may_be_chosen(each.problem, m, program_.engines(), options_.filter, request_);
      });
  if (best != nullptr) found.candidate = best->candidate;
  each.selection = std::move(found);
}

void RecordTuner::show(const Recorded& each, const Measurement& measurement) {
  const auto index = static_cast<double>(&each - recorded_.data());
  bar_.update(index / static_cast<double>(recorded_.size()),
              fmt::format("covers {:.0f}% of the calls' time  {}  {}", 100 * covered(),
                          report::short_name(each.problem), print(measurement.candidate)));
}

bool RecordTuner::can_be_given(const Recorded& each, const Measurement& m) const {
  const Candidate& candidate = m.candidate;
  if (each.plans.empty() || !each.ran[0]) return true;
  if (candidate == *each.ran[0]) return true;
  if (each.legacy && request_.kind() == DeviceKind::cuda) return false;
  const report::RecordedPlan& ran = each.plans.front();
  return report::loses_no_more(notes_of(each.problem, candidate),
                               ran.in_place_of.empty() ? notes_of(each.problem, *each.ran[0]) : ran.notes);
}

std::vector<std::string> RecordTuner::notes_of(const ConvProblem& problem, const Candidate& candidate) const {
  for (const Engine* engine : program_.engines()) {
    if (engine->info().name == candidate.engine) return engine->notes(problem, candidate.knobs, request_);
  }
  return {};
}

}  // namespace convoy::cli
