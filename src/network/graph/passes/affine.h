// Affine maps of channels: y = scale[c] * x + shift[c].
#pragma once

#include "network/graph/graph.h"

namespace convoy::network {

struct Affine {
  std::vector<double> scale, shift;  // per channel
};

// What `node` computes of the value `from` of so many channels; nothing where it is no such map with constant
// parameters (BatchNormalization in inference; Mul, Div, Add and Sub).
std::optional<Affine> affine_of(const Graph& graph, const Node& node, int from, int rank, std::int64_t channels);

// A convolution in floats whose weights, and bias if it has one, are constant, and that computes nothing else.
bool has_constant_weights(const Graph& graph, const Node& node);

}  // namespace convoy::network
