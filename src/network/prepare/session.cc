#include "network/prepare/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "core/text.h"
#include "device/device.h"
#include "network/assign/kept_plan.h"
#include "network/assign/plan.h"
#include "network/assign/sides.h"
#include "network/assign/threads.h"
#include "network/cost/caches.h"
#include "network/cost/measure_step.h"
#include "network/cost/selector.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/graph/pass.h"
#include "network/graph/unfuse.h"
#include "network/prepare/improve.h"
#include "network/run/graph_session.h"
#include "network/run/lower.h"
#include "network/run/tail.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

// The share of a budget that convolutions get first; operators and conversions, which take fewer samples and have no
// candidates, get what is left.
constexpr double kOfConvolutions = 0.8;

// What runs besides convolutions, and tiny steps on one thread, too.
Result<void> measure_on_threads(const Graph& graph, const Assignment& assignment, const NetworkOptions& options,
                                double budget_seconds) {
  const SelectionOptions& selection = options.selection;
  const double end = monotonic_seconds() + budget_seconds;
  PlanRequest request{.threads = options.threads, .cpu = options.cpu};
  const std::vector<StepProblem> on_all = step_problems(graph, assignment, Threads::all);
  const bool energy = selection.objective.energy > 0;
  CONVOY_CHECK(measure_steps(on_all, request, selection.caches, budget_seconds, *selection.store, energy));
  if (options.threads == 1) return {};
  std::vector<StepProblem> on_one = step_problems(graph, assignment, Threads::one);
  Selector knows(options, {}, {});
  std::ranges::copy_if(on_all, std::back_inserter(on_one), [&](const StepProblem& problem) {
    return may_be_better_on_one(knows.cost(problem, Threads::one).seconds, knows.cost(problem).seconds);
  });
  request.threads = 1;
  const double left = budget_seconds > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
  return measure_steps(on_one, request, selection.caches, left, *selection.store, energy);
}

constexpr int kMostPasses = 8;  // of measuring what takes least by the costs that are known

// Of the graph as it is then: fusions that are not wanted are undone.
Result<Assignment> decide(Graph& graph, const NetworkPlanHeader& header, const NetworkOptions& options,
                          Selector& selector, std::vector<std::string>& remarks) {
  const auto obeyed = [&](const NetworkPlan& plan) -> Result<Assignment> {
    Graph planned = graph;
    unfuse(planned, unfused_by(plan, graph));
    CONVOY_TRY(Assignment assignment, assign(planned, plan, header, options, selector, remarks));
    graph = std::move(planned);
    return assignment;
  };
  if (options.plan) {
    auto assignment = obeyed(*options.plan);
    return assignment.ok() ? std::move(assignment) : Result<Assignment>(assignment.error().within("plan"));
  }
  if (!options.kept_plans.empty()) {
    const std::string path = kept_plan_path(options.kept_plans, header, options.cpu);
    const auto kept = read_kept_plan(path);
    auto assignment = kept.ok() ? obeyed(*kept) : kept.error();
    if (assignment.ok()) return assignment;
    if (assignment.error().code != ErrorCode::not_found) {
      remarks.push_back(fmt::format("{} is not obeyed: {}", path, assignment.error().message));
    }
  }
  CONVOY_TRY(const Forms forms, forms_by(options.how, graph, selector, remarks, options.memory));
  CONVOY_TRY(Assignment assignment, assign(graph, take_form(graph, forms), selector, forms.candidates));
  const bool has_threads = options.how == "global" || options.how == "local";
  if (!has_threads) choose_threads(graph, assignment, selector);
  return assignment;
}

}  // namespace

Result<NetworkPlan> plan_of(Graph given_graph, const PrepareSettings& given) {
  CONVOY_TRY(Improved improved, improve(std::move(given_graph), given));
  const Graph& graph = improved.graph;
  PrepareSettings& settings = improved.settings;
  SelectionOptions& selection = settings.options.selection;
  decide_caches(graph, settings.options.cpu, selection);
  const bool measures = selection.mode == SelectionMode::measured;
  const double budget = selection.budget_seconds;
  const double end = monotonic_seconds() + budget;
  selection::RoundStore here;  // what is measured is what the lines say, with a database or without
  if (measures && selection.store == nullptr) selection.store = &here;
  std::vector<std::string> remarks;
  struct Decided {
    Graph graph;
    Assignment assignment;
  };
  const auto pass = [&]() -> Result<Decided> {
    const double left = budget > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
    if (measures) selection.budget_seconds = kOfConvolutions * left;
    remarks.clear();
    Selector chooses(settings.options, settings.progress, settings.candidates, settings.engines, settings.places);
    Decided decided{graph, {}};
    CONVOY_TRY(decided.assignment, decide(decided.graph, improved.header, settings.options, chooses, remarks));
    if (!measures) return decided;
    // At least a moment: a budget of which nothing is left must not become one without an end.
    const double rest = budget > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
    CONVOY_CHECK(measure_on_threads(decided.graph, decided.assignment, settings.options, rest));
    return decided;
  };
  // What takes least by predictions may not once it is measured, and then something else is looked at. Where the same
  // is best again, every cost of it has been measured that could be.
  const bool again = measures && !settings.options.plan && settings.options.how == "global";
  selection.likely_only = again;
  const auto is_alike = [](const NodeAssignment& a, const NodeAssignment& b) {
    return a.sides == b.sides && a.problem == b.problem;
  };
  CONVOY_TRY(Decided decided, pass());
  for (int passes = 1; again && passes < kMostPasses && (budget <= 0 || monotonic_seconds() < end); ++passes) {
    CONVOY_TRY(Decided next, pass());
    const bool same = std::ranges::equal(decided.assignment.nodes, next.assignment.nodes, is_alike);
    decided = std::move(next);
    if (same) break;
  }
  Selector knows(settings.options, {}, {}, settings.engines, settings.places);
  NetworkPlan plan = plan_of(decided.graph, decided.assignment, improved.header, knows);
  for (const std::string& remark : remarks) {
    for (const std::string_view line : split(remark, '\n')) plan.remarks.emplace_back(line);
  }
  return plan;
}

