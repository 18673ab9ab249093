#include "cli/network_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "cli/batch.h"
#include "cli/ceiling_report.h"
#include "cli/plan_flags.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "core/text.h"
#include "io/file.h"
#include "network/tune/side_by_side.h"
#include "report/format.h"
#include "select/explain/explain.h"

namespace convoy::cli {
namespace {

// The first is the one that is shown node by node.
constexpr const char* kPlans[] = {"global", "greedy", "local", "uniform:nhwc"};

std::string text_of_file(const std::string& path) {
  const auto bytes = io::read_file(path);
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : std::string();
}

Result<NetworkPlanHeader> header_of_file(const std::string& path) {
  auto plan = parse_plan(text_of_file(path));
  if (!plan.ok()) return plan.error().within(path);
  return std::move(plan->header);
}

bool is_plan(const std::string& path) { return text_of_file(path).starts_with("convoy-plan"); }

bool is_model(const std::string& subject) { return subject.starts_with("zoo:") || subject.ends_with(".onnx"); }

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

struct Subjects {
  std::string model;
  std::vector<std::string> plans;
};

Result<Subjects> subjects_of(const NetworkReportFlags& flags) {
  Subjects subjects{.model = {}, .plans = flags.subjects};
  const std::string first = flags.subjects.front();
  if (is_model(first)) {
    subjects.model = first;
    subjects.plans.erase(subjects.plans.begin());
  } else {
    CONVOY_TRY(const NetworkPlanHeader header, header_of_file(first));
    subjects.model = header.network;
    if (!is_model(subjects.model)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} is for network '{}', which is neither zoo:NAME nor an .onnx file: name the model "
                               "first, convoy report MODEL {}",
                               first, subjects.model, first)};
    }
  }
  if (subjects.plans.empty()) subjects.plans.assign(std::begin(kPlans), std::end(kPlans));
  for (auto each = subjects.plans.begin(); each != subjects.plans.end(); ++each) {
    if (std::find(subjects.plans.begin(), each, *each) != each) {
      return Error{ErrorCode::invalid_argument, fmt::format("'{}' is given twice", *each)};
    }
  }
  return subjects;
}

Result<report::Peer> parse_peer(const std::string& text) {
  CONVOY_TRY(const auto parts, split_assignment("--peer", text));
  const std::pair<std::string_view, double> units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  for (const auto& [unit, seconds] : units) {
    if (!parts.second.ends_with(unit)) continue;
    const auto value = parse_double(std::string_view(parts.second).substr(0, parts.second.size() - unit.size()));
    if (value.ok() && *value > 0) return report::Peer{parts.first, *value * seconds};
    break;
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("--peer {}: '{}' is no time (12.3ms, 870us, 1.2s)", text, parts.second)};
}

// A plan as it will be replayed.
struct Planned {
  std::string name;
  NetworkOptions options;  // with the plan
  std::vector<std::string> remarks;
};

Result<Planned> plan_by(const Program& program, const Network& network, std::span<const TensorDesc> descs,
                        const std::string& side, const NetworkOptions& options) {
  Planned planned;
  planned.name = side;
  CONVOY_TRY(planned.options, options_of_side(program, side, options));
  if (!planned.options.plan) {
    auto plan = network.plan(descs, planned.options);
    if (!plan.ok()) return plan.error().within(side);
    planned.options.plan = std::move(*plan);
  }
  planned.options.selection.mode = SelectionMode::heuristic;  // what was measured is in the plan
  planned.remarks = planned.options.plan->remarks;
  if (const BatchParts& parts = planned.options.plan->header.parts; parts != BatchParts{}) {
    planned.remarks.push_back(
        fmt::format("the batch is run in parts: {}; steps, and memory over them, are those of one part", print(parts)));
  }
  return planned;
}

