// ONNX Runtime's products of bytes that give f32, and operators on quantized tensors that have no integer form here.
#include <array>
#include <string>

#include "network/graph/composite.h"

namespace convoy::network {
namespace {

// The sums of an integer product as f32, times its scale, plus a bias where there is one.
Result<int> real_product(Expansion& e, int a, int b, int a_zero, int b_zero, int scale, int bias) {
  CONVOY_TRY(const int sums, e.add("MatMulInteger", {a, b, a_zero, b_zero}));
  CONVOY_TRY(int y, e.cast(sums, DataType::f32));
  CONVOY_TRY(y, e.add("Mul", {y, scale}));
  if (bias != kAbsent) {
    CONVOY_TRY(y, e.add("Add", {y, bias}));
  }
  return y;
}

// a is quantized by its range in each run.
Result<void> dynamic_quantize_matmul(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, 5));
  CONVOY_TRY(const std::vector<int> a, e.add_many("DynamicQuantizeLinear", {e.input(0)}, {}, 3));
  CONVOY_TRY(const int scale, e.add("Mul", {a[1], e.input(2)}));
  CONVOY_TRY(const int y, real_product(e, a[0], e.input(1), a[2], e.input(3), scale, e.input(4)));
  e.give(0, y);
  return {};
}

Result<void> matmul_integer_to_float(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(4, 7));
  CONVOY_TRY(const int scale, e.add("Mul", {e.input(2), e.input(3)}));
  CONVOY_TRY(const int y, real_product(e, e.input(0), e.input(1), e.input(4), e.input(5), scale, e.input(6)));
  e.give(0, y);
  return {};
}

// A tensor at `input`, with its scale and zero point behind it.
Result<int> dequantized(Expansion& e, int input) {
  return e.add("DequantizeLinear", {e.input(input), e.input(input + 1), e.input(input + 2)});
}
// Quantized by the scale at `scale` and the zero point behind it, to the type of `like`.
Result<void> give_quantized(Expansion& e, int value, int scale, int like) {
  int zero = e.input(scale + 1);
  if (zero == kAbsent) {
    CONVOY_TRY(zero, e.scalar(e.type(like), 0));
  }
  CONVOY_TRY(const int y, e.add("QuantizeLinear", {value, e.input(scale), zero}));
  e.give(0, y);
  return {};
}

Result<void> qlinear_where(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(9, 9));
  CONVOY_TRY(const int a, dequantized(e, 1));
  CONVOY_TRY(const int b, dequantized(e, 4));
  CONVOY_TRY(const int y, e.add("Where", {e.input(0), a, b}));
  return give_quantized(e, y, 7, e.input(1));
}

Result<void> qlinear_reduce_mean(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(4, 5));
  CONVOY_TRY(const std::vector<std::int64_t> axes, e.node().integers("axes", {}));
  CONVOY_TRY(const std::int64_t keep, e.node().integer("keepdims", 1));
  CONVOY_TRY(const int x, dequantized(e, 0));
  std::vector<int> inputs{x};
  if (!axes.empty()) {
    CONVOY_TRY(const int value, e.integers(axes));
    inputs.push_back(value);
  }
  CONVOY_TRY(const int y, e.add("ReduceMean", inputs, {{"keepdims", keep}}));
  return give_quantized(e, y, 3, e.input(0));
}

// Weights of 8 bits, [directions][inputs][4 * hidden], with a scale and a zero point a direction or a gate's unit.
Result<int> real_weights(Expansion& e, int weights, int scale, int zero) {
  const Dims dims = e.dims(e.input(weights));
  if (dims.size() != 3) return e.bad("input " + std::to_string(weights) + " must have 3 dims");
  const auto spread = [&](int index) -> Result<int> {
    CONVOY_CHECK(e.check_dims(index, index == scale ? "a scale" : "a zero point",
                              e.rank(e.input(index)) == 1 ? Dims{dims[0]} : Dims{dims[0], dims[2]}));
    return e.reshape(e.input(index), {dims[0], 1, e.rank(e.input(index)) == 1 ? 1 : dims[2]});
  };
  CONVOY_TRY(int w, e.cast(e.input(weights), DataType::f32));
  if (e.has(zero)) {
    CONVOY_TRY(int zeros, spread(zero));
    CONVOY_TRY(zeros, e.cast(zeros, DataType::f32));
    CONVOY_TRY(w, e.add("Sub", {w, zeros}));
  }
  CONVOY_TRY(const int scales, spread(scale));
  CONVOY_TRY(w, e.add("Mul", {w, scales}));
  return e.transpose(w, {0, 2, 1});
}

// An LSTM whose weights are kept in 8 bits. ONNX Runtime also rounds its inputs and states to 8 bits, by their ranges
// in each step; here they keep theirs.
Result<void> dynamic_quantize_lstm(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, 12));
  for (const int index : {8, 10}) {
    if (!e.has(index)) return e.bad("input " + std::to_string(index) + " (a scale) is absent");
  }
  CONVOY_TRY(const int w, real_weights(e, 1, 8, 9));
  CONVOY_TRY(const int r, real_weights(e, 2, 10, 11));
  CONVOY_TRY(const std::vector<int> y,
             e.add_many("LSTM", {e.input(0), w, r, e.input(3), e.input(4), e.input(5), e.input(6), e.input(7)},
                        e.node().attributes, 3));
  for (int k = 0; k < 3; ++k) {
    if (e.wants(k)) e.give(k, y[k]);
  }
  return {};
}

constexpr std::array kQuantizedComposites{
    Composite{"DynamicQuantizeLSTM", dynamic_quantize_lstm},
    Composite{"DynamicQuantizeMatMul", dynamic_quantize_matmul},
    Composite{"MatMulIntegerToFloat", matmul_integer_to_float},
    Composite{"QLinearReduceMean", qlinear_reduce_mean},
    Composite{"QLinearWhere", qlinear_where},
};

}  // namespace

std::span<const Composite> quantized_composites() { return kQuantizedComposites; }

}  // namespace convoy::network
