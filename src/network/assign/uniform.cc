#include <algorithm>
#include <array>
#include <limits>

#include "network/assign/layout_rules.h"
#include "network/graph/conv_node.h"

namespace convoy::network {
namespace {

NodeFormats fastest(const Graph& graph, const Node& node, DataType type, Chooser& chooser, Layout layout) {
  const auto predict = [&](const NodeFormats& formats) {
    return chooser.predict(conv_query(graph, node, formats, chooser));
  };
  const NodeFormats given{{layout, type}, {layout, type}};
  if (predict(given)) return given;
  NodeFormats best{{Layout::nchw, type}, {Layout::nchw, type}};
  double least = std::numeric_limits<double>::infinity();
  for (const Layout reads : {layout, Layout::nhwc, Layout::nchw}) {
    for (const Layout writes : {layout, Layout::nhwc, Layout::nchw}) {
      const NodeFormats formats{{reads, type}, {writes, type}};
      const auto seconds = predict(formats);
      if (seconds && *seconds < least) best = formats, least = *seconds;
    }
  }
  return best;
}

}  // namespace

std::vector<NodeFormats> uniform_formats(const Graph& graph, std::span<const DataType> types, Chooser& chooser,
                                         Layout layout) {
  std::vector<NodeFormats> formats(graph.nodes.size());
  for (std::size_t n = 0; n < formats.size(); ++n) {
    const Node& node = graph.nodes[n];
    const Format row_major{Layout::nchw, types[n]}, given{layout, types[n]};
    formats[n] = {row_major, row_major};
    for (const NodeFormats& tried :
         {NodeFormats{given, given}, NodeFormats{given, row_major}, NodeFormats{row_major, given}}) {
      if (!can_work(graph, node, tried)) continue;
      formats[n] =
          node.conv ? fastest(graph, what_runs(graph, node, types[n], chooser), types[n], chooser, layout) : tried;
      break;
    }
  }
  return formats;
}

}  // namespace convoy::network
