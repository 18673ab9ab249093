// convoy bench: every candidate of every convolution, timed and compared with the oracle.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "cli/bench_step.h"
#include "cli/ceiling_report.h"
#include "cli/heuristic_report.h"
#include "cli/inputs.h"
#include "cli/plan_flags.h"
#include "cli/target.h"
#include "cli/tune_network.h"
#include "cli/tuning.h"
#include "network/cost/step_problem.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/refusals.h"
#include "report/table.h"
#include "select/choose/candidates.h"
#include "select/choose/engine_list.h"
#include "select/choose/names.h"

namespace convoy::cli {
namespace {

constexpr double kBenchBudget = 60;
constexpr int kNetworkRuns = 15;

struct BenchFlags {
  std::string target;
  std::string type;
  std::string pass;
  std::string versus;
  std::string nodes;
  bool all = false;
  bool all_knobs = false;
  bool full = false;
  bool cost_terms = false;
  InputFlags input;  // only --dim
};

const Measurement* fastest(const std::vector<Measurement>& measurements, const std::string& glob, bool matching) {
  for (const Measurement& m : measurements) {
    if (!m.failure && selection::engine_list_matches(glob, m.candidate.engine, m.candidate.knobs) == matching)
      return &m;
  }
  return nullptr;
}

// What the prediction for a measured candidate is made from; null where no model stands behind it.
Json cost_terms(const Program& program, const Measurement& measurement, const ProblemReport& report,
                PlanRequest request) {
  const ConvProblem& problem = report.distinct.problem;
  static const float weights = 0;  // stands for weights that are packed beforehand
  if (request.packs_weights(problem)) request.constant_weights = &weights;
  for (const Engine* engine : program.engines()) {
    if (measurement.failure || engine->info().name != measurement.candidate.engine) continue;
    return engine->cost_terms(problem, measurement.candidate.knobs, request);
  }
  return nullptr;
}

std::vector<std::string> notes_of(const Program& program, const Measurement& measurement, const ConvProblem& problem,
                                  const PlanRequest& request) {
  for (const Engine* engine : program.engines()) {
    if (engine->info().name == measurement.candidate.engine)
      return engine->notes(problem, measurement.candidate.knobs, request);
  }
  return {};
}

// Why a candidate failed, without its name and problem, which stand beside it already.
std::string reason_of(const Measurement& m, const ConvProblem& problem) {
  std::string reason = m.failure->message;
  for (const std::string& known : {print(m.candidate), " on " + print(problem)}) {
    for (std::size_t at; (at = reason.find(known)) != std::string::npos;) reason.erase(at, known.size());
  }
  return reason.substr(std::min(reason.find_first_not_of(" ,:"), reason.size()));
}

// Whether a warning says no more than the row of a candidate that failed.
bool in_a_row(const std::string& warning, const std::vector<Measurement>& measurements) {
  return std::any_of(measurements.begin(), measurements.end(), [&](const Measurement& m) {
    return m.failure && warning.find(m.failure->message) != std::string::npos;
  });
}

// Candidates that were refused when they were planned don't count.
bool none_measured(const ProblemReport& report) {
  return std::ranges::all_of(report.selection.measurements, selection::refused);
}

selection::MachineCeiling raised_by(const Program& program, std::span<const ProblemReport> reports,
                                    const selection::MachineCeiling& ceiling, const PlanRequest& request) {
  std::vector<selection::Reached> all;
  for (const ProblemReport& report : reports) {
    for (const Measurement& m : report.selection.measurements) {
      auto reached = selection::reached(report.distinct.problem, m, program.engines(), request);
      if (reached) all.push_back(*std::move(reached));
    }
  }
  return selection::raised(ceiling, all, request);
}

// The bytes that the candidates' plans keep of packed weights; none where weights come with each execution.
using PackedWeights = std::map<const Measurement*, std::size_t>;
PackedWeights packed_weights(const Program& program, const ProblemReport& report, const PlanRequest& request) {
  const ConvProblem& problem = report.distinct.problem;
  if (!request.packs_weights(problem)) return {};
  static const float zero = 0;  // stands for the weights: plan_to_see() has its own
  PlanRequest constant = request;
  constant.constant_weights = &zero;
  PackedWeights packed;
  for (const Measurement& m : report.selection.measurements) {
    if (m.failure) continue;
    const auto seen = selection::plan_to_see(problem, m.candidate, program.engines(), constant);
    if (seen.ok()) packed.emplace(&m, seen->plan->retained_bytes());
  }
  return packed;
}

struct BenchContext {
  const Program& program;
  const PlanRequest& request;
  const BenchFlags& flags;
  selection::MachineCeiling ceiling;
};

// What is said of a problem's candidates.
report::Listing<Measurement> candidate_listing(const BenchContext& context, const ProblemReport& report,
                                               const PackedWeights& packed) {
  const ConvProblem& problem = report.distinct.problem;
  const auto least = selection::least_seconds(problem, context.ceiling, context.request);
  using report::Align;
  report::Listing<Measurement> listing = report::measurement_listing(problem);
  listing
      .cell(
          kOfCeiling,
          [least](const Measurement& m) { return share_of_ceiling(least, m.failure ? 0 : m.median_seconds); },
          Align::right, 1)
      .column(
          "packed", "packed_weights_bytes",
          [&packed](const Measurement& m) { return packed.contains(&m) ? std::optional(packed.at(&m)) : std::nullopt; },
          report::as_bytes, Align::right, 4)
      .column(
          context.program.on_gpu() ? "notes" : "", "notes",
          [&](const Measurement& m) {
            return m.failure ? std::nullopt : std::optional(notes_of(context.program, m, problem, context.request));
          },
          report::as_text, Align::left, 3)
      .cell("remarks", [&problem](const Measurement& m) -> std::string {
        if (m.failure) return reason_of(m, problem);
        return m.state == MeasurementState::cut_off ? "given up (--full: to the end)" : "";
      });
  if (context.flags.cost_terms) {
    listing.field("cost_terms",
                  [&](const Measurement& m) { return cost_terms(context.program, m, report, context.request); });
  }
  return listing;
}

// The candidates of a problem, fastest first.
report::Table measurement_table(const BenchContext& context, const ProblemReport& report, const PackedWeights& packed) {
  const auto listing = candidate_listing(context, report, packed);
  report::Table table = listing.table();
  for (const Measurement& m : report.selection.measurements) {
    if (selection::refused(m)) continue;  // said with the engines that can't
    listing.add(table, m, m.failure ? report::Style::bad : table.empty() ? report::Style::good : report::Style::plain);
  }
  return table;
}

// What the rules would choose, beside what is fastest: bench measures every candidate whatever they say.
void say_rules(const Program& program, const ProblemReport& report, const PlanRequest& request,
               SelectionOptions options) {
  options.mode = SelectionMode::heuristic;
  options.store = nullptr;
  const auto choice = select(report.distinct.problem, program.engines(), options, request, report.distinct.node);
  if (!choice.ok()) {
    program.say("  the rules: " + choice.error().message);
    return;
  }
  for (const std::string& warning : choice->warnings) program.say("  the rules: " + warning);
  if (choice->rule.empty()) {
    if (choice->warnings.empty()) program.say("  no rule matches");
    return;
  }
  const auto& all = report.selection.measurements;
  const auto same = std::find_if(all.begin(), all.end(),
                                 [&](const Measurement& m) { return !m.failure && m.candidate == choice->candidate; });
  program.say(fmt::format(
      "  {} chooses {}: {}", choice->reason(), print(choice->candidate),
      same == all.end() ? "not measured (--all-knobs measures all)"
                        : fmt::format("{:.2f} times the best", same->median_seconds / all.front().median_seconds)));
}

void say_problem(const BenchContext& context, const ProblemReport& report, const HeuristicChoice& heuristic,
                 const PackedWeights& packed) {
  const Program& program = context.program;
  const std::string& versus = context.flags.versus;
  const ConvProblem& problem = report.distinct.problem;
  program.say(fmt::format("\n{} x {}{}\n  {}", report.distinct.count, report::short_name(problem),
                          report.distinct.names.empty() ? "" : "  " + report.distinct.names, print(problem)));
  const report::Table table = measurement_table(context, report, packed);
  if (!table.empty()) program.say(table, 2);
  if (report.failure) {
    std::string message = report.failure->message;
    const std::string advice =
        report.failure->code == ErrorCode::unsupported ? sm_count_advice(problem, context.request) : "";
    if (!advice.empty() && !context.flags.all) message = message.substr(0, message.find(":\n"));
    program.say(report::styled(fmt::format("  {}{}{}", message, advice.empty() ? "" : "\n  ", advice),
                               report::Style::bad, program.colour()));
  } else if (none_measured(report)) {
    program.say(report::styled("  nothing was measured", report::Style::bad, program.colour()));
  }
  report::Refusals refusals;
  for (const EngineAnswer& answer : report.answers) {
    if (answer.refusal) refusals.add(answer.engine->info().name, *answer.refusal);
  }
  std::size_t unable = 0;
  for (const auto& group : refusals.groups()) {
    unable += group.engines.size();
    if (context.flags.all) program.say(fmt::format("  {} can't: {}", group.names(), group.refusal.reason));
  }
  std::size_t refused = 0;
  for (const Measurement& m : report.selection.measurements) {
    if (!selection::refused(m)) continue;
    ++refused;
    if (context.flags.all) program.say(fmt::format("  {} can't: {}", print(m.candidate), reason_of(m, problem)));
  }
  if (refused > 0 && !context.flags.all) {
    program.say(fmt::format("  {} candidate{} refused when planned (--all says why)", refused,
                            refused == 1 ? " was" : "s were"));
  }
  if (unable > 0 && !context.flags.all) {
    program.say(fmt::format("  {} engine{} can't (--all says why)", unable, unable == 1 ? "" : "s"));
  }
  if (heuristic.over_best) {
    program.say(fmt::format("  the heuristic chooses {}: {:.2f} times the best", print(heuristic.prediction->candidate),
                            *heuristic.over_best));
  }
  if (versus.empty()) return;
  const Measurement* theirs = fastest(report.selection.measurements, versus, true);
  const Measurement* ours = fastest(report.selection.measurements, versus, false);
  if (theirs != nullptr && ours != nullptr) {
    program.say(fmt::format("  {} takes {:.2f} times as long as {}", print(theirs->candidate),
                            theirs->median_seconds / ours->median_seconds, print(ours->candidate)));
  } else {
    program.say(
        fmt::format("  no comparison: nothing measured {} '{}'", theirs == nullptr ? "matches" : "is outside", versus));
  }
}

// For each engine its fastest time over the problems it can run, and what the best choice takes on the same problems.
Json say_totals(const Program& program, const std::vector<ProblemReport>& reports) {
  struct Total {
    std::int64_t layers = 0, wins = 0;
    double seconds = 0, best_there = 0;
  };
  std::map<std::string, Total> totals;
  std::int64_t layers = 0;
  double best = 0, work = 0;
  for (const ProblemReport& report : reports) {
    const std::int64_t count = report.distinct.count;
    layers += count;
    std::map<std::string, double> seen;  // measurements are fastest first
    for (const Measurement& m : report.selection.measurements) {
      if (!m.failure) seen.emplace(m.candidate.engine, m.median_seconds);
    }
    if (seen.empty()) continue;
    const double fastest_time = report.selection.measurements.front().median_seconds;
    best += fastest_time * static_cast<double>(count);
    work += flops(report.distinct.problem) * static_cast<double>(count);
    totals[report.selection.measurements.front().candidate.engine].wins += count;
    for (const auto& [engine, seconds] : seen) {
      Total& total = totals[engine];
      total.layers += count;
      total.seconds += seconds * static_cast<double>(count);
      total.best_there += fastest_time * static_cast<double>(count);
    }
  }
  using Of = std::pair<const std::string, Total>;
  using report::Align;
  report::Listing<Of> listing;
  listing.column("engine", "engine", [](const Of& of) { return of.first; })
      .field("layers", [](const Of& of) { return of.second.layers; })
      .cell(
          "layers", [layers](const Of& of) { return fmt::format("{}/{}", of.second.layers, layers); }, Align::right)
      .column(
          "total", "seconds", [](const Of& of) { return of.second.seconds; }, report::as_seconds, Align::right)
      .field("best_seconds_there", [](const Of& of) { return of.second.best_there; })
      .cell(
          "x best", [](const Of& of) { return fmt::format("{:.2f}", of.second.seconds / of.second.best_there); },
          Align::right)
      .column(
          "wins", "wins", [](const Of& of) { return of.second.wins; }, report::as_text, Align::right);
  auto [table, engines] = listing.both(totals);
  Json json = {{"layers", layers}, {"best_seconds", best}, {"engines", std::move(engines)}};
  table.row({"best of each", fmt::format("{}", layers), report::seconds(best), "1.00", ""}, report::Style::bold);
  program.say("\nTotals of convolutions (each engine over the layers it can run)");
  program.say(table, 2);
  if (best > 0) program.say(fmt::format("  {} GFLOP/s with the best of each", report::rate(work / best)));
  return json;
}

struct NetworkTime {
  double seconds = 0;
  std::optional<double> device_seconds;  // on a GPU: without copies
};

Result<NetworkTime> time_network(Session& session, const std::vector<HostTensor>& inputs) {
  constexpr int kWarmUps = 3;  // on a GPU the third run is the first that only launches what was captured
  std::vector<double> times, there;
  for (int i = 0; i < kWarmUps + kNetworkRuns; ++i) {
    RunStatistics statistics{.each_step = false};
    CONVOY_TRY(const auto outputs, session.run(inputs, &statistics));
    if (i < kWarmUps) continue;
    times.push_back(statistics.seconds);
    if (statistics.device_seconds) there.push_back(*statistics.device_seconds);
  }
  const auto median = [](std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  };
  return NetworkTime{median(times), there.empty() ? std::nullopt : std::optional(median(there))};
}

// End-to-end times with the heuristic's choices and with the measured ones.
Result<Json> bench_network(const Program& program, const Network& network, const std::vector<TensorDesc>& descs,
                           const NetworkOptions& options, const std::vector<ProblemReport>& reports) {
  std::vector<HostTensor> inputs;
  for (const TensorDesc& desc : descs) {
    CONVOY_TRY(HostTensor tensor, random_tensor(desc, inputs.size() + 1));
    inputs.push_back(std::move(tensor));
  }
  NetworkOptions heuristic = options;
  heuristic.selection.mode = SelectionMode::heuristic;
  heuristic.parts = BatchParts{};  // the problems are those of the whole batch
  NetworkOptions measured = heuristic;
  for (SelectionRule& rule : rules_of(reports)) measured.selection.rules.push_back(std::move(rule));
  measured.selection.strict_rules = options.selection.strict_rules;
  Json json;
  report::Table table;
  table.column("choice").column("end to end", report::Align::right);
  if (options.cuda) table.column("without copies", report::Align::right);
  for (const auto& [name, choice] : {std::pair("heuristic", &heuristic), std::pair("measured", &measured)}) {
    CONVOY_TRY(const auto session, network.prepare(descs, *choice));
    CONVOY_TRY(const NetworkTime time, time_network(*session, inputs));
    std::vector<std::string> row = {name, report::seconds(time.seconds)};
    json[std::string(name) + "_seconds"] = time.seconds;
    if (options.cuda) {
      row.push_back(time.device_seconds ? report::seconds(*time.device_seconds) : "-");
      json[std::string(name) + "_device_seconds"] = report::number_or_null(time.device_seconds.value_or(NAN));
    }
    table.row(std::move(row));
  }
  program.say(fmt::format("\nThe whole network, median of {} runs", kNetworkRuns));
  program.say(table, 2);
  return json;
}

// What --vs names is measured, too.
Result<void> add_versus(const Program& program, const std::string& versus, std::string& measured) {
  if (versus.empty()) return {};
  bool any = false, add = false;
  for (const Engine* engine : program.engines()) {
    if (!selection::engine_list_may_match(versus, engine->info().name)) continue;
    any = true;
    add = add || !selection::engine_list_may_match(measured, engine->info().name);
    // An oracle is measured only when the filter names it.
    add = add || (engine->info().oracle && selection::engine_list_names(versus, engine->info().name));
  }
  if (!any) {
    const auto known = selection::check_engine_globs(versus, all_engines());
    if (!known.ok()) return known.error().within("--vs");
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--vs: '{}' matches no engine of --device {}", versus, program.shared.device)};
  }
  if (add) measured += "," + versus;
  return {};
}

// The target's convolutions in the type and pass that are asked for. `descs` are those of a network's inputs.
Result<std::vector<DistinctProblem>> problems_of(const Program& program, const BenchFlags& flags, const Target& target,
                                                 std::span<const TensorDesc> descs, const SelectionOptions& options) {
  std::vector<DistinctProblem> problems;
  if (target.network != nullptr) {
    CONVOY_TRY(NetworkOptions network_options, program.network_options());
    network_options.selection = options;
    network_options.selection.mode = SelectionMode::heuristic;
    network_options.parts = BatchParts{};
    CONVOY_TRY(const auto session, target.network->prepare(descs, network_options));
    problems = distinct_problems(*session);
    if (problems.empty()) {
      return Error{ErrorCode::unsupported,
                   flags.target + ": the network has no convolution; convoy run times it as a whole"};
    }
  }
  for (const ListedProblem& listed : target.problems) {
    problems.push_back({listed.problem, listed.count, listed.name, problems.size() + 1, listed.name});
  }
  CONVOY_TRY(problems, with_nodes(problems, flags.nodes));
  for (DistinctProblem& distinct : problems) {
    if (!flags.type.empty()) {
      const auto type = parse_data_type(flags.type);
      if (!type.ok()) return type.error().within("--dtype");
      CONVOY_TRY(distinct.problem, with_data_type(distinct.problem, *type));
    }
    if (!flags.pass.empty()) {
      const auto pass = parse_pass(flags.pass);
      if (!pass.ok()) return pass.error().within("--pass");
      distinct.problem = with_pass(distinct.problem, *pass);
    }
    distinct.problem = program.allowed(distinct.problem);
  }
  return problems;
}

// What the exit status says of all problems.
struct Outcome {
  bool wrong = false, unsupported = false, failed = false;

