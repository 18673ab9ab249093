// convoy demo: resnet18 tuned on this machine, shown layer by layer, and checked.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/conformance_case.h"
#include "cli/demo_picture.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

constexpr double kDemoBudget = 20;
constexpr double kMaxBudget = 30;
constexpr int kRuns = 9;
constexpr int kPictureSide = 256;
constexpr const char* kModel = "zoo:resnet18";

struct DemoFlags {
  std::string picture_file;
};

std::string first_words(const std::string& names) { return names.size() <= 44 ? names : names.substr(0, 41) + "..."; }

Json say_layers(const Program& program, const std::vector<ProblemReport>& reports) {
  using report::Align;
  report::Table table;
  table.column("layers", Align::right, 2).column("convolution").column("tried", Align::right, 5).column("winner");
  table.column("time", Align::right).column("GFLOP/s", Align::right, 1).column("next best", Align::left, 3);
  table.column("x winner", Align::right, 3).column("error/tol", Align::right, 4).column("which", Align::left, 6);
  Json json = Json::array();
  for (const ProblemReport& report : reports) {
    const ConvProblem& problem = report.distinct.problem;
    const auto& measured = report.selection.measurements;
    std::string next, next_factor, time, rate, error;
    if (!measured.empty() && !measured[0].failure) {
      time = report::seconds(measured[0].median_seconds);
      rate = report::rate(flops(problem) / measured[0].median_seconds);
      error = report::number(measured[0].max_error);
      if (measured.size() > 1 && !measured[1].failure) {
        next = print(measured[1].candidate);
        next_factor = fmt::format("{:.2f}", measured[1].median_seconds / measured[0].median_seconds);
      }
    }
    table.row(
        {fmt::format("{}", report.distinct.count), report::short_name(problem), fmt::format("{}", measured.size()),
         report.failure ? report.failure->message : print(report.selection.candidate), time, rate, next, next_factor,
         error, first_words(report.distinct.names)},
        report.failure ? report::Style::bad : report::Style::plain);
    Json entry = report::to_json(problem);
    entry["count"] = report.distinct.count;
    if (!report.failure) entry["winner"] = print(report.selection.candidate);
    entry["candidates"] = Json::array();
    for (const Measurement& m : measured) entry["candidates"].push_back(report::to_json(m, problem));
    json.push_back(std::move(entry));
  }
  program.say(table);
  return json;
}

struct Timed {
  std::vector<HostTensor> outputs;
  double seconds = 0;
};

Result<Timed> run_network(const Network& network, const HostTensor& input, const NetworkOptions& options, int runs) {
  const TensorDesc descs[] = {input.desc};
  const HostTensor inputs[] = {input};
  CONVOY_TRY(const auto session, network.prepare(descs, options));
  Timed timed;
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    RunStatistics statistics;
    CONVOY_TRY(timed.outputs, session->run(inputs, &statistics));
    times.push_back(statistics.seconds);
  }
  std::sort(times.begin(), times.end());
  timed.seconds = times[times.size() / 2];
  return timed;
}

