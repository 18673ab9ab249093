// Which layout each node works in. This file is the whole decision; the steps that follow from it are made in lower.cc.
//
// The rule: nodes that can work in nhwc (convolutions, and operators that accept it) form regions, connected by the
// activations of rank 3 to 5 that they share. A region becomes nhwc where
//   sum of predicted seconds of its convolutions in nhwc + bytes converted at its border / bandwidth
// is less than the sum of predicted seconds in nchw; else, and without a convolution, it stays nchw. Everything outside
// the regions, the graph's inputs and its outputs are nchw.
#pragma once

#include <vector>

#include "network/graph.h"
#include "network/selector.h"

namespace convoy::network {

// One per node. Nodes whose dims are not all known get nchw.
Result<std::vector<Layout>> assign_layouts(const Graph& graph, Selector& selector);

// Whether a value is laid out by nchw or nhwc (constants and small ranks are always row-major).
bool has_layout(const Value& value);

// The problem with its activations in a layout.
ConvProblem in_layout(ConvProblem problem, Layout layout);

}  // namespace convoy::network
