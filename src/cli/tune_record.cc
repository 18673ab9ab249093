#include "cli/tune_record.h"

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
#include "cli/tune_report.h"
#include "cli/tuning.h"
#include "core/provider.h"
#include "device/cuda/cudnn.h"
#include "io/file.h"
#include "report/format.h"
#include "report/program_report.h"
#include "report/progress.h"
#include "report/table.h"
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

constexpr double kSecondsOfEach = 2;     // where no budget is given
constexpr std::int64_t kAutomatic = -1;  // a knob that is left to cuDNN
constexpr const char* kGraphEngines = "cudnn.eng";
constexpr std::size_t kProblemsAhead = 3;  // whose plans are made while one is measured

// Where a share of the time comes from.
enum class Share { of_what_ran, of_the_best_known, predicted, unknown };

// A problem of the record in one math mode.
struct Recorded {
  ConvProblem problem;
  std::int64_t calls = 0;
  bool inferred = true;                       // that the program allows this math mode
  bool legacy = false;                        // the program asked by cuDNN's older interface
  std::vector<report::RecordedPlan> plans;    // that ran, the most called first
  std::vector<std::optional<Candidate>> ran;  // of each plan; nothing: it can't be measured here
  std::string not_here;                       // why
  double seconds = 0;                         // of a call, before tuning
  Share source = Share::unknown;
  double share = 0;  // of the time of all calls

  Selection selection;
  std::optional<Error> failure;
  std::int64_t measured = 0;
  bool partial = true;
};

// What tuning found of one of them.
struct Finding {
  double ran_seconds = 0;                  // of the plan that was called most; 0: not known
  std::int64_t timed_calls = 0;            // of plans whose time is known
  double seconds = 0;                      // of these calls
  const Measurement* best = nullptr;       // that the program can be given
  const Measurement* elsewhere = nullptr;  // faster than that, but with other losses, or out of the older API's reach
  double gain = 0;                         // of the timed calls
};

