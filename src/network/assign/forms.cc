#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "network/assign/layout_rules.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/graph/unfuse.h"
#include "ops/on_device.h"

namespace convoy::network {
namespace {

bool on_narrow_units(const Graph& graph, std::span<const DataType> types, MathMode math) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.conv) continue;
    const DataType type = node.conv->problem.x.type;
    if (size_of(type) == 2 || (type == DataType::f32 && (size_of(types[n]) == 2 || math != MathMode::strict))) {
      return true;
    }
  }
  return false;
}

// These formats, and the layouts besides theirs that a convolution at home may run in.
std::array<NodeFormats, 3> formats_at_home(const NodeFormats& formats) {
  const auto in = [&](Layout layout) {
    return NodeFormats{
        .reads = {layout, formats.reads.real}, .writes = {layout, formats.writes.real}, .strict = formats.strict};
  };
  return {formats, in(Layout::nhwc), in(Layout::nchw)};
}

// What an engine takes in the first of them that one runs in, if that may be less than `limit`.
std::optional<double> seconds_at_home(const Graph& graph, const Node& node, const NodeFormats& formats, double limit,
                                      Chooser& chooser) {
  const auto all = formats_at_home(formats);
  const auto may_take_less = [&](const NodeFormats& tried) {
    return predict_at_least(graph, node, tried, chooser) < limit;
  };
  if (std::ranges::none_of(all, may_take_less)) return std::nullopt;
  for (const NodeFormats& tried : all) {
    if (const auto seconds = chooser.predict(conv_query(graph, node, tried, chooser))) return seconds;
  }
  return std::nullopt;
}

// How many fusions are undone for a convolution to have no gate.
int gates_of(const Node& node) { return &without_gate(node) != &node ? 1 : 0; }

// A GPU's engines don't take every fusion, or take some by slow ones: of each convolution as many are undone as is
// predicted to take least, with the operators that are left.
std::vector<int> unfused_at_home(const Graph& graph, const std::vector<NodeFormats>& formats, Chooser& chooser) {
  std::vector<int> undone(graph.nodes.size(), 0);
  if (chooser.home() == 0) return undone;
  const PlanRequest& request = chooser.places()[static_cast<std::size_t>(chooser.home())].request;
  const bool has_kernels = ops::check_compiler_on_device(request).ok();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].conv || !is_static(graph, graph.nodes[n])) continue;
    double least = std::numeric_limits<double>::infinity(), operators = 0;
    int count = 0;
    // Where nothing runs it at home it is the processor's, whose engines take no gate.
    undone[n] = gates_of(graph.nodes[n]);
    for (const Node* left = &graph.nodes[n];; left = &left->fused->conv, ++count) {
      const auto seconds = seconds_at_home(graph, *left, formats[n], least - operators, chooser);
      if (seconds && *seconds + operators < least) {
        least = *seconds + operators;
        undone[n] = count;
      }
      if (!left->fused) break;
      const ConvProblem& problem = left->conv->problem;
      const auto bytes = static_cast<double>(left->fused->ahead ? problem.x.bytes() : problem.out().bytes());
      operators += has_kernels ? ops::predict_seconds_on_device(2 * bytes, request) : kOnProcessor;
    }
  }
  return undone;
}

// Whether convolutions of few channels, which fill little of a tensor core's tile, are predicted to take less on planes
// than in these formats.
constexpr std::int64_t kFewChannels = 16;
bool take_less_on_planes(const Graph& graph, const std::vector<NodeFormats>& formats, Chooser& chooser) {
  const auto seconds = [&](const Node& node, const NodeFormats& tried) {
    const auto alone = chooser.predict(conv_query(graph, node, tried, chooser));
    return alone ? *alone : std::numeric_limits<double>::infinity();
  };
  std::vector<std::pair<const Node*, NodeFormats>> on_planes;
  double given = 0, least = 0, planes = 0;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].conv || !is_static(graph, graph.nodes[n])) continue;
    const ConvProblem& problem = graph.nodes[n].conv->problem;
    if (std::max(problem.in_channels(), problem.out_channels()) > kFewChannels) return false;
    const Node& node = what_runs(graph, graph.nodes[n], formats[n].writes.real, chooser);
    on_planes.emplace_back(&node, formats[n]);
    NodeFormats& row_major = on_planes.back().second;
    row_major.reads.layout = row_major.writes.layout = Layout::nchw;
    given += seconds(node, formats[n]);
    least += predict_at_least(graph, node, row_major, chooser);
  }
  if (least >= given) return false;
  for (const auto& [node, row_major] : on_planes) planes += seconds(*node, row_major);
  return planes < given;
}

