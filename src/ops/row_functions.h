// Functions of rows of floats with the widest vectors that there are.
#pragma once

#include <cstdint>

#include "convoy/cpu.h"
#include "convoy/data_type.h"

namespace convoy::ops {

// What an operator computes of each element; `a` is its parameter.
struct RowFunction {
  enum Kind : std::uint8_t {
    exp,
    sigmoid,
    tanh,
    erf,
    mish,          // x * tanh(log(1 + exp(x)))
    swish,         // x * sigmoid(a * x)
    elu,           // a * (exp(x) - 1) below 0, x from there on
    gelu,          // x / 2 * (1 + erf(x / sqrt(2)))
    gelu_tanh,     // its approximation by tanh
    hard_swish,    // x * max(0, min(1, x / 6 + 1 / 2))
    hard_sigmoid,  // max(0, min(1, a * x + b))
    leaky_relu,    // a * x below 0, x from there on
    relu,          // 0 below 0, x from there on
    clip,          // min(b, max(a, x))
    softsign,      // x / (1 + |x|)
  };
  Kind kind;
  float a = 1, b = 0;
};

enum class RowCombination : std::uint8_t { add, sub, mul, div };

struct RowMoments {
  double mean, variance;
};

// `type`: of x and y, f32, f16 or bf16. Halves are computed in f32 and rounded once, without a pass of their own.
struct RowFunctions {
  // y[i] = f(x[i]); exp, sigmoid, tanh and erf within 3 ulp of f32 (simd/math.h), of halves sigmoid and swish within
  // 2^-18 before they are rounded.
  void (*map)(RowFunction f, DataType type, const void* x, void* y, std::int64_t count);
  // y[i] = f(a[i * a_step], b[i * b_step]); steps are 0 or 1.
  void (*combine)(RowCombination f, DataType type, const void* a, std::int64_t a_step, const void* b,
                  std::int64_t b_step, void* y, std::int64_t count);
  // sums[r] = the sum over i of x[i] * rows[r * row_step + i], for `row_count` rows of `type`; each in an order of its
  // own that `count` alone decides.
  void (*dots)(DataType type, const float* x, const void* rows, std::int64_t row_step, std::int64_t row_count,
               std::int64_t count, float* sums);
  // y[r][j] = the sum over k < terms of x[r * x_step + k] * rows[k * row_step + j], for r < row_count, j < count; rows
  // of y lie y_step elements apart. 0 < terms <= kMostTerms.
  void (*thin_products)(const float* x, std::int64_t x_step, const float* rows, std::int64_t row_step,
                        std::int64_t terms, DataType type, void* y, std::int64_t y_step, std::int64_t row_count,
                        std::int64_t count);
  static constexpr std::int64_t kMostTerms = 9;
  // y[r * count + j] = start[j] + the sum over k < terms of x[r * terms + k] * rows[k * count + j], for r < row_count,
  // j < count, of f32; several rows in a vector. 0 < terms, count <= tiny.
  void (*tiny_products)(const float* x, const float* rows, const float* start, std::int64_t terms, float* y,
                        std::int64_t row_count, std::int64_t count);
  std::int64_t tiny;
  static constexpr std::int64_t kMostTiny = 8;
  // sums[i] += the sum over r < row_count of x[r * row_step + i], which is made first.
  void (*accumulate)(DataType type, const void* x, std::int64_t row_step, std::int64_t row_count, float* sums,
                     std::int64_t count);
  // Of each row, which follow on each other: y = exp(x - max(x)) / its sum, or the logarithm of that. Below e^-87 of
  // the largest, and where it would be no normal number, it is 0. A NaN anywhere makes all of the row NaN; count > 0.
  // Of halves `wide` has room for a row in f32.
  void (*softmax)(bool logarithm, DataType type, const void* x, float* wide, void* y, std::int64_t row_count,
                  std::int64_t count);
  // The moments of x in f32, whose squares hold what f32's are up to 1e19. Of halves wide = x, too; of f32 it may be
  // null.
  RowMoments (*moments)(DataType type, const void* x, float* wide, std::int64_t count);
  // y[i] = (x[i] - center) * factor * scale[i * step] + bias[i * step], step 0 or 1; `type` is that of y.
  void (*normalize)(const float* x, float center, float factor, const float* scale, const float* bias,
                    std::int64_t step, DataType type, void* y, std::int64_t count);
  // Lines of `count` elements, each of two lines of x: y[o] = weight[o] * x[index[o]] + weight[tap_step + o] *
  // x[index[tap_step + o]], o < line_count. y does not overlap x.
  void (*weigh)(DataType from, const void* x, const std::int32_t* index, const float* weight, std::int64_t tap_step,
                std::int64_t line_count, std::int64_t count, DataType to, void* y);
  // y[i] = x[i] * scale[i * step] + shift[i * step], not below `least` nor above `most` (NaN stays), step 0 or 1.
  void (*affine)(DataType type, const void* x, const float* scale, const float* shift, std::int64_t step, float least,
                 float most, void* y, std::int64_t count);
};
// Everywhere y is x or does not overlap it.

// For an instruction set that the processor has; null: there are none.
const RowFunctions* row_functions(Isa isa);

namespace avx2 {
extern const RowFunctions kRowFunctions;
}
namespace avx512 {
extern const RowFunctions kRowFunctions;
}

}  // namespace convoy::ops
