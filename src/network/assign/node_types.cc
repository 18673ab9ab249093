#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

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
  return !node.conv || in_any_layout(graph, without_gate(node), type, chooser,
                                     [&](const ConvQuery& query) { return chooser.predict(query).has_value(); });
}

// Where costs don't decide, narrow tensors are for engines that compute in that type.
bool gains_by_rule(const Graph& graph, const Node& node, DataType type, Chooser& chooser) {
  return node.conv && in_any_layout(graph, without_gate(node), type, chooser,
                                    [&](const ConvQuery& query) { return chooser.computes_in(query); });
}

// By its line in a plan, whichever of its fusions that undoes.
std::optional<double> known_error(const Node& node, const NetworkOptions& options) {
  for (const Node* left = &node;; left = &left->fused->conv) {
    const auto found = options.precision_errors.find(joined(left->sources));
    if (found != options.precision_errors.end()) return found->second;
    if (!left->fused) return std::nullopt;
  }
}

// Convolutions of f32 are strict; those whose errors are known may give up what the math allows.
void choose_math(const Graph& graph, const NetworkOptions& options, std::vector<NodeTypes>& types) {
  if (options.math == MathMode::strict) return;
  for (std::size_t n = 0; n < types.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.conv || node.conv->problem.x.type != DataType::f32) continue;
    types[n].strict = {true};
    const auto error = known_error(node, options);
    if (!error) continue;
    types[n].strict.push_back(false);
    types[n].error = *error;
  }
}

}  // namespace

std::vector<NodeTypes> node_types(const Graph& graph, Chooser& chooser, std::vector<std::string>& remarks) {
  const NetworkOptions& options = chooser.options();
  std::vector<NodeTypes> result(graph.nodes.size(), NodeTypes{.types = {DataType::f32}});
  if (options.precision == DataType::f32) {
    if (!options.precision_errors.empty()) choose_math(graph, options, result);
    return result;
  }
  bool any = false;
  for (std::size_t n = 0; n < result.size(); ++n) {
    const Node& node = graph.nodes[n];
    const auto error = known_error(node, options);
    const bool is_free = !options.precision_errors.empty();
    if (is_free && !error) continue;
    if (!can_be_narrowed(graph, node, options.precision, chooser)) continue;
    const bool is_chosen = is_free || options.how == "global" || options.how == "local";
    result[n].types = is_chosen ? std::vector{DataType::f32, options.precision} : std::vector{options.precision};
    if (is_free) result[n].error = *error;
    any = any || (is_chosen ? node.conv.has_value() : gains_by_rule(graph, node, options.precision, chooser));
  }
  if (any || !options.precision_errors.empty()) return result;
  remarks.push_back(fmt::format("no engine here runs a convolution of this network in {}: it stays as it is",
                                name_of(options.precision)));
  return std::vector<NodeTypes>(graph.nodes.size(), NodeTypes{.types = {DataType::f32}});
}

}  // namespace convoy::network