class RecordTuner {
 public:
  RecordTuner(const Program& program, const report::Record& record, const RecordTuning& tuning,
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

  Result<void> run() {
    if (request_.kind() == DeviceKind::cuda) measure_what_is_offered();
    if (program_.shared.budget < 0) {
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

  std::span<const Recorded> recorded() const { return recorded_; }
  // How long it took to measure what a program is offered, of all problems.
  double offered_seconds() const { return offered_seconds_; }
  bool same_library() const { return same_library_; }
  const std::string& here() const { return here_; }  // "cuDNN 9.14.0"

  // Of the time of all calls, as it was known before, what is measured by now.
  double covered() const {
    double sum = 0;
    for (const Recorded& each : recorded_)
      sum += each.inferred && !each.selection.measurements.empty() ? each.share : 0;
    return std::min(sum, 1.0);
  }

  const Measurement* best_of(std::span<const Measurement> all, const Objective& objective, const Candidate& expected,
                             FunctionRef<bool(const Measurement&)> may_win) const {
    return selection::best_of(all, objective, {&expected, 1}, request_.kind(), may_win);
  }

  Finding finding(const Recorded& each) const {
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

  std::string predicted_and_known() const {
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

 private:
  // An engine's index means something for one version only.
  bool is_same_library(const std::string& cudnn) {
    for (const Engine* engine : program_.engines()) {
      const auto provider = provider_of(*engine);
      if (!engine->info().name.starts_with(kGraphEngines) || !provider) continue;
      here_ = *provider;
      recorded_with_ = "cuDNN " + cudnn;
      return here_ == recorded_with_;
    }
    return true;
  }

  // A problem once, whatever device it ran on.
  void list(const report::Record& record) {
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

  void add(ConvProblem problem, MathMode math, bool inferred, const report::RecordedGraph& graph) {
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

  // What is asked of engines takes tens of milliseconds a problem.
  template <class Body>
  void on_all_threads(Body body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (int i = 0; i < std::max(1, request_.cpu.logical_cpus); ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < recorded_.size(); at = next++) body(recorded_[at]);
      });
    }
  }

  void find_what_ran(Recorded& each) {
    for (const report::RecordedPlan& plan : each.plans) {
      auto candidate = measurable(each.problem, plan.candidate);
      if (!candidate.ok() && each.not_here.empty()) each.not_here = candidate.error().message;
      each.ran.push_back(candidate.ok() ? std::optional(*std::move(candidate)) : std::nullopt);
    }
  }

  // A recorded configuration with all of the engine's knobs: those that it doesn't name were left to cuDNN.
  Result<Candidate> measurable(const ConvProblem& problem, const std::string& text) const {
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
      const bool named =
          std::any_of(knobs.begin(), knobs.end(), [&](const KnobValue& k) { return k.name == knob.name; });
      const bool automatic = std::find(knob.values.begin(), knob.values.end(), kAutomatic) != knob.values.end();
      if (!named && automatic) knobs.push_back({knob.name, kAutomatic});
    }
    CONVOY_TRY(knobs, completed(knobs, configurations));
    return Candidate{recorded.engine, std::move(knobs)};
  }

  // Shares of the time of the inferred problems, and the order by them.
  void weigh() {
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

  void estimate(Recorded& each) {
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

  double left() const {
    const double budget = options_.budget_seconds;
    return budget > 0 ? budget - (monotonic_seconds() - tuning_.start) : std::numeric_limits<double>::infinity();
  }

  // Half of it to all problems alike, half by their shares.
  Result<void> share_budget() {
    std::vector<double> weights;
    double sum = 0;
    for (const Recorded& each : recorded_) sum += each.share;
    for (const Recorded& each : recorded_) {
      weights.push_back(0.5 / static_cast<double>(recorded_.size()) + (sum > 0 ? 0.5 * each.share / sum : 0));
    }
    return selection::take_turns(
        weights, [this] { return left(); },
        [this](const selection::Turn& turn) -> Result<selection::TurnOutcome> {
          Recorded& each = recorded_[turn.problem];
          const std::int64_t before = store_.stored;
          const bool over = interrupted() || turn.seconds < 0;
          measure(each, over ? -1 : turn.seconds, turn.likely_only);
          return selection::TurnOutcome{!each.partial, store_.stored > before};
        });
  }

  // First, of all problems, what ran and what cuDNN would offer: what benchmark mode builds and times. Then what runs
  // in place of a plan.
  void measure_what_is_offered() {
    const double start = monotonic_seconds();
    measure_quickly([this](const Recorded& each) {
      return offers(each.problem, ran_once(each), program_.engines(), options_.filter, request_);
    });
    offered_seconds_ = monotonic_seconds() - start;
    measure_quickly([this](const Recorded& each) {
      return stand_ins(each.problem, program_.engines(), options_.filter, request_);
    });
  }

  // While one problem is measured the plans of the next ones are made.
  template <class List>
  void measure_quickly(List list) {
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

  // What ran, each once.
  static std::vector<Candidate> ran_once(const Recorded& each) {
    std::vector<Candidate> candidates;
    for (const auto& ran : each.ran) {
      if (ran && std::find(candidates.begin(), candidates.end(), *ran) == candidates.end()) candidates.push_back(*ran);
    }
    return candidates;
  }

  void measure(Recorded& each, double seconds, bool likely_only) {
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

  // `some`: there are other candidates.
  template <class Select>
  void measured_so(Recorded& each, bool some, Select select) {
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

  // With what earlier looks at other candidates found.
  void keep(Recorded& each, Selection found) {
    for (Measurement& before : each.selection.measurements) {
      const bool again = std::ranges::any_of(found.measurements,
                                             [&](const Measurement& m) { return m.candidate == before.candidate; });
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

  void show(const Recorded& each, const Measurement& measurement) {
    const auto index = static_cast<double>(&each - recorded_.data());
    bar_.update(index / static_cast<double>(recorded_.size()),
                fmt::format("covers {:.0f}% of the calls' time  {}  {}", 100 * covered(),
                            report::short_name(each.problem), print(measurement.candidate)));
  }

  // Whether a program that runs what it ran can run this, offered or in place of a plan, and loses nothing by it. In
  // cuDNN's older API nothing else can run.
  bool can_be_given(const Recorded& each, const Measurement& m) const {
    const Candidate& candidate = m.candidate;
    if (each.plans.empty() || !each.ran[0]) return true;
    if (candidate == *each.ran[0]) return true;
    if (each.legacy && request_.kind() == DeviceKind::cuda) return false;
    const report::RecordedPlan& ran = each.plans.front();
    return report::loses_no_more(notes_of(each.problem, candidate),
                                 ran.in_place_of.empty() ? notes_of(each.problem, *each.ran[0]) : ran.notes);
  }

  std::vector<std::string> notes_of(const ConvProblem& problem, const Candidate& candidate) const {
    for (const Engine* engine : program_.engines()) {
      if (engine->info().name == candidate.engine) return engine->notes(problem, candidate.knobs, request_);
    }
    return {};
  }

  const Program& program_;
  const RecordTuning& tuning_;
  SelectionOptions options_;
  const PlanRequest& request_;
  WatchedStore& store_;
  report::Progress bar_;
  double offered_seconds_ = 0;
  bool same_library_ = true;
  std::string here_, recorded_with_;
  std::vector<Recorded> recorded_;  // what the program is inferred to do first, the largest shares first
};

std::string state_of(const Recorded& each) {
  if (each.failure) return "failed";
  if (each.selection.measurements.empty()) return "not measured";
  if (!each.inferred) return fmt::format("if it did {}", name_of(each.problem.math));
  return each.partial ? "partial" : each.measured == 0 ? "known before" : "";
}

// The table; for --json, a row each.
Json say_findings(const Program& program, const RecordTuner& tuner) {
  using report::Align;
  report::Table table;
  table.column("calls", Align::right).column("share", Align::right, 2).column("problem").column("ran", Align::left, 1);
  table.column("time", Align::right).column("best", Align::left).column("time", Align::right);
  table.column("gain x calls", Align::right).column("known", Align::right, 3).column("now", Align::right, 3).column("");
  Json json = Json::array();
  for (const Recorded& each : tuner.recorded()) {
    const Finding finding = tuner.finding(each);
    const bool gains = each.inferred && finding.gain > 0;
    const std::string math =
        each.problem.math == MathMode::reduced ? "" : fmt::format(" {}", name_of(each.problem.math));
    table.row({fmt::format("{}", each.calls), each.inferred ? report::percent(each.share) : "",
               report::short_name(each.problem) + math, each.plans.empty() ? "-" : each.plans.front().candidate,
               finding.ran_seconds > 0 ? report::seconds(finding.ran_seconds) : "-",
               finding.best != nullptr ? print(finding.best->candidate) : "-",
               finding.best != nullptr ? report::seconds(finding.best->median_seconds) : "-",
               gains ? report::seconds(finding.gain) : "", fmt::format("{}", each.selection.measurements.size()),
               fmt::format("{}", each.measured), state_of(each)},
              each.failure ? report::Style::bad
              : gains      ? report::Style::good
                           : report::Style::plain);
    Json entry = {{"problem", print(each.problem)},
                  {"calls", each.calls},
                  {"inferred", each.inferred},
                  {"share", each.share},
                  {"measured", each.measured},
                  {"known", each.selection.measurements.size()},
                  {"partial", each.partial},
                  {"ran", Json::array()},
                  {"timed_calls", finding.timed_calls},
                  {"seconds", finding.seconds},
                  {"gain_seconds", each.inferred ? Json(finding.gain) : Json()}};
    for (const report::RecordedPlan& plan : each.plans) {
      entry["ran"].push_back({{"candidate", plan.candidate}, {"calls", plan.calls}});
    }
    if (finding.ran_seconds > 0) entry["ran_seconds"] = finding.ran_seconds;
    if (!each.not_here.empty()) entry["not_measured"] = each.not_here;
    const auto put = [&](const char* name, const Measurement* m) {
      if (m != nullptr) entry[name] = {{"candidate", print(m->candidate)}, {"seconds", m->median_seconds}};
    };
    put("best", finding.best);
    put("elsewhere", finding.elsewhere);
    if (each.failure) entry["failure"] = each.failure->message;
    json.push_back(std::move(entry));
  }
  program.say(table);
  return json;
}

// What went wrong, and why what ran has no time, each once.
void say_remarks(const Program& program, const RecordTuner& tuner, const report::Record& record,
                 const PlanRequest& request) {
  std::vector<std::string> remarks;
  const auto add = [&](const std::string& text) {
    if (!text.empty() && std::find(remarks.begin(), remarks.end(), text) == remarks.end()) remarks.push_back(text);
  };
  for (const report::RecordedGraph& graph : record.graphs) {
    if (request.cuda && !graph.device.empty() && graph.device != request.cuda->name) {
      add(fmt::format("recorded on {}, measured on {}: what is stored speaks for the latter", graph.device,
                      request.cuda->name));
    }
  }
  for (const Recorded& each : tuner.recorded()) {
    if (each.inferred && !each.not_here.empty()) add("what ran can't be measured here: " + each.not_here);
    if (each.failure) add(each.failure->message);
    for (const std::string& warning : each.selection.warnings) {
      if (!each.partial) add(warning);
    }
  }
  for (const std::string& remark : remarks) program.note(remark);
}

// Where the seconds went; those of threads side by side add up.
Json spent_json() {
  Json json = Json::object();
  for (const auto& [name, sum] : spent_seconds()) json[name] = {{"seconds", sum.seconds}, {"times", sum.times}};
  return json;
}

std::string plan_text(std::span<const Recorded> all) {
  std::string text;
  for (const Recorded& each : all) {
    if (!each.failure && !each.selection.measurements.empty()) {
      text += fmt::format("{} -> {}\n", print(each.problem), print(each.selection.candidate));
    }
  }
  return text;
}

}  // namespace

Result<int> tune_record(const Program& program, const report::Record& record, const RecordTuning& tuning,
                        const SelectionOptions& options, const PlanRequest& request, WatchedStore& store,
                        const TuningDatabase& database) {
  for (const std::string& remark : report::former_names(record)) program.note(remark);
  RecordTuner tuner(program, record, tuning, options, request, store);
  if (!tuner.same_library()) {
    program.note(fmt::format(
        "the program uses cuDNN {}, here is {} ({}): times of the latter don't serve it. CONVOY_CUDNN names "
        "another file",
        record.cudnn, tuner.here(), cuda::cudnn_report().file));
  }
  CONVOY_CHECK(tuner.run());
  const std::string plan = plan_text(tuner.recorded());
  if (!tuning.plan_file.empty()) {
    const std::string text = plan_heading(tuning.name, request) + plan;
    CONVOY_CHECK(io::write_file(tuning.plan_file, std::as_bytes(std::span(text))));
  }
  std::vector<ConvolutionNode> convolutions;
  for (const Recorded& each : tuner.recorded()) convolutions.push_back({each.problem, {}});
  const Json rules = say_rule_uses(program, "--rules", options.rules, convolutions);
  CONVOY_TRY(const TuningDatabaseInfo info, database.info());
  program.say(fmt::format("{} on {}\n", tuning.name, place_of(request)));
  Json problems = say_findings(program, tuner);

  std::int64_t calls = 0, timed = 0, measured = 0, settled = 0, partial = 0;
  double seconds = 0, gain = 0, elsewhere = 0;
  bool wrong = false, unsupported = false;
  for (const Recorded& each : tuner.recorded()) {
    measured += each.measured;
    partial += each.partial;
    settled += !each.partial && each.measured == 0 && !each.failure;
    wrong = wrong || (each.failure && each.failure->code == ErrorCode::wrong_result);
    unsupported = unsupported || (each.failure && each.failure->code != ErrorCode::wrong_result);
    if (!each.inferred) continue;
    const Finding finding = tuner.finding(each);
    calls += each.calls;
    timed += finding.timed_calls;
    seconds += finding.seconds;
    gain += finding.gain;
    if (finding.elsewhere != nullptr && finding.best != nullptr) {
      elsewhere +=
          (finding.best->median_seconds - finding.elsewhere->median_seconds) * static_cast<double>(finding.timed_calls);
    }
  }
  const double spent = monotonic_seconds() - tuning.start;
  program.say(
      fmt::format("\n{} of {} calls have a time: {} with what ran, {} with the best that loses no precision or "
                  "determinism by it: a "
                  "gain of {} ({})",
                  timed, calls, report::seconds(seconds), report::seconds(seconds - gain), report::seconds(gain),
                  report::percent(seconds > 0 ? gain / seconds : 0)));
  if (elsewhere > 0) {
    program.say(
        fmt::format("{} more with other math or other notes, which convoy exec --like-benchmark gives a program as "
                    "far as its own filters take them",
                    report::seconds(elsewhere)));
  }
  program.say(fmt::format("covers {:.0f}% of the calls' time, shared out {}", 100 * tuner.covered(),
                          tuner.predicted_and_known()));
  if (tuner.offered_seconds() > 0) {
    program.say(fmt::format("what cuDNN offers first was measured in {}", report::seconds(tuner.offered_seconds())));
  }
  program.say(fmt::format("{} problems, {}; {} in {}, in {}", tuner.recorded().size(),
                          settled > 0 ? fmt::format("{} had nothing open and were skipped", settled) : "none skipped",
                          measured == 0 ? "nothing to measure" : fmt::format("{} candidates measured", measured),
                          report::seconds(spent), info.path));
  if (partial > 0) {
    program.say(fmt::format("{}: {} problem{} partial; the same command goes on from here",
                            interrupted() ? "interrupted" : "the time ended", partial, partial == 1 ? " is" : "s are"));
  }
  say_remarks(program, tuner, record, request);
  if (!info.remark.empty()) program.note(fmt::format("{}: {}", info.path, info.remark));
  program.document({{"target", tuning.name},
                    {"database", info.path},
                    {"measured", measured},
                    {"stored", store.stored},
                    {"skipped", settled},
                    {"partial", partial},
                    {"interrupted", interrupted()},
                    {"covered", tuner.covered()},
                    {"calls", calls},
                    {"timed_calls", timed},
                    {"seconds_of_what_ran", seconds},
                    {"gain_seconds", gain},
                    {"elsewhere_seconds", elsewhere},
                    {"seconds", spent},
                    {"offered_seconds", tuner.offered_seconds()},
                    {"spent", spent_json()},
                    {"plan", plan},
                    {"rules", rules},
                    {"problems", std::move(problems)}});
  return interrupted() ? kInterrupted : wrong ? kWrongResult : unsupported ? kUnsupported : kDone;
}

}  // namespace convoy::cli
