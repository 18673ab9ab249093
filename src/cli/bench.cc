// convoy bench: every candidate of every convolution, timed and compared with the oracle.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "cli/heuristic_report.h"
#include "cli/inputs.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "report/format.h"
#include "report/refusals.h"
#include "report/table.h"
#include "select/glob.h"

namespace convoy::cli {
namespace {

constexpr double kDefaultBudget = 60;
constexpr int kNetworkRuns = 15;

struct BenchFlags {
  std::string target;
  std::string type;
  std::string pass;
  std::string versus;
  bool all_knobs = false;
  bool cost_terms = false;
  InputFlags input;  // only --dim
};

const Measurement* fastest(const std::vector<Measurement>& measurements, const std::string& glob, bool matching) {
  for (const Measurement& m : measurements) {
    if (!m.failure && selection::glob_list_matches(glob, m.candidate.engine) == matching) return &m;
  }
  return nullptr;
}

// What the prediction for a measured candidate is made from; null where no model stands behind it.
Json cost_terms(const Program& program, const Measurement& measurement, const ProblemReport& report,
                PlanRequest request) {
  const ConvProblem& problem = report.distinct.problem;
  static const float weights = 0;  // stands for weights that are packed beforehand
  if (problem.pass != Pass::wgrad && !request.cuda) request.constant_weights = &weights;
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

// What a GPU's candidates have besides: energy of an execution, the SMs' clock, kernels, notes.
std::string remarks(const Program& program, const Measurement& m, const ConvProblem& problem,
                    const PlanRequest& request) {
  std::vector<std::string> remarks;
  if (m.samples == 1) remarks.emplace_back("timed once");
  if (!program.on_gpu()) return fmt::format("{}", fmt::join(remarks, " "));
  if (m.energy_joules) remarks.push_back(fmt::format("{:.3g} mJ", *m.energy_joules * 1e3));
  if (m.clock_mhz) remarks.push_back(fmt::format("{:.0f} MHz", *m.clock_mhz));
  if (m.kernels) remarks.push_back(fmt::format("{} kernel{}", *m.kernels, *m.kernels == 1 ? "" : "s"));
  for (std::string& note : notes_of(program, m, problem, request)) remarks.push_back(std::move(note));
  return fmt::format("{}", fmt::join(remarks, " "));
}

void say_problem(const Program& program, const PlanRequest& request, const ProblemReport& report,
                 const HeuristicChoice& heuristic, const std::string& versus) {
  const ConvProblem& problem = report.distinct.problem;
  program.say(fmt::format("\n{} x {}{}\n  {}", report.distinct.count, report::short_name(problem),
                          report.distinct.names.empty() ? "" : "  " + report.distinct.names, print(problem)));
  report::Table table;
  using report::Align;
  table.column("candidate").column("time", Align::right).column("spread", Align::right, 2);
  table.column("GFLOP/s", Align::right, 1).column("GB/s", Align::right, 4).column("workspace", Align::right, 3);
  table.column("error/tol", Align::right, 3).column("error", Align::right, 5).column("");
  bool first = true;
  for (const Measurement& m : report.selection.measurements) {
    if (m.failure) {
      table.row({print(m.candidate), "-", "", "", "", "", "", "", m.failure->message}, report::Style::bad);
      continue;
    }
    table.row({print(m.candidate), report::seconds(m.median_seconds), report::percent(m.spread),
               report::rate(flops(problem) / m.median_seconds), report::rate(bytes_moved(problem) / m.median_seconds),
               report::bytes(static_cast<double>(m.workspace_bytes)), report::number(m.max_error),
               report::number(m.max_error_absolute), remarks(program, m, problem, request)},
              first ? report::Style::good : report::Style::plain);
    first = false;
  }
  if (!table.empty()) program.say(table, 2);
  if (report.failure) program.say(report::styled("  " + report.failure->message, report::Style::bad, program.colour()));
  report::Refusals refusals;
  for (const EngineAnswer& answer : report.answers) {
    if (answer.refusal) refusals.add(answer.engine->info().name, *answer.refusal);
  }
  for (const auto& group : refusals.groups()) {
    program.say(fmt::format("  {} can't: {}", group.names(), group.refusal.reason));
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
  report::Table table;
  table.column("engine").column("layers", report::Align::right).column("total", report::Align::right);
  table.column("x best", report::Align::right).column("wins", report::Align::right);
  Json json = {{"layers", layers}, {"best_seconds", best}, {"engines", Json::array()}};
  for (const auto& [engine, total] : totals) {
    table.row({engine, fmt::format("{}/{}", total.layers, layers), report::seconds(total.seconds),
               fmt::format("{:.2f}", total.seconds / total.best_there), fmt::format("{}", total.wins)});
    json["engines"].push_back({{"engine", engine},
                               {"layers", total.layers},
                               {"wins", total.wins},
                               {"seconds", total.seconds},
                               {"best_seconds_there", total.best_there}});
  }
  table.row({"best of each", fmt::format("{}", layers), report::seconds(best), "1.00", ""}, report::Style::bold);
  program.say("\nTotals of convolutions (each engine over the layers it can run)");
  program.say(table, 2);
  if (best > 0) program.say(fmt::format("  {} GFLOP/s with the best of each", report::rate(work / best)));
  return json;
}

Result<double> time_network(Session& session, const std::vector<HostTensor>& inputs) {
  std::vector<double> times;
  for (int i = 0; i <= kNetworkRuns; ++i) {
    RunStatistics statistics;
    CONVOY_TRY(const auto outputs, session.run(inputs, &statistics));
    if (i > 0) times.push_back(statistics.seconds);  // the first warms up
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
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
  NetworkOptions measured = heuristic;
  for (SelectionRule& rule : rules_of(reports)) measured.selection.rules.push_back(std::move(rule));
  measured.selection.strict_rules = options.selection.strict_rules;
  Json json;
  report::Table table;
  table.column("choice").column("end to end", report::Align::right);
  for (const auto& [name, choice] : {std::pair("heuristic", &heuristic), std::pair("measured", &measured)}) {
    CONVOY_TRY(const auto session, network.prepare(descs, *choice));
    CONVOY_TRY(const double seconds, time_network(*session, inputs));
    table.row({name, report::seconds(seconds)});
    json[std::string(name) + "_seconds"] = seconds;
  }
  program.say(fmt::format("\nThe whole network, median of {} runs", kNetworkRuns));
  program.say(table, 2);
  return json;
}

Result<int> bench(const Program& program, const BenchFlags& flags) {
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(SelectionOptions options, program.selection(kDefaultBudget));
  options.all_knobs = flags.all_knobs;
  if (!flags.versus.empty()) {
    bool any = false, add = false;
    for (const Engine* engine : program.engines()) {
      if (!selection::glob_list_matches(flags.versus, engine->info().name)) continue;
      any = true;
      add = add || !selection::glob_list_matches(options.filter.engines, engine->info().name);
      // An oracle is measured only when the filter names it.
      add = add || (engine->info().oracle && selection::glob_list_names(flags.versus, engine->info().name));
    }
    if (!any) return Error{ErrorCode::invalid_argument, fmt::format("--vs: '{}' matches no engine", flags.versus)};
    if (add) options.filter.engines += "," + flags.versus;
  }
  CONVOY_TRY(const Target target, open_target(flags.target));
  std::vector<DistinctProblem> problems;
  std::vector<TensorDesc> descs;
  if (target.network != nullptr) {
    if (request.cuda) CONVOY_CHECK(program.network_options());
    CONVOY_TRY(descs, input_descriptions(*target.network, flags.input));
    NetworkOptions network_options{request.threads, request.cpu, options, program.math()};
    network_options.selection.mode = SelectionMode::heuristic;
    CONVOY_TRY(const auto session, target.network->prepare(descs, network_options));
    problems = distinct_problems(*session);
    if (problems.empty()) return Error{ErrorCode::unsupported, flags.target + ": the network has no convolution"};
  }
  for (const ListedProblem& listed : target.problems) problems.push_back({listed.problem, listed.count, listed.name});
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
  }

  for (DistinctProblem& distinct : problems) distinct.problem = program.allowed(distinct.problem);
  std::vector<HeuristicChoice> heuristic = ask_heuristic(problems, program.engines(), options.filter, request);
  CONVOY_TRY(const auto reports, measure_problems(program, problems, options, request, "measuring"));
  program.say(
      fmt::format("{} on {}{}", flags.target, place_of(request),
                  options.caches == CacheState::cold ? "" : fmt::format(", caches {}", name_of(options.caches))));
  Json json = {{"target", flags.target},
               {"threads", request.threads},
               {"caches", name_of(options.caches)},
               {"problems", Json::array()}};
  if (request.cuda) json["device"] = to_json(*request.cuda);
  bool wrong = false, unsupported = false;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const ProblemReport& report = reports[i];
    judge(heuristic[i], report.selection.measurements);
    say_problem(program, request, report, heuristic[i], flags.versus);
    Json entry = report::to_json(report.distinct.problem);
    entry["count"] = report.distinct.count;
    entry["names"] = report.distinct.names;
    entry["partial"] = report.selection.partial;
    entry["candidates"] = Json::array();
    for (const Measurement& m : report.selection.measurements) {
      entry["candidates"].push_back(report::to_json(m, report.distinct.problem));
      if (!m.failure) entry["candidates"].back()["notes"] = notes_of(program, m, report.distinct.problem, request);
      if (flags.cost_terms) entry["candidates"].back()["cost_terms"] = cost_terms(program, m, report, request);
      wrong = wrong || (m.failure && m.failure->code == ErrorCode::wrong_result);
    }
    if (heuristic[i].prediction) entry["heuristic"] = to_json(heuristic[i]);
    entry["refusals"] = Json::array();
    for (const EngineAnswer& answer : report.answers) {
      if (answer.refusal) entry["refusals"].push_back(report::to_json(answer));
    }
    if (report.failure) {
      entry["failure"] = report.failure->message;
      wrong = wrong || report.failure->code == ErrorCode::wrong_result;
      unsupported = unsupported || report.failure->code == ErrorCode::unsupported;
    }
    if (!report.selection.warnings.empty()) entry["warnings"] = report.selection.warnings;
    for (const std::string& warning : report.selection.warnings) program.say("  " + warning);
    json["problems"].push_back(std::move(entry));
  }
  json["totals"] = say_totals(program, reports);
  json["heuristic"] = say_heuristic(program, heuristic);
  if (target.network != nullptr && flags.type.empty() && flags.pass.empty()) {
    const NetworkOptions network_options{request.threads, request.cpu, options, program.math()};
    CONVOY_TRY(json["network"], bench_network(program, *target.network, descs, network_options, reports));
  }
  program.document(json);
  return wrong ? kWrongResult : unsupported ? kUnsupported : kDone;
}

}  // namespace

void add_bench(CLI::App& app, Program& program) {
  CLI::App& command = add_subcommand(app, "bench", "Time every candidate of every convolution, checked by the oracle",
                                     "  convoy bench zoo:resnet18 --threads 1\n"
                                     "  convoy bench problems/resnet50.txt --vs 'cpu.gemm*' --budget 120\n"
                                     "  convoy bench fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1 --json");
  auto flags = std::make_shared<BenchFlags>();
  command.add_option("target", flags->target, "An ONNX file, zoo:NAME, a problem list, or a problem string")
      ->required();
  command.add_option("--dtype", flags->type, "Run the problems in this data type instead: f64 f32 f16 bf16 s8 u8 ...")
      ->type_name("TYPE");
  command.add_option("--pass", flags->pass, "Run this pass of the problems instead: fprop, dgrad or wgrad")
      ->type_name("PASS");
  command.add_option("--vs", flags->versus, "Compare the fastest of these engines with the fastest of the others")
      ->type_name("GLOB");
  command.add_flag("--all-knobs", flags->all_knobs, "Measure every knob value, not only each engine's default");
  command.add_flag("--cost-terms", flags->cost_terms,
                   "With --json: what each prediction is made from, for fitting them");
  add_dim_flag(command, flags->input);
  add_shared_flags(command, program, fmt::format("Measure for so long in all (default {})", kDefaultBudget));
  command.callback([flags, &program] { program.action = [flags, &program] { return bench(program, *flags); }; });
}

}  // namespace convoy::cli