Result<std::vector<NetworkConvolution>> list_convolutions(Graph given_graph, PrepareSettings given) {
  if (!given.options.parts) given.options.parts = BatchParts{};
  CONVOY_TRY(Improved improved, improve(std::move(given_graph), given));
  Graph& graph = improved.graph;
  PrepareSettings& settings = improved.settings;
  decide_caches(graph, settings.options.cpu, settings.options.selection);
  Selector selector(settings.options, {}, {}, settings.engines);
  std::vector<std::string> remarks;
  CONVOY_TRY(const Forms forms, forms_by(settings.options.how, graph, selector, remarks));
  const std::vector<Sides> sides = take_form(graph, forms);
  std::vector<NetworkConvolution> found;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node) || !node.conv) continue;
    NetworkConvolution convolution{.problem = in_formats(selector.allowed(node.conv->problem), sides[n]),
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

Result<std::unique_ptr<SwitchableSession>> prepare_graph(Graph given_graph, const PrepareSettings& given) {
  CONVOY_TRY(Improved improved, improve(std::move(given_graph), given));
  Graph& graph = improved.graph;
  PrepareSettings& settings = improved.settings;
  decide_caches(graph, settings.options.cpu, settings.options.selection);

  Selector selector(settings.options, settings.progress, settings.candidates, settings.engines, settings.places);
  std::vector<std::string> remarks;
  CONVOY_TRY(const Assignment assignment, decide(graph, improved.header, settings.options, selector, remarks));
  PrepareSettings of_tail = settings;  // its nodes are in no plan, and nothing is measured while it runs
  of_tail.options.plan.reset();
  of_tail.options.kept_plans.clear();
  of_tail.options.selection.mode = SelectionMode::heuristic;
  of_tail.candidates = {};
  of_tail.progress = {};
  of_tail.options.parts = BatchParts{};
  of_tail.options.memory = {};
  of_tail.places = {};
  CONVOY_TRY(std::unique_ptr<Tail> tail, Tail::make(graph, of_tail));
  std::vector<TensorDesc> inputs;
  std::vector<std::string> input_names, output_names;
  for (int id : graph.inputs) {
    inputs.push_back(graph.values[id].desc);
    input_names.push_back(graph.values[id].name);
  }
  for (int id : graph.outputs) output_names.push_back(graph.values[id].name);
  std::vector<bool> by_tail(graph.outputs.size(), false);
  if (tail) {
    for (int k : tail->outputs()) by_tail[k] = true;
  }
  std::vector<std::optional<TensorDesc>> outputs;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    outputs.push_back(by_tail[k] ? std::nullopt : std::optional(graph.values[graph.outputs[k]].desc));
  }
  CONVOY_TRY(Lowered lowered, lower(graph, assignment, tail ? tail->exports() : std::span<const int>(),
                                    {selector.places(), settings.engines}));
  // Steps share one workspace, as large as the largest of them needs.
  const auto workspace_of = [](const ProgramStep& step) { return step.info.workspace_bytes; };
  const auto largest = std::ranges::max_element(lowered.program.steps, {}, workspace_of);
  const auto workspace_limit = settings.options.selection.filter.workspace_limit;
  if (workspace_limit && largest != lowered.program.steps.end() && workspace_of(*largest) > *workspace_limit) {
    remarks.push_back(fmt::format("workspace limit {}: {} needs {} bytes; only convolutions can be chosen by it",
                                  *workspace_limit, largest->info.nodes, workspace_of(*largest)));
  }
  std::vector<const Device*> devices;
  for (const Place& place : selector.places()) devices.push_back(place.device);
  auto session =
      std::make_unique<GraphSession>(Prepared{.lowered = std::move(lowered),
                                              .devices = std::move(devices),
                                              .inputs = std::move(inputs),
                                              .input_names = std::move(input_names),
                                              .output_names = std::move(output_names),
                                              .outputs = std::move(outputs),
                                              .tail = std::move(tail),
                                              .threads = settings.team->size(),
                                              .parts = improved.header.parts,
                                              .part_count = improved.part_count},
                                     GraphSession::Settings{.team = given.team ? given.team : given.options.team,
                                                            .team_serves_several = given.options.team_serves_several,
                                                            .processors = given.options.cpu.logical_cpus,
                                                            .activation_limit = given.options.memory.activation_limit,
                                                            .remarks = std::move(remarks)});
  if (const auto limit = given.options.memory.activation_limit;
      limit && session->activation_bytes() > static_cast<std::size_t>(*limit)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("activation limit: the plan needs {} bytes, not {}", session->activation_bytes(), *limit)};
  }
  if (const auto limit = given.options.memory.weight_limit;
      limit && session->weight_bytes() > static_cast<std::size_t>(*limit)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("weight limit: the plan keeps {} bytes, not {}", session->weight_bytes(), *limit)};
  }
  CONVOY_CHECK(session->allocate());
  return std::unique_ptr<SwitchableSession>(std::move(session));
}

}  // namespace convoy::network