Result<int> demo(const Program& program, const DemoFlags& flags) {
  CONVOY_TRY(NetworkOptions options, program.network_options(kDemoBudget));
  if (options.selection.budget_seconds > kMaxBudget) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--budget {}: the demo takes at most {} s", options.selection.budget_seconds, kMaxBudget)};
  }
  const double budget = options.selection.budget_seconds;
  options.selection.mode = SelectionMode::heuristic;
  CONVOY_TRY(const auto network, open_network(kModel));
  const io::Picture picture = demo_picture(kPictureSide, kPictureSide);
  if (!flags.picture_file.empty()) {
    CONVOY_CHECK(io::write_png(flags.picture_file, picture));
    program.say(fmt::format("picture written to {}", flags.picture_file));
  }
  const NetworkValue& input_value = network->inputs()[0];
  CONVOY_TRY(const auto descs, input_descriptions(*network, {}));
  CONVOY_TRY(const HostTensor input, io::picture_to_tensor(picture, input_value.type, descs[0].dims, {}));

  program.say(fmt::format("{} ({} nodes) on a {} x {} picture made here, {} thread{} of {}", kModel,
                          network->node_count(), kPictureSide, kPictureSide, options.threads,
                          options.threads == 1 ? "" : "s", options.cpu.brand));
  program.say(
      fmt::format("Tuning: each distinct convolution on every engine that takes it, at most {:g} s ...", budget));
  CONVOY_TRY(const auto first, network->prepare(descs, options));
  SelectionOptions measured = options.selection;
  measured.budget_seconds = budget;
  const PlanRequest request{options.threads, options.cpu, nullptr};
  CONVOY_TRY(const auto reports, measure_problems(program, distinct_problems(*first), measured, request, "tuning"));
  program.say("");
  Json json = {{"model", kModel}, {"threads", options.threads}, {"layers", say_layers(program, reports)}};
  bool right = std::none_of(reports.begin(), reports.end(), [](const ProblemReport& r) {
    return std::any_of(r.selection.measurements.begin(), r.selection.measurements.end(),
                       [](const Measurement& m) { return m.failure && m.failure->code == ErrorCode::wrong_result; });
  });

  NetworkOptions tuned = options;
  for (SelectionRule& rule : rules_of(reports)) tuned.selection.rules.push_back(std::move(rule));
  NetworkOptions oracle = options;
  oracle.selection.filter.engines = "reference";
  oracle.selection.rules.clear();
  CONVOY_TRY(const Timed predicted_run, run_network(*network, input, options, kRuns));
  CONVOY_TRY(const Timed tuned_run, run_network(*network, input, tuned, kRuns));
  program.say(fmt::format("\nThe whole network: {} with the engines measured fastest, {} with those predicted fastest.",
                          report::seconds(tuned_run.seconds), report::seconds(predicted_run.seconds)));
  CONVOY_TRY(const Timed oracle_run, run_network(*network, input, oracle, 1));
  const Comparison check =
      compare_outputs(tuned_run.outputs[0], oracle_run.outputs[0], network->node_count(), false, {});
  right = right && check.ok;
  program.say(report::styled(
      check.ok ? fmt::format("Checked: the oracle on every convolution ({}) gives the same {} outputs, largest "
                             "difference {} ({} of what is allowed).",
                             report::seconds(oracle_run.seconds), tuned_run.outputs[0].desc.elements(),
                             report::number(check.max_error), report::percent(check.max_tolerances))
               : "WRONG: the oracle on every convolution gives another answer: " + check.reason,
      check.ok ? report::Style::good : report::Style::bad, program.colour()));
  CONVOY_TRY(const auto classes, rank_classes(tuned_run.outputs[0], 1, 1, {}));
  program.say(fmt::format("Its weights are random, so its answer (class {}) means nothing. For a model that does:",
                          classes[0].classes[0].index));
  program.say("\n  convoy run MODEL.onnx --input PICTURE.png --top 5 --labels LABELS.txt");

  json["tuned_seconds"] = tuned_run.seconds;
  json["heuristic_seconds"] = predicted_run.seconds;
  json["oracle_seconds"] = oracle_run.seconds;
  json["max_error"] = report::number_or_null(check.max_error);
  json["max_error_in_tolerances"] = report::number_or_null(check.max_tolerances);
  json["right"] = right;
  program.document(json);
  return right ? kDone : kWrongResult;
}

}  // namespace

void add_demo(Parser app, Program& program) {
  Parser command = add_subcommand(app, "demo", "Tune resnet18 on a picture made here and show what was chosen",
                                  "  convoy demo --threads 2 --picture demo.png");
  auto flags = std::make_shared<DemoFlags>();
  begin(command, Subject::output);
  command.add_option("--picture", flags->picture_file, "Write the picture here as PNG").type_name("FILE");
  add_shared_flags(command, program,
                   fmt::format("Tune for at most so long (default {}, at most {})", kDemoBudget, kMaxBudget));
  command.callback([flags, &program] { program.action = [flags, &program] { return demo(program, *flags); }; });
}

}  // namespace convoy::cli