// Steps come in the order of the lines; a line that costs nothing may have none.
std::vector<report::PlannedStep> with_costs(const network::Timed& side, const std::vector<NetworkPlanLine>& lines) {
  std::vector<report::PlannedStep> steps;
  for (std::size_t i = 0; i < side.steps.size(); ++i) {
    steps.push_back({side.steps[i], side.step_seconds[i], std::nullopt});
  }
  std::size_t next = 0;
  for (const NetworkPlanLine& line : lines) {
    if (next == steps.size()) break;
    report::PlannedStep& step = steps[next];
    if (step.step.nodes != line.name || (step.step.kind == "convert") != (line.kind == "convert")) continue;
    if (line.cost) step.cost = report::LineCost{line.cost->seconds, line.cost->measured};
    ++next;
  }
  return steps;
}

Result<report::ProblemFacts> facts_of(const Program& program, const NetworkStep& step, const SelectionOptions& options,
                                      const PlanRequest& request, const selection::MachineCeiling& ceiling) {
  CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(step.problem, request));
  const auto explanation = selection::explain(step.problem, program.engines(), options, weighted.request, step.nodes);
  report::ProblemFacts facts;
  facts.least_seconds = selection::least_seconds(step.problem, ceiling, request);
  report::Refusals refusals;
  for (const selection::EngineVerdict& verdict : explanation.engines) {
    const std::string& name = verdict.answer.engine->info().name;
    if (const auto& no = verdict.answer.refusal ? verdict.answer.refusal : verdict.excluded) {
      refusals.add(name, *no);
      continue;
    }
    facts.predicted.emplace_back(name, verdict.answer.predicted_seconds);
    if (!verdict.notes.empty()) facts.notes[name] = verdict.notes;
  }
  std::ranges::sort(facts.predicted, {}, &std::pair<std::string, double>::second);
  facts.refusals = refusals.groups();
  // A plan may run something else than what would be chosen for the problem alone: then that is who comes next.
  const Candidate& runs = step.selection.candidate;
  if (explanation.chosen && !(explanation.chosen->candidate.engine == runs.engine)) {
    facts.runner_up = print(explanation.chosen->candidate);
    facts.why_not =
        fmt::format("chosen for the problem alone ({}); the plan says otherwise", explanation.chosen->reason());
  } else if (explanation.runner_up) {
    facts.runner_up = print(*explanation.runner_up);
    facts.why_not = explanation.why_not_runner_up;
  }
  return facts;
}

selection::MachineCeiling raised_by(const Program& program, std::span<const network::Timed> sides,
                                    const selection::MachineCeiling& ceiling, const PlanRequest& request) {
  std::vector<selection::Reached> all;
  for (const network::Timed& side : sides) {
    for (std::size_t i = 0; i < side.steps.size(); ++i) {
      const NetworkStep& step = side.steps[i];
      if (step.kind != "conv" || step.threads != request.threads) continue;
      const Measurement in_runs{.candidate = step.selection.candidate,
                                .median_seconds = side.step_seconds[i],
                                .samples = side.seconds.samples};
      auto reached = selection::reached(step.problem, in_runs, program.engines(), request);
      if (reached) all.push_back(*std::move(reached));
    }
  }
  return selection::raised(ceiling, all, request);
}

}  // namespace

bool is_network_subject(const std::string& subject) { return is_model(subject) || is_plan(subject); }

