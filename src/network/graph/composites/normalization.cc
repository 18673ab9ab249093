// ONNX Runtime's normalizations with what precedes them: a sum, the look-up of embeddings, an activation behind.
#include <array>
#include <numeric>

#include "network/graph/composites/activation.h"

namespace convoy::network {
namespace {

// LayerNormalization, or RMSNormalization, over the last dim.
struct Normalized {
  std::vector<int> outputs;  // y, mean, 1 / deviation
};
Result<Normalized> layer_norm(Expansion& e, std::vector<int> inputs, bool about_zero, double epsilon) {
  const Expansion::Attributes attributes{{"axis", std::int64_t{-1}}, {"epsilon", epsilon}};
  if (about_zero) {
    CONVOY_TRY(const int y,
               e.add({.op = "RMSNormalization", .domain = "", .name = "", .opset = 23, .attributes = attributes},
                     std::move(inputs)));
    return Normalized{{y}};
  }
  CONVOY_TRY(const std::vector<int> made, e.add_many("LayerNormalization", std::move(inputs), attributes, 3));
  return Normalized{made};
}

// Norm(input + skip + bias); the sum is output 3.
template <bool about_zero>
Result<void> skip_layer_norm(Expansion& e) {
  constexpr int kBeta = about_zero ? kAbsent : 3, kBias = about_zero ? 3 : 4;
  CONVOY_CHECK(e.check_inputs(3, kBias + 1));
  CONVOY_TRY(const double epsilon, e.node().real("epsilon", 1e-12));
  CONVOY_TRY(int sum, e.add("Add", {e.input(0), e.input(1)}));
  if (e.has(kBias)) {
    CONVOY_TRY(sum, e.add("Add", {sum, e.input(kBias)}));
  }
  std::vector<int> inputs{sum, e.input(2)};
  if (kBeta != kAbsent && e.has(kBeta)) inputs.push_back(e.input(kBeta));
  CONVOY_TRY(const Normalized y, layer_norm(e, inputs, about_zero, epsilon));
  for (std::size_t i = 0; i < y.outputs.size(); ++i) e.give(static_cast<int>(i), y.outputs[i]);
  e.give(3, sum);
  return {};
}

// Of ONNX's domain, as ONNX Runtime writes it before opset 23 has RMSNormalization.
Result<void> simplified_layer_norm(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 2));
  CONVOY_TRY(const int y,
             e.add({.op = "RMSNormalization", .domain = "", .name = "", .opset = 23, .attributes = e.node().attributes},
                   {e.input(0), e.input(1)}));
  e.give(0, y);
  return {};
}

// The sum of word, position and segment embeddings, normalized; the count of each sequence's words that the mask has.
Result<void> embed_layer_norm(Expansion& e) {
  constexpr int kSegments = 1, kWordTable = 2, kPlaceTable = 3, kSegmentTable = 4, kGamma = 5, kMask = 7, kPlaces = 8;
  CONVOY_CHECK(e.check_inputs(1, 9));
  for (const int i : {kWordTable, kPlaceTable, kGamma, kGamma + 1}) {
    if (!e.has(i)) return e.bad("input " + std::to_string(i) + " is absent");
  }
  CONVOY_CHECK(e.check_dims(0, "input_ids", {-1, -1}));
  CONVOY_TRY(const double epsilon, e.node().real("epsilon", 1e-12));
  const Dims ids = e.dims(e.input(0));
  CONVOY_TRY(int sum, e.add("Gather", {e.input(kWordTable), e.input(0)}));
  int places = e.input(kPlaces);
  if (places == kAbsent) {
    std::vector<std::int64_t> count(static_cast<std::size_t>(ids[1]));
    std::iota(count.begin(), count.end(), 0);
    CONVOY_TRY(places, e.integers(count));
  }
  CONVOY_TRY(const int place, e.add("Gather", {e.input(kPlaceTable), places}));
  CONVOY_TRY(sum, e.add("Add", {sum, place}));
  if (e.has(kSegments) && e.has(kSegmentTable)) {
    CONVOY_TRY(const int segment, e.add("Gather", {e.input(kSegmentTable), e.input(kSegments)}));
    CONVOY_TRY(sum, e.add("Add", {sum, segment}));
  }
  CONVOY_TRY(const Normalized y, layer_norm(e, {sum, e.input(kGamma), e.input(kGamma + 1)}, false, epsilon));
  e.give(0, y.outputs[0]);
  e.give(2, sum);
  if (!e.wants(1)) return {};
  if (e.has(kMask)) {
    CONVOY_TRY(const int axes, e.integers({1}));
    CONVOY_TRY(const int wide, e.cast(e.input(kMask), DataType::s32));
    CONVOY_TRY(const int count, e.add("ReduceSum", {wide, axes}, {{"keepdims", std::int64_t{0}}}));
    e.give(1, count);
  } else {
    CONVOY_TRY(HostTensor zeros, HostTensor::zeros(TensorDesc::packed(DataType::s32, {ids[0]})));
    e.give(1, e.constant_value(std::move(zeros)));
  }
  return {};
}