// A convolution reads an input of the network as it is, row-major, where that takes less than with a conversion first.
void read_inputs_as_they_are(const Graph& graph, std::vector<NodeFormats>& formats, Chooser& chooser) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.conv || std::ranges::find(graph.inputs, conv_inputs(node).data) == graph.inputs.end()) continue;
    const Value& input = graph.values[conv_inputs(node).data];
    const auto seconds = [&](const NodeFormats& tried) {
      const auto alone = chooser.predict(conv_query(graph, node, tried, chooser));
      if (!alone) return std::numeric_limits<double>::infinity();
      return *alone +
             chooser.costs().seconds_of_conversion(described(input, Layout::nchw), described(input, tried.reads));
    };
    NodeFormats row_major = formats[n];
    row_major.reads.layout = Layout::nchw;
    const double given = seconds(formats[n]);
    if (predict_at_least(graph, node, row_major, chooser) >= given) continue;
    if (seconds(row_major) < given) formats[n] = row_major;
  }
}

}  // namespace

const Node& what_runs(const Graph& graph, const Node& node, DataType type, Chooser& chooser) {
  if (!node.conv || chooser.home() == 0) return node;
  const auto runs = [&](const Node& left) {
    for (const Layout reads : {Layout::nhwc, Layout::nchw}) {
      for (const Layout writes : {Layout::nhwc, Layout::nchw}) {
        if (chooser.predict(conv_query(graph, left, {{reads, type}, {writes, type}}, chooser))) return true;
      }
    }
    return false;
  };
  const Node* left = &node;
  for (; !runs(*left); left = &left->fused->conv) {
    if (!left->fused) return node;
  }
  return *left;
}

std::vector<NodeFormats> take_form(Graph& graph, const Forms& forms) {
  std::vector<NodeFormats> formats;
  for (std::size_t n = 0; n < forms.formats.size(); ++n) {
    const NodeFormats& given = forms.formats[n];
    const bool has_gate = forms.unfused[n] > 0 && gates_of(graph.nodes[n]) > 0;
    if (has_gate) formats.push_back({given.reads, given.reads, given.threads});
    formats.push_back(given);
    formats.insert(formats.end(), static_cast<std::size_t>(forms.unfused[n]) - (has_gate ? 1 : 0),
                   NodeFormats{given.writes, given.writes, given.threads});
  }
  unfuse(graph, forms.unfused);
  return formats;
}

Result<Forms> forms_by(std::string_view how, const Graph& graph, Chooser& chooser, std::vector<std::string>& remarks,
                       const MemoryGoal& goal) {
  if (goal.asked() && how != "global") {
    return Error{ErrorCode::invalid_argument, fmt::format("how='{}' goes by no limit on memory: \"global\" does", how)};
  }
  const std::vector<NodeTypes> types = node_types(graph, chooser, remarks);
  if (how == "local") return local_forms(graph, types, chooser);
  if (how == "global") {
    CONVOY_TRY(GlobalForms global, global_forms(graph, types, chooser, goal));
    remarks.push_back(std::move(global.proof));
    return std::move(global.forms);
  }
  std::vector<DataType> narrowest;
  for (const NodeTypes& each : types) narrowest.push_back(each.types.back());
  const auto with_fusions = [&](std::vector<NodeFormats> formats) {
    for (std::size_t n = 0; n < formats.size(); ++n) formats[n].strict = types[n].strict.back();
    std::vector<int> undone = unfused_at_home(graph, formats, chooser);
    return Forms{std::move(formats), std::move(undone), {}};
  };
  // There the units that the types are for want channels last, in every layer, if they have channels enough.
  if (how == "greedy" && chooser.home() != 0 && on_narrow_units(graph, narrowest, chooser.options().math)) {
    std::vector<NodeFormats> formats = uniform_formats(graph, narrowest, chooser, Layout::nhwc);
    read_inputs_as_they_are(graph, formats, chooser);
    if (take_less_on_planes(graph, formats, chooser)) {
      formats = uniform_formats(graph, narrowest, chooser, Layout::nchw);
    }
    return with_fusions(std::move(formats));
  }
  if (how == "greedy") return with_fusions(greedy_formats(graph, narrowest, chooser));
  constexpr std::string_view kUniform = "uniform:";
  if (how.starts_with(kUniform)) {
    const auto layout = parse_layout(how.substr(kUniform.size()));
    if (layout.ok() && *layout != Layout::strided)
      return with_fusions(uniform_formats(graph, narrowest, chooser, *layout));
  }
  return Error{
      ErrorCode::invalid_argument,
      fmt::format(
          "how='{}': it is greedy, global, local, uniform:nhwc, uniform:nchw, uniform:nchw8c or uniform:nchw16c", how)};
}

}  // namespace convoy::network
