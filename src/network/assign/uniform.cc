#include <algorithm>
#include <array>
#include <limits>

#include "network/assign/sides.h"
#include "network/graph/conv_node.h"

namespace convoy::network {
namespace {

Sides fastest(const Graph& graph, const Node& node, DataType type, Chooser& chooser, Layout layout) {
  const auto predict = [&](const Sides& sides) { return chooser.predict(conv_query(graph, node, sides, chooser)); };
  const Sides given{{layout, type}, {layout, type}};
  if (predict(given)) return given;
  Sides best{{Layout::nchw, type}, {Layout::nchw, type}};
  double least = std::numeric_limits<double>::infinity();
  for (const Layout reads : {layout, Layout::nhwc, Layout::nchw}) {
    for (const Layout writes : {layout, Layout::nhwc, Layout::nchw}) {
      const Sides sides{{reads, type}, {writes, type}};
      const auto seconds = predict(sides);
      if (seconds && *seconds < least) best = sides, least = *seconds;
    }
  }
  return best;
}

}  // namespace

std::vector<Sides> uniform_sides(const Graph& graph, std::span<const DataType> types, Chooser& chooser, Layout layout) {
  std::vector<Sides> sides(graph.nodes.size());
  for (std::size_t n = 0; n < sides.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Format row_major{Layout::nchw, types[n]}, given{layout, types[n]};
    sides[n] = {row_major, row_major};
    for (const Sides& tried : {Sides{given, given}, Sides{given, row_major}, Sides{row_major, given}}) {
      if (!can_work(graph, node, tried)) continue;
      sides[n] = node.conv ? fastest(graph, node, types[n], chooser, layout) : tried;
      break;
    }
  }
  return sides;
}

}  // namespace convoy::network