  void add(const ProblemReport& report) {
    for (const Measurement& m : report.selection.measurements) {
      wrong = wrong || (m.failure && m.failure->code == ErrorCode::wrong_result);
    }
    if (report.failure) {
      wrong = wrong || report.failure->code == ErrorCode::wrong_result;
      unsupported = unsupported || report.failure->code == ErrorCode::unsupported;
      failed = failed || exit_code(report.failure->code) == kFailed;
    }
    failed = failed || (!report.failure && none_measured(report));
  }
  int status() const { return wrong ? kWrongResult : failed ? kFailed : unsupported ? kUnsupported : kDone; }
};

Json problem_json(const BenchContext& context, const ProblemReport& report, const HeuristicChoice& heuristic,
                  const PackedWeights& packed) {
  const ConvProblem& problem = report.distinct.problem;
  const auto listing = candidate_listing(context, report, packed);
  Json entry = report::to_json(problem);
  entry["count"] = report.distinct.count;
  entry["names"] = report.distinct.names;
  const auto least = selection::least_seconds(problem, context.ceiling, context.request);
  entry["ceiling_seconds"] = least ? Json(*least) : Json();
  entry["partial"] = report.selection.partial;
  entry["candidates"] = Json::array();
  entry["refusals"] = Json::array();
  for (const EngineAnswer& answer : report.answers) {
    if (answer.refusal) entry["refusals"].push_back(report::to_json(answer));
  }
  for (const Measurement& m : report.selection.measurements) {
    if (selection::refused(m)) {
      entry["refusals"].push_back({{"engine", m.candidate.engine},
                                   {"candidate", print(m.candidate)},
                                   {"can", false},
                                   {"refusal", {{"code", "planning"}, {"reason", reason_of(m, problem)}}}});
      continue;
    }
    entry["candidates"].push_back(listing.json(m));
  }
  if (heuristic.prediction) entry["heuristic"] = to_json(heuristic);
  if (report.failure) entry["failure"] = report.failure->message;
  if (!report.selection.warnings.empty()) entry["warnings"] = report.selection.warnings;
  return entry;
}

Result<int> bench(const Program& program, const BenchFlags& flags) {
  if (network::is_step_string(flags.target)) return bench_step(program, flags.target);
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(SelectionOptions options, program.selection(flags.full ? 0 : kBenchBudget));
  options.all_knobs = flags.all_knobs;
  CONVOY_CHECK(add_versus(program, flags.versus, options.filter.engines));
  CONVOY_TRY(const Target target, open_target(flags.target, flags.input.dims));
  std::vector<TensorDesc> descs;
  if (target.network != nullptr) {
    CONVOY_TRY(descs, input_descriptions(*target.network, flags.input));
  }
  CONVOY_TRY(const std::vector<DistinctProblem> problems, problems_of(program, flags, target, descs, options));

  std::vector<HeuristicChoice> heuristic = ask_heuristic(problems, program.engines(), options.filter, request);
  SelectionOptions measuring = options;
  measuring.mode = SelectionMode::measured;
  measuring.rules.clear();  // every candidate is measured; say_rules() compares
  const auto database = attach_database(program, measuring);
  std::optional<WatchedStore> store;
  if (database != nullptr) {
    store.emplace(*database, [](const MeasurementKey&, const Measurement&) {});
    store->only_fresh = true;  // everything is measured anew
    measuring.store = &*store;
  }
  const selection::MachineCeiling ceiling = selection::machine_ceiling(request);
  CONVOY_TRY(const auto reports, measure_problems(program, problems, measuring, request, "measuring", flags.full));
  const BenchContext context{program, request, flags, raised_by(program, reports, ceiling, request)};
  program.say(
      fmt::format("{} on {}{}", flags.target, place_of(request),
                  options.caches == CacheState::cold ? "" : fmt::format(", caches {}", name_of(options.caches))));
  program.say("ceiling: " + text_of(context.ceiling));
  Json json = {{"target", flags.target},
               {"ceiling", to_json(context.ceiling)},
               {"caches", name_of(options.caches)},
               {"problems", Json::array()}};
  json.update(place_json(request));
  Outcome outcome;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const ProblemReport& report = reports[i];
    judge(heuristic[i], report.selection.measurements);
    const PackedWeights packed = packed_weights(program, report, request);
    say_problem(context, report, heuristic[i], packed);
    if (!options.rules.empty()) say_rules(program, report, request, options);
    for (const std::string& warning : report.selection.warnings) {
      if (!in_a_row(warning, report.selection.measurements)) program.say("  " + warning);
    }
    json["problems"].push_back(problem_json(context, report, heuristic[i], packed));
    outcome.add(report);
  }
  json["totals"] = say_totals(program, reports);
  json["heuristic"] = say_heuristic(program, heuristic);
  if (target.network != nullptr && flags.type.empty() && flags.pass.empty() && flags.nodes.empty()) {
    CONVOY_TRY(NetworkOptions network_options, program.network_options());
    network_options.selection = options;
    CONVOY_TRY(json["network"], bench_network(program, *target.network, descs, network_options, reports));
  }
  json["rules"] = say_rule_uses(program, "--rules", options.rules, convolutions_of(problems));
  json["stored"] = store ? store->stored : 0;
  program.document(json);
  return outcome.status();
}

}  // namespace

