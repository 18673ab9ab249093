// convoy tune: measures what the tuning database doesn't know yet, and keeps it. Networks: tune_network.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/plan_flags.h"
#include "cli/target.h"
#include "cli/tune_network.h"
#include "cli/tune_record.h"
#include "cli/tune_report.h"
#include "cli/tuning.h"
#include "io/file.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/tune/rounds.h"

namespace convoy::cli {
namespace {

constexpr double kTuneBudget = 300;

struct TuneFlags {
  std::string target;
  std::string plan_file;
  bool again = false;
  bool all_knobs = false;
  bool verbose = false;
  std::string precision = "f32";
  std::string parts;
  InputFlags input;  // only --dim
};

// Half of a budget goes to all problems alike, half by what they are predicted to take in the network.
void weigh(std::vector<Tuned>& tuned, const SelectionFilter& filter, const PlanRequest& request) {
  static const float weights = 0;  // stands for those that are packed: predictions don't read them
  double sum = 0;
  for (Tuned& each : tuned) {
    PlanRequest own = request;
    if (each.convolution.constant_weights && request.packs_weights(each.convolution.problem))
      own.constant_weights = &weights;
    const auto best = predict_best(each.convolution.problem, all_engines(), filter, own);
    each.weight = best ? best->seconds * static_cast<double>(each.convolution.count) : 0;
    sum += each.weight;
  }
  for (Tuned& each : tuned)
    each.weight = 0.5 / static_cast<double>(tuned.size()) + (sum > 0 ? 0.5 * each.weight / sum : 0);
}

class Tuner {
 public:
  // `start`: since when the budget counts.
  Tuner(const Program& program, const TuneFlags& flags, WatchedStore& store, SelectionOptions options,
        PlanRequest request, std::vector<NetworkConvolution> convolutions, double start)
      : program_(program),
        store_(store),
        options_(std::move(options)),
        request_(std::move(request)),
        bar_("tuning"),
        again_(flags.again),
        start_(start) {
    options_.mode = SelectionMode::measured;
    for (NetworkConvolution& convolution : convolutions) {
      tuned_.emplace_back();
      tuned_.back().convolution = std::move(convolution);
    }
    weigh(tuned_, options_.filter, request_);
  }

  Result<void> run() {
    store_.only_fresh = again_;
    std::vector<double> weights;
    for (const Tuned& tuned : tuned_) weights.push_back(tuned.weight);
    auto done = selection::measure_in_rounds(
        weights, [this] { return left(); },
        [this](const selection::Slice& slice) -> Result<selection::SliceOutcome> {
          Tuned& tuned = tuned_[slice.problem];
          const bool measure = !interrupted() && slice.seconds >= 0;
          const bool answered = tuned.failure || !tuned.selection.candidate.engine.empty();
          const std::int64_t before = store_.stored;
          // A problem whose results are all stored needs no time, and every problem gets an answer.
          if (measure || !answered) CONVOY_CHECK(choose(tuned, measure, slice));
          return selection::SliceOutcome{!tuned.partial, store_.stored > before};
        });
    bar_.finish();
    return done;
  }

  std::vector<Tuned> take() { return std::move(tuned_); }

 private:
  double seconds() const { return monotonic_seconds() - start_; }
  double left() const {
    return options_.budget_seconds > 0 ? options_.budget_seconds - seconds() : std::numeric_limits<double>::infinity();
  }

  Result<void> choose(Tuned& tuned, bool measure, const selection::Slice& slice) {
    const ConvProblem& problem = tuned.convolution.problem;
    SelectionOptions options = options_;
    if (options.caches == CacheState::cold) options.caches = tuned.convolution.caches;
    WeightedRequest weighted{request_, {}};
    if (tuned.convolution.constant_weights && request_.packs_weights(problem)) {
      // Nobody reads them where nothing is measured: hundreds of megabytes are not filled for that.
      static const float unread = 0;
      weighted.request.constant_weights = &unread;
      if (measure) {
        CONVOY_TRY(weighted, with_constant_weights(problem, request_));
      }
    }
    if (measure) {
      options.budget_seconds = slice.seconds;
      options.likely_only = slice.likely_only;
    } else {
      options.mode = SelectionMode::heuristic;
    }
    auto selection = select(problem, program_.engines(), options, weighted.request, tuned.convolution.nodes,
                            [&](const Measurement& measurement, int done, int total) {
                              show(tuned, measurement, done, total);
                              return !interrupted();
                            });
    if (!selection.ok()) {
      tuned.failure = selection.error();
      tuned.partial = slice.likely_only;
      return {};
    }
    tuned.failure.reset();
    tuned.selection = *std::move(selection);
    tuned.alone = tuned.selection.measurements;
    tuned.partial = !measure || tuned.selection.partial;
    return {};
  }

