// For tests of passes on quantized models.
#pragma once

#include "network/testing/passes.h"

namespace convoy::network {

constexpr DataType kU8 = DataType::u8, kS8 = DataType::s8;

class QuantizedBuilder : public GraphBuilder {
 public:
  int scalar(DataType type, double value) { return constant(tensor_of(type, {}, {value})); }
  int q(int x, double scale, double zero, DataType type = kU8) {
    return node("QuantizeLinear", {x, scalar(DataType::f32, scale), scalar(type, zero)});
  }
  int dq(int x, double scale, double zero, DataType type = kU8) {
    return node("DequantizeLinear", {x, scalar(DataType::f32, scale), scalar(type, zero)});
  }
  int qdq(int x, double scale, double zero, DataType type = kU8) {
    return dq(q(x, scale, zero, type), scale, zero, type);
  }
  // Bytes, dequantized by one scale.
  int weights(Dims dims, double scale, DataType type = kS8, double zero = 0) {
    const double shift = type == kU8 ? 128 : 0;
    return dq(constant(spread(std::move(dims), shift - 100, shift + 100, type)), scale, zero, type);
  }
  // One scale for each element of dim `axis`.
  int channel_weights(Dims dims, std::int64_t axis, DataType type = kS8) {
    const std::int64_t count = dims[axis];
    const int bytes = constant(spread(std::move(dims), type == kU8 ? 0 : -100, 100, type));
    return node("DequantizeLinear",
                {bytes, constant(spread({count}, 0.01, 0.02)), constant(spread({count}, 0, 0, type))},
                {{"axis", axis}});
  }
  int bias(std::int64_t count, double scale) {
    return node("DequantizeLinear",
                {constant(spread({count}, -3000, 3000, DataType::s32)), scalar(DataType::f32, scale)});
  }
};

// With all passes and without one of them, or with none but the order. Bytes may be one step off, where f32 rounds a
// tie, and floats so much.
inline void expect_same(const Graph& graph, double absolute = 1e-5, const std::string& pass = {}) {
  const auto inputs = inputs_for(graph, -2, 2);
  const auto with = run_graph(graph, inputs);
  const auto without = run_graph(graph, inputs, pass.empty() ? all_but_order() : std::vector<std::string>{pass});
  ASSERT_EQ(with.size(), graph.outputs.size());
  ASSERT_EQ(without.size(), with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    expect_close(with[i], without[i], 1e-5, is_integer(with[i].desc.type) ? 1 : absolute);
  }
  if (pass != "conv_fusion") return;
  const auto unfused = run_unfused(graph, inputs, 1);
  ASSERT_EQ(unfused.size(), with.size());
  for (std::size_t i = 0; i < with.size(); ++i) {
    expect_close(unfused[i], with[i], 1e-5, is_integer(with[i].desc.type) ? 1 : absolute);
  }
}

inline Attribute pads(std::int64_t pad) { return Ints(4, pad); }

}  // namespace convoy::network
