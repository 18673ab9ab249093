// What each instruction set has for folds (folds.h). Floats are folded in f64, integers in 64 bits that wrap around, or
// in f64 where they are to be real.
#pragma once

#include <cstdint>

#include "convoy/data_type.h"

namespace convoy::ops {

// Of extremes a NaN is one; exponentials are log(sum(exp(x))), which is always real.
enum class Fold : std::uint8_t { sum, magnitudes, squares, product, largest, smallest, exponentials };
enum class Finish : std::uint8_t { as_it_is, mean, root, logarithm };

// What one instruction set has for a fold of elements of one type, or of what they are widened to. `folds` are 8 bytes
// each: a double, an int64_t or a uint64_t.
struct FoldKernels {
  // folds[r] takes in row r, `step` elements behind the one before.
  void (*rows)(const void* x, std::int64_t step, std::int64_t rows, std::int64_t count, void* folds);
  // folds[c] takes in column c, whose `size` elements are `step` apart.
  void (*columns)(const void* x, std::int64_t step, std::int64_t size, std::int64_t count, void* folds);
  // wide[r * count + i] = x[r * step + i]. Null: elements are folded as they are.
  void (*widen)(const void* x, std::int64_t step, std::int64_t rows, std::int64_t count, void* wide);
  // y[i] is what folds[i], of `terms` elements, finally is as an element. Null: as the type alone says.
  void (*finish)(Finish finish, const void* folds, std::int64_t count, std::int64_t terms, void* y);
  // y[c] is finally the fold of column c: start, columns and finish in one, in registers. False, and nothing is
  // written, where those are faster. Null: there is no such loop.
  bool (*whole_columns)(Finish finish, const void* x, std::int64_t step, std::int64_t size, std::int64_t count,
                        void* y);
};

// Elements of `type` are folded as `folded`: as what they are (u64 as s64), or as s32 or f64, which they are widened
// to. No magnitudes of numbers without a sign.
namespace portable {
FoldKernels fold_kernels(Fold fold, DataType type, DataType folded);
}  // namespace portable
namespace avx2 {
FoldKernels fold_kernels(Fold fold, DataType type, DataType folded);
}  // namespace avx2
namespace avx512 {
FoldKernels fold_kernels(Fold fold, DataType type, DataType folded);
}  // namespace avx512

}  // namespace convoy::ops
