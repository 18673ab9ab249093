// Plan files: whatever is read is obeyed or refused, strictly and leniently; what is obeyed is written as a plan that
// says the same.
#include <cstdlib>
#include <string>

#include "convoy/network_plan.h"
#include "fuzz/fuzz.h"
#include "network/assign/plan.h"
#include "network/graph/pass.h"

namespace convoy::fuzz {
namespace {

using network::Graph;

// x -> Conv "a" -> MaxPool "b" -> Transpose "c" -> y, after its passes.
Graph small_graph() {
  Graph graph;
  const auto add = [&](const std::string& op, int input, int weights,
                       std::map<std::string, ops::Attribute> attributes) {
    network::Node node;
    node.desc.op = op;
    node.desc.name = op;
    node.desc.attributes = std::move(attributes);
    node.inputs = {input};
    if (weights != network::kAbsent) node.inputs.push_back(weights);
    node.outputs = {graph.add_value(op)};
    node.sources = {std::string(1, static_cast<char>('a' + graph.nodes.size()))};
    graph.nodes.push_back(node);
    return node.outputs[0];
  };
  const int x = graph.add_value("x");
  graph.values[x].known = true;
  graph.values[x].desc = TensorDesc::packed(DataType::f32, {1, 8, 6, 6});
  graph.inputs = {x};
  auto weights = HostTensor::allocate(TensorDesc::packed(DataType::f32, {8, 8, 1, 1}));
  if (!weights.ok()) std::abort();
  const int w = graph.add_constant("w", std::move(*weights));
  const int pooled =
      add("MaxPool", add("Conv", x, w, {}), network::kAbsent, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  graph.outputs = {add("Transpose", pooled, network::kAbsent, {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}})};
  const auto team = make_cpu_team(1);
  if (!run_passes(graph, network::PassContext{*team, cpu_features()}).ok()) std::abort();
  return graph;
}

}  // namespace

void plan(Bytes bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto read = parse_plan(text);
  if (!read.ok()) return;
  static const Graph graph = small_graph();
  for (const bool lenient : {false, true}) {
    NetworkOptions options;
    options.lenient_plan = lenient;
    // Whatever it is for: so that its nodes are looked at.
    NetworkPlan plan = *read;
    plan.header = header_of(graph, options);
    for (NetworkPlanLine& line : plan.lines) line.one_thread = false;  // as there is but one
    network::Chooser chooser(options, {}, {});
    std::vector<std::string> remarks;
    const auto assignment = assign(graph, plan, plan.header, options, chooser, remarks);
    if (!assignment.ok()) {
      if (lenient) std::abort();
      continue;
    }
    const NetworkPlan made = plan_of(graph, *assignment, plan.header, chooser);
    const auto again = parse_plan(print(made));
    if (!again.ok() || !same_choices(*again, made)) std::abort();
    if (lenient) continue;
    if (made.lines.size() != plan.lines.size()) std::abort();
    for (std::size_t i = 0; i < made.lines.size(); ++i) {
      NetworkPlanLine& line = plan.lines[i];
      if (line.kind == "conv") line.runs_on = made.lines[i].runs_on;  // completed: some knobs are enough
      if (!same_choices(line, made.lines[i])) std::abort();
    }
  }
}

}  // namespace convoy::fuzz
