// Matrix products of the operators MatMul, Gemm and their integer forms.
#pragma once

#include "ops/support.h"

namespace convoy::ops {

// c = a . b for every batch index: dims of all three are [batch.., m|k, k|n] with strides in elements, batch strides of
// 0 where an operand broadcasts.
struct MatMulShape {
  Dims batch;  // may be empty
  std::int64_t m = 1, n = 1, k = 1;
  Dims a_batch, b_batch, c_batch;  // strides, as many as batch
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::int64_t c_row = 0, c_column = 1;

  std::int64_t batches() const {
    std::int64_t count = 1;
    for (const std::int64_t dim : batch) count *= dim;
    return count;
  }

  // Where matrices `index` of the batch begin, in elements.
  struct Offsets {
    std::int64_t a = 0, b = 0, c = 0;
  };
  Offsets offsets(std::int64_t index) const {
    Offsets at;
    for (std::size_t d = batch.size(); d-- > 0; index /= batch[d]) {
      const std::int64_t i = index % batch[d];
      at.a += i * a_batch[d];
      at.b += i * b_batch[d];
      at.c += i * c_batch[d];
    }
    return at;
  }
  std::int64_t at_c(std::int64_t index, std::int64_t i, std::int64_t j) const {
    return offsets(index).c + i * c_row + j * c_column;
  }
};

// numpy's matmul of packed operands: one-dimensional ones gain a dim that the output loses. Also gives the output dims.
Result<MatMulShape> matmul_shape(const NodeDesc& node, const Dims& a, const Dims& b, int a_index, int b_index,
                                 Dims* output);

// What Gemm adds: alpha * a . b + beta * c. C is read as an m x n matrix with these strides.
struct ProductBias {
  std::int64_t row = 0, column = 0;
  double alpha = 1, beta = 0;  // beta 0: there is none
};

// The same product the other way around: columns of c are rows of the transposed b times the transposed a.
void turn(MatMulShape& shape, ProductBias& bias);

// A MatMul's or Gemm's product, batches merged where they can be; inputs checked by infer(). Error: another operator.
struct Product {
  MatMulShape shape;
  ProductBias bias;
};
Result<Product> product_of(const NodeDesc& node, std::span<const Input> inputs);

// c = a . b of inputs 0 and 1 (and bias, which is input 2), all of `type` (numeric, no halves): f32 by oneDNN where it
// has strides like these and isn't slower, other f32 and f64 by panels, integers by plain loops.
std::unique_ptr<OpPlan> product_plan(const NodeDesc& node, const MatMulShape& shape, DataType type,
                                     const PlanRequest& request, const ProductBias& bias = {});

}  // namespace convoy::ops