// Over groups of channels, which are last unless channels_last=0, with a Swish behind where `activation` is 1. With a
// skip and a bias they are added before, and the sum is output 1.
template <bool skips>
Result<void> group_norm(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(skips ? 4 : 3, skips ? 5 : 3));
  CONVOY_TRY(const double epsilon, e.node().real("epsilon", 1e-5));
  CONVOY_TRY(const std::int64_t groups, e.node().integer("groups", 0));
  CONVOY_TRY(const std::int64_t last, e.node().integer("channels_last", 1));
  CONVOY_TRY(const std::int64_t activation, e.node().integer("activation", 0));
  CONVOY_CHECK(e.check_dims(0, "X", {-1, -1, -1, -1}));
  int x = e.input(0);
  if (skips) {
    int skip = e.input(3);
    const Dims dims = e.dims(skip);
    if (dims.size() == 2) {  // [N, C]
      CONVOY_TRY(skip, e.reshape(skip, last != 0 ? Dims{dims[0], 1, 1, dims[1]} : Dims{dims[0], dims[1], 1, 1}));
    }
    CONVOY_TRY(x, e.add("Add", {x, skip}));
    if (e.has(4)) {
      CONVOY_CHECK(e.check_dims(4, "bias", {-1}));
      const std::int64_t channels = e.dims(e.input(4)).back();
      CONVOY_TRY(const int bias, e.reshape(e.input(4), last != 0 ? Dims{channels} : Dims{channels, 1, 1}));
      CONVOY_TRY(x, e.add("Add", {x, bias}));
    }
    e.give(1, x);
  }
  const DataType type = e.type(x);
  if (last != 0) {
    CONVOY_TRY(x, e.transpose(x, {0, 3, 1, 2}));
  }
  CONVOY_TRY(const int gamma, e.cast(e.input(1), type));
  CONVOY_TRY(const int beta, e.cast(e.input(2), type));
  CONVOY_TRY(int y, e.add("GroupNormalization", {x, gamma, beta}, {{"num_groups", groups}, {"epsilon", epsilon}}));
  if (activation == 1) {
    CONVOY_TRY(y, add_swish(e, y, 1));
  } else if (activation != 0) {
    return e.bad("activation=" + std::to_string(activation) + " is not 0 or 1");
  }
  if (last != 0) {
    CONVOY_TRY(y, e.transpose(y, {0, 2, 3, 1}));
  }
  e.give(0, y);
  return {};
}

constexpr std::array kNormalizationComposites{
    Composite{"EmbedLayerNormalization", embed_layer_norm},
    Composite{"GroupNorm", group_norm<false>},
    Composite{"SimplifiedLayerNormalization", simplified_layer_norm, ""},
    Composite{"SkipGroupNorm", group_norm<true>},
    Composite{"SkipLayerNormalization", skip_layer_norm<false>},
    Composite{"SkipSimplifiedLayerNormalization", skip_layer_norm<true>},
};

}  // namespace

std::span<const Composite> normalization_composites() { return kNormalizationComposites; }

}  // namespace convoy::network
