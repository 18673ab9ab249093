#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "network/assign/layout_rules.h"
#include "network/graph/infer.h"

namespace convoy::network {
namespace {

constexpr std::array kLayouts{Layout::nhwc, Layout::nchw, Layout::nchw8c, Layout::nchw16c};

// Whether `takes` holds for the convolution in one of the layouts, with narrow activations.
template <class Takes>
bool in_any_layout(const Graph& graph, const Node& node, DataType type, Chooser& chooser, Takes takes) {
  return std::ranges::any_of(kLayouts, [&](Layout layout) {
    const NodeFormats formats{{layout, type}, {layout, type}};
    return takes(conv_query(graph, node, formats, chooser));
  });
}

bool can_be_narrowed(const Graph& graph, const Node& node, DataType type, Chooser& chooser) {
  if (!can_work(graph, node, {{Layout::nchw, type}, {Layout::nchw, type}})) return false;
  return !node.conv || in_any_layout(graph, node, type, chooser,
                                     [&](const ConvQuery& query) { return chooser.predict(query).has_value(); });
}

// Where costs don't decide, narrow tensors are for engines that compute in that type.
bool gains_by_rule(const Graph& graph, const Node& node, DataType type, Chooser& chooser) {
  return node.conv &&
         in_any_layout(graph, node, type, chooser, [&](const ConvQuery& query) { return chooser.computes_in(query); });
}

}  // namespace

std::vector<NodeTypes> node_types(const Graph& graph, Chooser& chooser, std::vector<std::string>& remarks) {
  const NetworkOptions& options = chooser.options();
  std::vector<NodeTypes> result(graph.nodes.size(), NodeTypes{{DataType::f32}});
  if (options.precision == DataType::f32) return result;
  bool any = false;
  for (std::size_t n = 0; n < result.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto listed = options.precision_errors.find(joined(node.sources));
    const bool is_free = !options.precision_errors.empty();
    if (is_free && listed == options.precision_errors.end()) continue;
    if (!can_be_narrowed(graph, node, options.precision, chooser)) continue;
    const bool is_chosen = is_free || options.how == "global" || options.how == "local";
    result[n].types = is_chosen ? std::vector{DataType::f32, options.precision} : std::vector{options.precision};
    if (is_free) result[n].error = listed->second;
    any = any || (is_chosen ? node.conv.has_value() : gains_by_rule(graph, node, options.precision, chooser));
  }
  if (any || !options.precision_errors.empty()) return result;
  remarks.push_back(fmt::format("no engine here runs a convolution of this network in {}: it stays as it is",
                                name_of(options.precision)));
  return std::vector<NodeTypes>(graph.nodes.size(), NodeTypes{{DataType::f32}});
}

}  // namespace convoy::network