Result<report::NetworkReport> report_on_network(const Program& program, const NetworkReportFlags& flags) {
  CONVOY_TRY(const Subjects subjects, subjects_of(flags));
  report::NetworkReport report;
  for (const std::string& peer : flags.peers) {
    CONVOY_TRY(report.peers.emplace_back(), parse_peer(peer));
  }
  CONVOY_TRY(NetworkOptions options, program.network_options());
  if (program.shared.threads == 0) {  // those of the first plan file, so that the others are made for as many
    const auto file = std::ranges::find_if(subjects.plans, is_plan);
    if (file != subjects.plans.end()) {
      CONVOY_TRY(const NetworkPlanHeader header, header_of_file(*file));
      options.threads = header.threads;
    }
  }
  const auto database = attach_database(program, options.selection);
  CONVOY_TRY(const auto network, open_network(subjects.model));
  InputFlags input = flags.input;
  input.random = true;
  CONVOY_TRY(const InputReader reader, InputReader::open(*network, input));
  std::vector<Sample> samples(1);
  CONVOY_TRY(samples[0], reader.read(0));
  CONVOY_TRY(const Batch batch, assemble(*network, std::move(samples), reader.batch()));
  const std::vector<TensorDesc> descs = batch.descs();

  std::vector<Planned> planned;
  std::vector<network::Variant> named;
  for (const std::string& side : subjects.plans) {
    CONVOY_TRY(planned.emplace_back(), plan_by(program, *network, descs, side, options));
    named.push_back({side, planned.back().options});
    if (planned.back().options.threads != planned.front().options.threads) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} is for {} threads, {} for {}: --threads N, and plans made with it", side,
                               planned.back().options.threads, planned.front().name, planned.front().options.threads)};
    }
  }
  CONVOY_TRY(const auto sides, network::time_side_by_side(*network, descs, named, batch.tensors, flags.rounds));

  PlanRequest request;
  CONVOY_TRY(request, program.plan_request());
  request.threads = named.front().options.threads;
  report.network = subjects.model;
  report.place = place_of(request);
  report.isa = convoy::name_of(named.front().options.cpu.isa);
  report.date = today();
  report.threads = request.threads;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    report.inputs.push_back(
        fmt::format("{} {} {}", network->inputs()[i].name, convoy::name_of(descs[i].type), to_string(descs[i].dims)));
  }
  report.ceiling = raised_by(program, sides, selection::machine_ceiling(request), request);
  report.ceiling_text = text_of(report.ceiling);
  for (std::size_t i = 0; i < sides.size(); ++i) {
    report::NetworkPlan& plan = report.plans.emplace_back();
    plan.name = planned[i].name;
    plan.steps = with_costs(sides[i], planned[i].options.plan->lines);
    plan.turns = sides[i].turns;
    plan.seconds = sides[i].seconds;
    plan.undisturbed_seconds = sides[i].undisturbed_seconds;
    plan.ratio = sides[i].over_first;
    plan.remarks = planned[i].remarks;
    plan.remarks.insert(plan.remarks.end(), sides[i].remarks.begin(), sides[i].remarks.end());
    plan.activations = sides[i].activations;
    plan.activation_bytes = sides[i].activation_bytes;
    plan.weight_bytes = sides[i].weight_bytes;
    plan.workspace_bytes = sides[i].workspace_bytes;
  }
  take_caches(*network, descs, options, options.selection);
  options.selection.mode = SelectionMode::heuristic;
  for (const report::PlannedStep& each : report.shown().steps) {
    if (each.step.kind != "conv") continue;
    const std::string problem = print(each.step.problem);
    if (report.facts.contains(problem)) continue;
    CONVOY_TRY(report.facts[problem], facts_of(program, each.step, options.selection, request, report.ceiling));
  }
  return report;
}

void say_plans(const Program& program, const report::NetworkReport& report) {
  using report::Align;
  report::Table table;
  table.column("plan").column("a run", Align::right).column("x first", Align::right).column("predicted", Align::right);
  table.column("lines measured", Align::right).column("conversions", Align::right).column("activations", Align::right);
  for (const report::NetworkPlan& plan : report.plans) {
    table.row({plan.name, report::seconds(plan.seconds.median), fmt::format("{:.3f}", plan.ratio.median),
               report::seconds(plan.predicted_seconds()), fmt::format("{} of {}", plan.measured_lines(), plan.lines()),
               fmt::format("{}", plan.conversions()), report::bytes(static_cast<double>(plan.activation_bytes))});
  }
  for (const report::Peer& peer : report.peers) {
    table.row({peer.name, report::seconds(peer.seconds),
               fmt::format("{:.3f}", peer.seconds / report.shown().seconds.median), "", "", "", ""},
              report::Style::faint);
  }
  program.say(table);
}

}  // namespace convoy::cli
