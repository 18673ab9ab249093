#include "cli/timed_plans.h"

#include <fmt/format.h>

#include "convoy/network_plan.h"
#include "network/tune/side_by_side.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

// Steps come in the order of the lines; a line that costs nothing may have none, and a copy between a GPU and the
// processor has no line.
std::vector<report::PlannedStep> with_costs(const network::Timed& side, const std::vector<NetworkPlanLine>& lines) {
  std::vector<report::PlannedStep> steps;
  for (std::size_t i = 0; i < side.steps.size(); ++i) {
    steps.push_back({side.steps[i], side.step_seconds[i], std::nullopt});
  }
  std::size_t next = 0;
  for (const NetworkPlanLine& line : lines) {
    while (next < steps.size() && steps[next].step.kind == "convert" && steps[next].step.step_problem.empty()) ++next;
    if (next == steps.size()) break;
    report::PlannedStep& step = steps[next];
    if (step.step.nodes != line.name || (step.step.kind == "convert") != (line.kind == "convert")) continue;
    if (line.cost) step.cost = report::LineCost{line.cost->seconds, line.cost->measured};
    ++next;
  }
  return steps;
}

}  // namespace

Result<PlannedSide> plan_side(const Program& program, const Network& network, std::span<const TensorDesc> descs,
                              const std::string& side, const NetworkOptions& options, const MemoryFlags& memory) {
  PlannedSide planned{.name = side};
  CONVOY_TRY(planned.options, options_of_side(program, side, options, memory));
  auto plan = network.plan(descs, planned.options);  // of a file, too: what its lines cost is not read
  if (!plan.ok()) return plan.error().within(side);
  planned.options.plan = *std::move(plan);
  planned.options.memory = {};
  planned.options.selection.mode = SelectionMode::heuristic;  // what was measured is in the plan
  planned.remarks = planned.options.plan->remarks;
  if (const BatchParts& parts = planned.options.plan->header.parts; parts != BatchParts{}) {
    planned.remarks.push_back(
        fmt::format("the batch is run in parts: {}; steps, and memory over them, are those of one part", print(parts)));
  }
  return planned;
}

Result<std::vector<report::NetworkPlan>> time_plans(const Network& network, std::span<const TensorDesc> descs,
                                                    std::span<const PlannedSide> planned,
                                                    std::span<const HostTensor> inputs, int rounds) {
  std::vector<network::Variant> variants;
  for (const PlannedSide& side : planned) variants.push_back({side.name, side.options});
  CONVOY_TRY(const auto timed, network::time_side_by_side(network, descs, variants, inputs, rounds));
  std::vector<report::NetworkPlan> plans;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const network::Timed& side = timed[i];
    report::NetworkPlan& plan = plans.emplace_back();
    plan.name = planned[i].name;
    plan.precision = planned[i].options.precision;
    plan.steps = with_costs(side, planned[i].options.plan->lines);
    plan.turns = side.turns;
    plan.seconds = side.seconds;
    plan.undisturbed_seconds = side.undisturbed_seconds;
    plan.ratio = side.over_first;
    plan.remarks = planned[i].remarks;
    plan.remarks.insert(plan.remarks.end(), side.remarks.begin(), side.remarks.end());
    plan.activations = side.activations;
    plan.activation_bytes = side.activation_bytes;
    plan.weight_bytes = side.weight_bytes;
    plan.workspace_bytes = side.workspace_bytes;
  }
  return plans;
}

void say_plans(const Program& program, std::span<const report::NetworkPlan> plans,
               std::span<const report::Peer> peers) {
  using report::Align;
  report::Table table;
  table.column("plan").column("a run", Align::right).column("x first", Align::right).column("predicted", Align::right);
  table.column("lines measured", Align::right).column("conversions", Align::right).column("activations", Align::right);
  for (const report::NetworkPlan& plan : plans) {
    const std::string over_first =
        fmt::format("{:.3f} +-{:.1f}%", plan.ratio.median, 100 * plan.ratio.relative_uncertainty());
    table.row({plan.name, report::seconds(plan.seconds.median), over_first, report::seconds(plan.predicted_seconds()),
               fmt::format("{} of {}", plan.measured_lines(), plan.lines()), fmt::format("{}", plan.conversions()),
               report::bytes(static_cast<double>(plan.activation_bytes))});
  }
  for (const report::Peer& peer : peers) {
    table.row({peer.name, report::seconds(peer.seconds),
               fmt::format("{:.3f}", peer.seconds / plans.front().seconds.median), "", "", "", ""},
              report::Style::faint);
  }
  program.say(table);
}

}  // namespace convoy::cli
