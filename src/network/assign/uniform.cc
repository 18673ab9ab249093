#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "network/assign/sides.h"
#include "network/conv_node.h"

namespace convoy::network {
namespace {

Sides fastest(const Graph& graph, const Node& node, Selector& selector, Layout layout) {
  const ConvProblem problem = selector.allowed(node.conv->problem);
  const HostTensor* constant = graph.constant_of(conv_inputs(node).weights);
  const void* weights = constant != nullptr ? constant->data.get() : nullptr;
  const auto predict = [&](const Sides& sides) { return selector.predict(in_layouts(problem, sides), weights); };
  if (predict({layout, layout})) return {layout, layout};
  Sides best;
  double least = std::numeric_limits<double>::infinity();
  for (const Layout reads : {layout, Layout::nhwc, Layout::nchw}) {
    for (const Layout writes : {layout, Layout::nhwc, Layout::nchw}) {
      const auto seconds = predict({reads, writes});
      if (seconds && *seconds < least) best = {reads, writes}, least = *seconds;
    }
  }
  return best;
}

}  // namespace

std::vector<Sides> uniform_sides(const Graph& graph, Selector& selector, Layout layout) {
  std::vector<Sides> sides(graph.nodes.size());
  for (std::size_t n = 0; n < sides.size(); ++n) {
    const Node& node = graph.nodes[n];
    for (const Sides& tried : {Sides{layout, layout}, Sides{layout, Layout::nchw}, Sides{Layout::nchw, layout}}) {
      if (!can_work(graph, node, tried)) continue;
      sides[n] = node.conv ? fastest(graph, node, selector, layout) : tried;
      break;
    }
  }
  return sides;
}

Result<std::vector<Sides>> sides_by(std::string_view how, const Graph& graph, Selector& selector,
                                    std::vector<std::string>& remarks, const MemoryGoal& goal) {
  if (goal.asked() && how != "global") {
    return Error{ErrorCode::invalid_argument, fmt::format("how='{}' goes by no limit on memory: \"global\" does", how)};
  }
  if (how == "greedy") return greedy_sides(graph, selector);
  if (how == "local") return local_sides(graph, selector);
  if (how == "global") {
    CONVOY_TRY(GlobalSides global, global_sides(graph, selector, goal));
    remarks.push_back(std::move(global.proof));
    return std::move(global.sides);
  }
  constexpr std::string_view kUniform = "uniform:";
  if (how.starts_with(kUniform)) {
    const auto layout = parse_layout(how.substr(kUniform.size()));
    if (layout.ok() && *layout != Layout::strided) return uniform_sides(graph, selector, *layout);
  }
  return Error{
      ErrorCode::invalid_argument,
      fmt::format(
          "how='{}': it is greedy, global, local, uniform:nhwc, uniform:nchw, uniform:nchw8c or uniform:nchw16c", how)};
}

}  // namespace convoy::network
