#include "network/prepare/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "device/device.h"
#include "network/assign/layout_rules.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/prepare/decide.h"
#include "network/prepare/foresee.h"
#include "network/prepare/improve.h"
#include "network/run/dynamic_subgraph.h"
#include "network/run/graph_session.h"
#include "network/run/lower.h"

namespace convoy::network {
namespace {

// A line for each step of preparing (event=prepare): what came of it, and what it took since the one before.
class StepLog {
 public:
  void operator()(std::string_view step, const std::string& result) {
    const double before = std::exchange(since_, monotonic_seconds());
    log(LogLevel::info, "prepare",
        {{"step", step}, {"result", result}, {"seconds", fmt::format("{:.3g}", since_ - before)}});
  }

 private:
  double since_ = monotonic_seconds();
};

// Its nodes are in no plan, and nothing is measured while it runs.
PrepareSettings settings_of_dynamic_subgraph(PrepareSettings settings) {
  settings.options.plan.reset();
  settings.options.kept_plans.clear();
  settings.options.selection.mode = SelectionMode::heuristic;
  settings.options.parts = BatchParts{};
  settings.options.memory = {};
  settings.candidates = {};
  settings.progress = {};
  settings.places = {};
  settings.options.cuda.reset();
  settings.options.device_memory_limit.reset();
  return settings;
}

// The graph's inputs and outputs, beside what was lowered; those of a part of the batch.
Prepared prepared_of(const Graph& graph, Lowered lowered, std::unique_ptr<DynamicSubgraph> dynamic_subgraph) {
  Prepared prepared{.lowered = std::move(lowered)};
  for (const int id : graph.inputs) {
    prepared.inputs.push_back(graph.values[id].desc);
    prepared.input_names.push_back(graph.values[id].name);
  }
  for (const int id : graph.outputs) {
    prepared.outputs.emplace_back(graph.values[id].desc);
    prepared.output_names.push_back(graph.values[id].name);
  }
  if (dynamic_subgraph) {
    for (const int k : dynamic_subgraph->outputs()) prepared.outputs[static_cast<std::size_t>(k)].reset();
  }
  prepared.dynamic_subgraph = std::move(dynamic_subgraph);
  return prepared;
}

// Steps share one workspace, as large as the largest of them needs.
std::optional<std::string> remark_on_workspace(const Program& program, std::optional<std::size_t> limit) {
  const auto workspace_of = [](const ProgramStep& step) { return step.info.workspace_bytes; };
  const auto largest = std::ranges::max_element(program.steps, {}, workspace_of);
  if (!limit || largest == program.steps.end() || workspace_of(*largest) <= *limit) return std::nullopt;
  return fmt::format("workspace limit {}: {} needs {} bytes; only convolutions can be chosen by it", *limit,
                     largest->info.nodes, workspace_of(*largest));
}

Result<void> check_limits(const Session& session, const MemoryGoal& goal) {
  const auto check = [](std::optional<std::int64_t> limit, std::size_t bytes, std::string_view text) -> Result<void> {
    if (!limit || bytes <= static_cast<std::size_t>(*limit)) return {};
    return Error{ErrorCode::unsupported, fmt::format(fmt::runtime(text), bytes, *limit)};
  };
  CONVOY_CHECK(
      check(goal.activation_limit, session.activation_bytes(), "activation limit: the plan needs {} bytes, not {}"));
  return check(goal.weight_limit, session.weight_bytes(), "weight limit: the plan keeps {} bytes, not {}");
}

}  // namespace

Result<std::unique_ptr<SwitchableSession>> prepare_graph(Graph given_graph, const PrepareSettings& given) {
  StepLog done;
  std::optional<Graph> foreseen;
  if (given.foresee && has_background() && can_foresee(given_graph, given.options)) foreseen = given_graph;
  CONVOY_TRY(Improved improved, improve(std::move(given_graph), given));
  const PrepareSettings& settings = improved.settings;
  done("improve", fmt::format("{} nodes, parts {}", improved.graph.nodes.size(), print(improved.header.parts)));

  Chooser chooser(settings.options, settings.progress, settings.candidates, settings.engines, settings.places);
  CONVOY_TRY(Decided decided, decide(std::move(improved.graph), improved.header, chooser));
  done("decide", fmt::format("{} nodes, {} remarks", decided.graph.nodes.size(), decided.remarks.size()));
  if (foreseen) {
    in_background([graph = *std::move(foreseen), own = decided.assignment, given](const std::stop_token& stop) {
      foresee_batches(graph, own, given, stop, in_background);
    });
  }

  CONVOY_TRY(std::unique_ptr<DynamicSubgraph> dynamic_subgraph,
             DynamicSubgraph::make(decided.graph, settings_of_dynamic_subgraph(settings)));
  if (dynamic_subgraph && settings.options.cuda) {
    decided.remarks.push_back(fmt::format(
        "{} nodes whose sizes are known when they run only: on the processor, with copies",
        std::ranges::count_if(decided.graph.nodes, [&](const Node& node) { return !is_static(decided.graph, node); })));
  }
  done("dynamic_subgraph", fmt::format("{} rows", dynamic_subgraph ? dynamic_subgraph->rows().size() : 0));

  const std::span<const int> exports = dynamic_subgraph ? dynamic_subgraph->exports() : std::span<const int>();
  CONVOY_TRY(Lowered lowered, lower(decided.graph, decided.assignment, exports, {chooser.places(), settings.engines}));
  if (auto remark = remark_on_workspace(lowered.program, settings.options.selection.filter.workspace_limit)) {
    decided.remarks.push_back(*std::move(remark));
  }
  done("lower", fmt::format("{} steps", lowered.program.steps.size()));

  Prepared prepared = prepared_of(decided.graph, std::move(lowered), std::move(dynamic_subgraph));
  for (const Place& place : chooser.places()) prepared.devices.push_back(place.device);
  prepared.home = chooser.home();
  prepared.graphs = settings.options.graphs;
  prepared.synchronous = settings.options.synchronous;
  prepared.threads = settings.team->size();
  prepared.parts = improved.header.parts;
  prepared.part_count = improved.part_count;
  const MemoryGoal& goal = given.options.memory;
  auto session = std::make_unique<GraphSession>(
      std::move(prepared), GraphSession::Settings{.team = given.team ? given.team : given.options.team,
                                                  .team_serves_several = given.options.team_serves_several,
                                                  .processors = given.options.cpu.logical_cpus,
                                                  .activation_limit = goal.activation_limit,
                                                  .device_memory_limit = settings.options.device_memory_limit,
                                                  .remarks = std::move(decided.remarks)});
  CONVOY_CHECK(check_limits(*session, goal));
  CONVOY_CHECK(session->allocate());
  done("allocate", fmt::format("{} bytes of activations, {} of weights, {} of workspace", session->activation_bytes(),
                               session->weight_bytes(), session->workspace_bytes()));
  return std::unique_ptr<SwitchableSession>(std::move(session));
}

Result<std::vector<NetworkConvolution>> list_convolutions(Graph given_graph, PrepareSettings given) {
  if (!given.options.parts) given.options.parts = BatchParts{};
  CONVOY_TRY(Improved improved, improve(std::move(given_graph), given));
  Graph& graph = improved.graph;
  PrepareSettings& settings = improved.settings;
  Chooser chooser(settings.options, {}, {}, settings.engines);
  std::vector<std::string> remarks;
  CONVOY_TRY(const Forms forms, forms_by(settings.options.how, graph, chooser, remarks));
  const std::vector<NodeFormats> formats = take_form(graph, forms);
  std::vector<NetworkConvolution> found;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node) || !node.conv) continue;
    NetworkConvolution convolution{.problem = conv_query(graph, node, formats[n], chooser).problem,
                                   .nodes = joined(node.sources),
                                   .caches = settings.options.selection.caches};
    convolution.constant_weights = graph.constant_of(conv_inputs(node).weights) != nullptr;
    const auto same = std::find_if(found.begin(), found.end(), [&](const NetworkConvolution& other) {
      return other.problem == convolution.problem && other.constant_weights == convolution.constant_weights;
    });
    if (same == found.end()) {
      found.push_back(std::move(convolution));
    } else {
      ++same->count;
      same->nodes += ", " + convolution.nodes;
    }
  }
  return found;
}

}  // namespace convoy::network