void add_bench(Parser app, Program& program) {
  Parser command = add_subcommand(app, "bench", "Time every candidate of every convolution, checked by the oracle",
                                  "  convoy bench zoo:resnet18 --threads 1\n"
                                  "  convoy bench problems/resnet50.txt --vs 'cpu.gemm*' --budget 120\n"
                                  "  convoy bench fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1 --json");
  auto flags = std::make_shared<BenchFlags>();
  command
      .add_option("target", flags->target,
                  "An ONNX file, zoo:NAME, a problem list, or a problem string (op:... and convert:..., too)")
      .required();
  add_node_flag(command, flags->nodes);
  begin(command, Subject::input);
  command.add_option("--dtype", flags->type, "Run the problems in this data type instead: f64 f32 f16 bf16 s8 u8 ...")
      .type_name("TYPE");
  command.add_option("--pass", flags->pass, "Run this pass of the problems instead: fprop, dgrad or wgrad")
      .type_name("PASS");
  begin(command, Subject::output);
  command.add_option("--vs", flags->versus, "Compare the fastest of these engines with the fastest of the others")
      .type_name("GLOB");
  command.add_flag("--all", flags->all, "Say of each engine that can't run the problem why");
  begin(command, Subject::choosing);
  command.add_flag("--all-knobs", flags->all_knobs, "Measure every knob value, not only each engine's default");
  command.add_flag(
      "--full", flags->full,
      "Time every candidate to the end, also those that are too slow to win; no budget unless --budget gives one");
  begin(command, Subject::output);
  command.add_flag("--cost-terms", flags->cost_terms,
                   "With --json: the terms of each prediction, for fitting cost models");
  add_dim_flag(command, flags->input);
  add_home_flags(command, program);
  add_shared_flags(command, program, fmt::format("Measure for so long in all (default {})", kBenchBudget));
  add_database_flag(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return bench(program, *flags); }; });
}

}  // namespace convoy::cli