  void show(const Tuned& tuned, const Measurement& measurement, int done, int total) {
    const auto index = static_cast<double>(&tuned - tuned_.data());
    const double part = total > 0 ? static_cast<double>(done) / total : 0;
    const double fraction = (index + part) / static_cast<double>(tuned_.size());
    double rest = fraction > 0 ? seconds() * (1 - fraction) / fraction : 0;
    if (options_.budget_seconds > 0) rest = std::min(rest, std::max(left(), 0.0));
    bar_.update(fraction, fmt::format("{} left  {}  {}", report::seconds(rest),
                                      report::short_name(tuned.convolution.problem), print(measurement.candidate)));
  }

  const Program& program_;
  WatchedStore& store_;
  SelectionOptions options_;
  PlanRequest request_;
  report::Progress bar_;
  bool again_;
  double start_;
  std::vector<Tuned> tuned_;
};

Result<std::vector<NetworkConvolution>> convolutions_of(const Target& target, std::span<const TensorDesc> inputs,
                                                        const TuneFlags& flags, const NetworkOptions& options,
                                                        const PlanRequest& request) {
  std::vector<NetworkConvolution> convolutions;
  if (target.network != nullptr) {
    CONVOY_TRY(convolutions, target.network->convolutions(inputs, options));
    if (convolutions.empty()) {
      return Error{ErrorCode::unsupported,
                   flags.target + ": the network has no convolution whose size is known beforehand"};
    }
  }
  for (const ListedProblem& listed : target.problems) {
    convolutions.push_back({listed.problem, request.packs_weights(listed.problem), listed.count, listed.name});
  }
  return convolutions;
}

std::string measured_text(std::int64_t candidates, std::int64_t steps, bool partial) {
  if (candidates == 0 && steps == 0) return partial ? "nothing measured" : "nothing to measure";
  std::string text = fmt::format("{} candidate{}", candidates, candidates == 1 ? "" : "s");
  if (steps > 0)
    text += fmt::format(", {} operator{} or conversion{}", steps, steps == 1 ? "" : "s", steps == 1 ? "" : "s");
  return text + " measured";
}

// What only networks have, given for problems.
Result<void> check_flags(const TuneFlags& flags, const Target& target) {
  if (target.network != nullptr) return {};
  if (flags.precision != TuneFlags().precision) {
    return Error{ErrorCode::invalid_argument, "--precision is for networks; a problem's string has its types"};
  }
  if (!flags.parts.empty()) {
    return Error{ErrorCode::invalid_argument, "--batch-parts is for networks; a problem's string has its sizes"};
  }
  return {};
}

Json say_rules(const Program& program, const SelectionOptions& options, std::span<const Tuned> tuned) {
  std::vector<DistinctProblem> problems;
  for (const Tuned& t : tuned) {
    const NetworkConvolution& convolution = t.convolution;
    problems.push_back({convolution.problem, convolution.count, convolution.nodes, 0, convolution.nodes});
  }
  return say_rule_uses(program, "--rules", options.rules, convolutions_of(problems));
}

// What all problems came to.
struct Totals {
  std::int64_t layers = 0, partial = 0;
  double seconds = 0;  // of the layers with what was chosen
  bool all_timed = true;
  bool known = false;  // of some problem something was measured, be it earlier
  bool wrong = false, failed = false, unsupported = false;
};
Totals totals_of(std::span<const Tuned> tuned) {
  Totals totals;
  for (const Tuned& t : tuned) {
    const Measurement* best = chosen(t);
    totals.layers += t.convolution.count;
    totals.partial += t.partial;
    totals.all_timed = totals.all_timed && best != nullptr;
    if (best != nullptr) totals.seconds += best->median_seconds * static_cast<double>(t.convolution.count);
    totals.known = totals.known || !t.alone.empty() || !t.in_network.empty();
    if (!t.failure) continue;
    const ExitCode code = exit_code(t.failure->code);
    totals.wrong = totals.wrong || code == kWrongResult;
    totals.unsupported = totals.unsupported || code == kUnsupported;
    totals.failed = totals.failed || (code != kWrongResult && code != kUnsupported);
  }
  return totals;
}

// Where tuning ended before it was done. True: before anything was timed.
bool say_end(const Program& program, const Totals& totals, std::int64_t measured, double budget) {
  if (!totals.known && measured == 0 && totals.partial > 0 && !interrupted()) {
    program.note(
        fmt::format("nothing was measured: --budget {} ended before the first candidate was timed; give more", budget));
    return true;
  }
  if (totals.partial > 0) {
    program.say(fmt::format("{}: {} problem{} partial; the same command goes on from here",
                            interrupted() ? "interrupted" : "the budget ended", totals.partial,
                            totals.partial == 1 ? " is" : "s are"));
  }
  return false;
}

// What is tuned, and how.
struct TuneJob {
  PlanRequest request;
  SelectionOptions options;
  Target target;
  NetworkOptions network_options;
  std::vector<TensorDesc> inputs;  // the network's
  std::vector<NetworkConvolution> convolutions;
  bool in_network = false;  // timed there, with its caches; else one by one
};
Result<TuneJob> job_of(const Program& program, const TuneFlags& flags) {
  TuneJob job;
  CONVOY_TRY(job.request, program.plan_request());
  CONVOY_TRY(job.options, program.selection(kTuneBudget));
  CONVOY_TRY(job.target, open_target(flags.target, flags.input.dims));
  if (job.target.network != nullptr) {
    CONVOY_TRY(job.network_options, program.network_options(kTuneBudget));
    CONVOY_CHECK(apply_precision(flags.precision, job.network_options));
    CONVOY_CHECK(apply_parts(flags.parts, job.network_options));
    CONVOY_TRY(job.inputs, input_descriptions(*job.target.network, flags.input));
  }
  CONVOY_CHECK(check_flags(flags, job.target));
  CONVOY_TRY(job.convolutions, convolutions_of(job.target, job.inputs, flags, job.network_options, job.request));
  job.options.all_knobs = flags.all_knobs;
  job.options.stop = &interrupted_flag();
  const Objective& objective = job.options.objective;
  job.in_network = job.target.network != nullptr && objective.workspace == 0 && objective.energy == 0 &&
                   job.options.caches == CacheState::cold;
  return job;
}

// One by one, only the convolutions are set.
Result<TunedNetwork> measure(const Program& program, const TuneFlags& flags, TuneJob& job, WatchedStore& store,
                             double start) {
  if (job.in_network) {
    job.network_options.selection = job.options;
    double& budget = job.network_options.selection.budget_seconds;
    if (budget > 0) budget = std::max(budget - (monotonic_seconds() - start), 1e-9);  // zero would mean no limit
    if (!restricts_engines(program.shared)) job.network_options.kept_plans = kept_plans_folder();
    return tune_network(program, *job.target.network, job.inputs, job.convolutions, job.network_options, flags.again);
  }
  if (job.target.network != nullptr) {
    program.note("measured alone: in the network only times, with its caches, are compared");
  }
  Tuner tuner(program, flags, store, job.options, job.request, std::move(job.convolutions), start);
  CONVOY_CHECK(tuner.run());
  return TunedNetwork{tuner.take(), {}};
}

Result<int> tune(const Program& program, const TuneFlags& flags) {
  const double start = monotonic_seconds();
  CONVOY_TRY(TuneJob job, job_of(program, flags));
  CONVOY_TRY(const auto database, open_database(TuningDatabase::Access::write));
  WatchedStore store(*database, [&](const MeasurementKey& key, const Measurement& m) {
    if (!flags.verbose) return;
    program.say(fmt::format("stored {} {} {} {}", name_of(m.state), print(m.candidate),
                            m.failure ? "failed" : report::seconds(m.median_seconds), key.problem));
  });
  job.options.store = &store;

  const InterruptGuard guard;
  const PlanRequest& request = job.request;
  if (job.target.record) {
    store.only_fresh = flags.again;
    return tune_record(program, *job.target.record, {flags.target, flags.plan_file, start}, job.options, request, store,
                       *database);
  }
  CONVOY_TRY(TunedNetwork network, measure(program, flags, job, store, start));
  std::vector<Tuned>& tuned = network.convolutions;
  for (Tuned& each : tuned) each.measured = store.measured(each.convolution.problem);
  find_untuned(program, job.options, request, tuned);
  const double seconds = monotonic_seconds() - start;
  const Json rules = say_rules(program, job.options, tuned);
  const std::string plan = plan_text(tuned);
  if (!flags.plan_file.empty()) {
    const std::string text = plan_heading(flags.target, request) + plan;
    CONVOY_CHECK(io::write_file(flags.plan_file, std::as_bytes(std::span(text))));
  }

  CONVOY_TRY(const TuningDatabaseInfo info, database->info());
  program.say(fmt::format("{} on {}\n", flags.target, place_of(request)));
  Json problems = say_results(program, tuned);
  const Totals totals = totals_of(tuned);
  program.say(fmt::format(
      "\n{} problem{} of {} layer{}{}; {} in {}, in {}", tuned.size(), tuned.size() == 1 ? "" : "s", totals.layers,
      totals.layers == 1 ? "" : "s", totals.all_timed ? ", " + report::seconds(totals.seconds) + " with these" : "",
      measured_text(store.candidates(), store.steps(), totals.partial > 0), report::seconds(seconds), info.path));
  if (job.in_network) say_network(program, network);
  const WholeTuning& whole = network.whole;
  const Json plans = whole.plans ? say_plans(program, *whole.plans) : Json();
  const bool nothing = say_end(program, totals, store.candidates(), job.options.budget_seconds);
  if (!info.remark.empty()) program.note(fmt::format("{}: {}", info.path, info.remark));
  program.document({{"target", flags.target},
                    {"threads", request.threads},
                    {"database", info.path},
                    {"measured", store.candidates()},
                    {"steps_measured", store.steps()},
                    {"stored", store.stored},
                    {"partial", totals.partial},
                    {"interrupted", interrupted()},
                    {"seconds", seconds},
                    {"speedup", whole.tuning.speedup ? Json(*whole.tuning.speedup) : Json()},
                    {"plan", plan},
                    {"plans", plans},
                    {"rules", rules},
                    {"problems", std::move(problems)}});
  if (interrupted()) return kInterrupted;
  return totals.wrong ? kWrongResult : totals.failed || nothing ? kFailed : totals.unsupported ? kUnsupported : kDone;
}

}  // namespace

void add_tune(Parser app, Program& program) {
  Parser command = add_subcommand(app, "tune", "Measure how long the engines take, and remember it",
                                  "  convoy tune zoo:resnet18 --budget 60\n"
                                  "  convoy tune problems/resnet50.txt --threads 1 --all-knobs\n"
                                  "  convoy tune model.onnx -o model.rules\n"
                                  "  convoy tune r.jsonl --device cuda");
  auto flags = std::make_shared<TuneFlags>();
  command
      .add_option(
          "target", flags->target,
          "An ONNX file or zoo:NAME (candidates are timed in the network), a problem list, a problem string, or "
          "a record of convoy exec")
      .required();
  begin(command, Subject::output);
  command
      .add_option("-o,--output", flags->plan_file,
                  "Write what was chosen as a rules file, for --rules; comments say of what, where and when")
      .type_name("FILE");
  begin(command, Subject::timing);
  command.add_flag("--again", flags->again, "Also measure what is known");
  command.add_flag("--all-knobs", flags->all_knobs,
                   "Measure every knob value, not only each engine's default "
                   "(of a network: those predicted to be fast)");
  begin(command, Subject::output);
  command.add_flag("--verbose", flags->verbose, "Say each measurement once it is stored");
  add_dim_flag(command, flags->input);
  begin(command, Subject::choosing);
  add_precision_flag(command, flags->precision);
  add_parts_flag(command, flags->parts);
  add_home_flags(command, program);
  add_shared_flags(
      command, program,
      fmt::format("Measure for so long in all, 0 for no limit (default {}; of a record 2 a problem)", kTuneBudget));
  command.callback([flags, &program] { program.action = [flags, &program] { return tune(program, *flags); }; });
}

}  // namespace convoy::cli
