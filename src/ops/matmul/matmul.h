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
};

// numpy's matmul of packed operands: one-dimensional ones gain a dim that the output loses. Also gives the output dims.
Result<MatMulShape> matmul_shape(const NodeDesc& node, const Dims& a, const Dims& b, int a_index, int b_index,
                                 Dims* output);

// What Gemm adds: alpha * a . b + beta * c. C is read as an m x n matrix with these strides.
struct ProductBias {
  std::int64_t row = 0, column = 0;
  double alpha = 1, beta = 0;  // beta 0: there is none
};

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

// Plain loops over any types: c[i, j] = finish(sum over k of load_a(a) * load_b(b), i, j) with accumulators of type
// Acc. Rows of c are divided among the threads; within one, b is read along its rows.
template <class Acc, class A, class B, class C, class LoadA, class LoadB, class Finish>
void matmul_loops(const MatMulShape& shape, const A* a, const B* b, C* c, LoadA&& load_a, LoadB&& load_b,
                  Finish&& finish, const ExecContext& context) {
  constexpr std::int64_t kLanes = 64;
  const std::int64_t batches = shape.batches();
  parallel_for(context, batches * shape.m, shape.n * shape.k, [&](std::int64_t begin, std::int64_t end) {
    Acc acc[kLanes];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t i = unit % shape.m;
      std::int64_t rest = unit / shape.m;
      const std::int64_t image = rest;
      const A* from_a = a + i * shape.a_row;
      const B* from_b = b;
      C* to = c + i * shape.c_row;
      for (int d = static_cast<int>(shape.batch.size()) - 1; d >= 0; --d) {
        const std::int64_t at = rest % shape.batch[d];
        rest /= shape.batch[d];
        from_a += at * shape.a_batch[d];
        from_b += at * shape.b_batch[d];
        to += at * shape.c_batch[d];
      }
      for (std::int64_t j0 = 0; j0 < shape.n; j0 += kLanes) {
        const std::int64_t lanes = std::min(kLanes, shape.n - j0);
        std::fill_n(acc, lanes, Acc(0));
        for (std::int64_t k = 0; k < shape.k; ++k) {
          const Acc x = load_a(from_a[k * shape.a_column], image, i);
          const B* row = from_b + k * shape.b_row + j0 * shape.b_column;
          if (shape.b_column == 1) {
            for (std::int64_t j = 0; j < lanes; ++j) acc[j] += x * load_b(row[j], image, j0 + j);
          } else {
            for (std::int64_t j = 0; j < lanes; ++j) acc[j] += x * load_b(row[j * shape.b_column], image, j0 + j);
          }
        }
        for (std::int64_t j = 0; j < lanes; ++j) to[(j0 + j) * shape.c_column] = finish(acc[j], image, i, j0 + j);
      }
    }
  });
}

}  // namespace convoy::ops
