// Where the elements of an output come from, as data: what an operator does that only moves values. The processor's
// copies (movement/map_copy.h) and the indices of generated kernels follow from it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ops/operator.h"

namespace convoy::ops {

// factor * (o[dim] / divisor % modulus), of the output's index o, rounded down; a modulus of 0: without. Where both
// are there, divisor * modulus divides the dim.
struct IndexTerm {
  int dim = 0;
  std::int64_t factor = 1, divisor = 1, modulus = 0;
  bool is_plain() const { return divisor == 1 && modulus == 0; }
};

// offset + the sum of the terms, of which no two overlap in what they read of a dim.
struct Index {
  std::int64_t offset = 0;
  std::vector<IndexTerm> terms;

  std::int64_t at(const Dims& o) const;
  // The least and the greatest for outputs of `dims`, none of which is 0.
  std::pair<std::int64_t, std::int64_t> range(const Dims& dims) const;
};

// An input that elements come from: those outputs whose indices all are in [0, dim).
struct MapSource {
  int input = 0;
  Dims dims;                   // of the input
  std::vector<Index> indices;  // one for each of them

  // The element, row-major; -1: outside.
  std::int64_t offset(const Dims& o) const;
  // Whether no output is outside, so that nobody has to look.
  bool has_all(const Dims& outputs) const;
};

// Of one output. No element is in two sources; those that are in none are the one element of input `fill_input`, or
// where that is -1 `fill` in the output's type.
struct IndexMap {
  Dims dims;  // of the output
  std::vector<MapSource> sources;
  double fill = 0;
  int fill_input = -1;
};

// The maps of a node's outputs, which have been inferred; none: it does more than move values, or what it does is no
// such map. Inputs and outputs may lie in any layout: a map speaks of indices.
using MapRule = std::vector<IndexMap> (*)(const NodeDesc& node, std::span<const Input> inputs,
                                          std::span<const TensorDesc> outputs);
namespace maps {
std::vector<IndexMap> none(const NodeDesc&, std::span<const Input>, std::span<const TensorDesc>);
// Input 0 broadcast to the output.
std::vector<IndexMap> broadcast(const NodeDesc&, std::span<const Input>, std::span<const TensorDesc>);
// The elements of input 0 in their order, in other dims: where each dim is a product of the other side's, or part of
// one.
std::vector<IndexMap> reshaped(const NodeDesc&, std::span<const Input>, std::span<const TensorDesc>);
}  // namespace maps

// Input 0 of a node whose one output has as many dims, index d of it as given.
IndexMap map_of(const TensorDesc& x, const TensorDesc& y, std::vector<Index> indices);

// How parts lie side by side in a whole, along a dim: an output that joins its inputs, or outputs that are all there
// is of input 0, in their order. -1: they don't.
int joined_dim(std::span<const IndexMap> maps);
int split_dim(std::span<const IndexMap> maps);

}  // namespace convoy::ops
