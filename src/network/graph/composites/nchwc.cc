// What ONNX Runtime writes at ORT_ENABLE_ALL for float networks: tensors whose channels lie in blocks of 8 or 16,
// padded to whole ones, and weights in the order of its kernels. Here they are ordinary tensors with the padded
// channels, and weights are put in ONNX's order.
//
// The file doesn't say how long blocks are: it is for processors like the one that wrote it, as ONNX Runtime warns when
// it does. Like ONNX Runtime, this takes those of the processor it runs on, unless sizes say otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "network/graph/composites/activation.h"

namespace convoy::network {
namespace {

constexpr std::string_view kDomain = "com.microsoft.nchwc";

// Of the processor, whatever CONVOY_ISA says.
std::int64_t widest_block() { return __builtin_cpu_supports("avx512f") != 0 ? 16 : 8; }
std::int64_t block_of(std::int64_t channels) { return channels % widest_block() == 0 ? widest_block() : 8; }

// Weights [O, I, spatial] from ONNX Runtime's order, which is [O / b][I / b][spatial][b of I][b of O]; [O /
// b][I][spatial] [b of O] where I are fewer than a block.
Result<HostTensor> in_onnx_order(Expansion& e, const HostTensor& weights, std::int64_t groups) {
  const Dims& dims = weights.desc.dims;
  if (weights.desc.type != DataType::f32 || dims.size() < 3)
    return e.bad("input 1 (W) must be of f32 and have 3 dims or more");
  const std::int64_t block = block_of(dims[0]), out = dims[0], in = dims[1];
  const std::int64_t in_block = in < block && (groups == 1 || in == 1) ? 1 : block;
  if (out % block != 0 || in % in_block != 0) {
    return e.bad(fmt::format("input 1 (W) has dims [{}], which are no blocks of {}", to_string(dims), block));
  }
  const std::int64_t taps = std::accumulate(dims.begin() + 2, dims.end(), std::int64_t{1}, std::multiplies<>());
  CONVOY_TRY(HostTensor ordered, HostTensor::allocate(weights.desc));
  const float* from = weights.as<float>();
  for (std::int64_t o = 0; o < out; o += block) {
    for (std::int64_t i = 0; i < in; i += in_block) {
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (std::int64_t ib = 0; ib < in_block; ++ib) {
          for (std::int64_t ob = 0; ob < block; ++ob) {
            ordered.as<float>()[((o + ob) * in + i + ib) * taps + tap] = *from++;
          }
        }
      }
    }
  }
  return ordered;
}

Result<void> conv(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 4));
  CONVOY_TRY(const std::int64_t groups, e.node().integer("group", 1));
  CONVOY_TRY(HostTensor weights, in_onnx_order(e, *e.constant(e.input(1)), groups));
  CONVOY_TRY(const std::string activation, e.node().text("activation", ""));
  CONVOY_TRY(const std::vector<double> parameters, e.node().reals("activation_params", {}));
  Expansion::Attributes attributes = e.node().attributes;
  for (const char* name : {"activation", "activation_params"}) attributes.erase(name);
  std::vector<int> inputs{e.input(0), e.constant_value(std::move(weights))};
  if (e.has(2)) inputs.push_back(e.input(2));
  CONVOY_TRY(int y, e.add("Conv", inputs, attributes));
  if (e.has(3)) {
    CONVOY_TRY(y, e.add("Add", {y, e.input(3)}));
  }
  CONVOY_TRY(y, add_activation(e, y, activation, parameters));
  e.give(0, y);
  return {};
}

// The operator of ONNX of the same name.
Result<void> plain(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(1, 1));
  CONVOY_TRY(const int y, e.add(e.node().op, {e.input(0)}, e.node().attributes));
  e.give(0, y);
  return {};
}

Result<void> upsample(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(1, 1));
  CONVOY_TRY(const std::vector<std::int64_t> scales, e.node().integers("scales", {}));
  CONVOY_TRY(const std::string mode, e.node().text("mode", "nearest"));
  CONVOY_TRY(const std::string places, e.node().text("coordinate_transformation_mode", "asymmetric"));
  Dims sizes = e.dims(e.input(0));
  if (scales.size() != sizes.size()) return e.bad(fmt::format("scales has {} values", scales.size()));
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    constexpr std::int64_t kMost = 1 << 16;
    if (scales[d] < 1 || scales[d] > kMost) return e.bad(fmt::format("scales[{}]={} is out of range", d, scales[d]));
    sizes[d] *= scales[d];
  }
  CONVOY_TRY(const int size, e.integers(sizes));
  CONVOY_TRY(
      const int y,
      e.add("Resize", {e.input(0), kAbsent, kAbsent, size},
            {{"mode", mode}, {"coordinate_transformation_mode", places}, {"nearest_mode", std::string("floor")}}));
  e.give(0, y);
  return {};
}

// [0, 2, 3, 1], or back.
std::vector<std::int64_t> order_of(int rank, bool to_last) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (rank > 2) std::rotate(order.begin() + 1, to_last ? order.begin() + 2 : order.end() - 1, order.end());
  return order;
}

// Channels in blocks, the last one filled up with zeros.
Result<void> reorder_input(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(1, 1));
  CONVOY_TRY(const std::int64_t last, e.node().integer("channels_last", 0));
  int x = e.input(0);
  if (e.rank(x) < 3) return e.bad("input 0 must have 3 dims or more");
  if (last != 0) {
    CONVOY_TRY(x, e.transpose(x, order_of(e.rank(x), false)));
  }
  const std::int64_t channels = e.dims(x)[1], block = widest_block();
  if (const std::int64_t missing = (block - channels % block) % block; missing > 0) {
    std::vector<std::int64_t> pads(static_cast<std::size_t>(2 * e.rank(x)), 0);
    pads[static_cast<std::size_t>(e.rank(x)) + 1] = missing;
    CONVOY_TRY(const int amounts, e.integers(pads));
    CONVOY_TRY(x, e.add("Pad", {x, amounts}));
  }
  e.give(0, x);
  return {};
}

// The first `channels` of them, as ONNX has them.
Result<void> reorder_output(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(1, 1));
  CONVOY_TRY(const std::int64_t channels, e.node().integer("channels", 0));
  CONVOY_TRY(const std::int64_t last, e.node().integer("channels_last", 0));
  int x = e.input(0);
  const Dims dims = e.dims(x);
  if (dims.size() < 3 || channels < 1 || channels > dims[1]) {
    return e.bad(fmt::format("channels={} of a tensor with dims [{}]", channels, to_string(dims)));
  }
  if (channels < dims[1]) {
    CONVOY_TRY(x, e.slice(x, 1, 0, channels));
  }
  if (last != 0) {
    CONVOY_TRY(x, e.transpose(x, order_of(e.rank(x), true)));
  }
  e.give(0, x);
  return {};
}

constexpr int kWeights[] = {1};

constexpr std::array kNchwcComposites{
    Composite{"AveragePool", plain, kDomain},
    Composite{"Conv", conv, kDomain, kWeights},
    Composite{"GlobalAveragePool", plain, kDomain},
    Composite{"GlobalMaxPool", plain, kDomain},
    Composite{"MaxPool", plain, kDomain},
    Composite{"ReorderInput", reorder_input, kDomain},
    Composite{"ReorderOutput", reorder_output, kDomain},
    Composite{"Upsample", upsample, kDomain},
};

}  // namespace

std::span<const Composite> nchwc_composites() { return kNchwcComposites; }

}  // namespace convoy::network
