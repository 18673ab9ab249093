// Reductions of f32 and halves with the widest vectors that there are: of a row, whose elements lie side by side, and
// of columns, whose elements are `step` apart and whose neighbours lie side by side.
#pragma once

#include <cstdint>

#include "convoy/cpu.h"
#include "convoy/data_type.h"

namespace convoy::ops {

struct Reductions {
  // The largest or the smallest of a row; a NaN wins. There is an element.
  float (*extreme)(bool largest, DataType type, const void* x, std::int64_t count);
  // What of f32 is below *least and above *most, the furthest of it: a NaN is neither.
  void (*widen_range)(const float* x, std::int64_t count, float* least, float* most);
  // The first element from `begin` on that is not worse than `bound` or equal to it, a NaN among them; `count` where
  // there is none.
  std::int64_t (*next_better)(bool largest, DataType type, const void* x, std::int64_t begin, std::int64_t count,
                              float bound);
  // Where it is first, or last; a NaN is chosen only where it comes first, and then stays. 0 < count < kMostPositions.
  std::int64_t (*position)(bool largest, bool last, DataType type, const void* x, std::int64_t count);
  void (*positions)(bool largest, bool last, DataType type, const void* x, std::int64_t step, std::int64_t size,
                    float* y, std::int64_t count);
  // The same of columns of integers.
  void (*whole_positions)(bool largest, bool last, DataType type, const void* x, std::int64_t step, std::int64_t size,
                          std::int64_t* y, std::int64_t count);
  // The k best of each of `count` columns of `size` >= k keys, which follow one another: the largest first, of equals
  // the one above. best[j * count + c] is a column's j-th, at[j * count + c] where it is. `count` is a multiple of
  // kKeyColumns.
  void (*best_of_keys)(const std::int32_t* keys, std::int64_t size, std::int64_t count, std::int64_t k,
                       std::int32_t* best, std::int32_t* at);
  void (*best_of_wide_keys)(const std::int64_t* keys, std::int64_t size, std::int64_t count, std::int64_t k,
                            std::int64_t* best, std::int64_t* at);
  // log(sum(exp(x))).
  double (*log_sum_exp)(DataType type, const void* x, std::int64_t count);
  void (*log_sum_exps)(DataType type, const void* x, std::int64_t step, std::int64_t size, float* y,
                       std::int64_t count);
  // y = exp(x - max(x)) / its sum down each of `count` columns, or the logarithm of that; as RowFunctions::softmax is.
  // `wide` has room for size * softmax_columns(size) floats. y is x or does not overlap it.
  void (*softmax)(bool logarithm, DataType type, const void* x, std::int64_t step, std::int64_t size, float* wide,
                  void* y, std::int64_t count);
};

constexpr std::int64_t kKeyColumns = 16;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 24;  // that f32 counts

// How many columns are taken at a time: as many as leave what is kept of them in a core's caches.
constexpr std::int64_t softmax_columns(std::int64_t size) {
  constexpr std::int64_t kMost = 64, kLeast = 16, kKept = 64 << 10;
  return size * kMost <= kKept ? kMost : kLeast;
}

// For an instruction set that the processor has; null: there are none.
const Reductions* reductions(Isa isa);

namespace avx2 {
extern const Reductions kReductions;
}
namespace avx512 {
extern const Reductions kReductions;
}

}  // namespace convoy::ops
