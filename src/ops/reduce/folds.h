// Folds of elements of any type with the widest vectors that there are: of rows, whose elements lie side by side, and
// of columns, whose neighbours do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "convoy/cpu.h"
#include "convoy/data_type.h"
#include "ops/reduce/fold_kernels.h"
#include "ops/support.h"

namespace convoy::ops {

// Loops of one fold and type.
class FoldLoops {
 public:
  FoldLoops() = default;  // there are none
  // For an instruction set that the processor has, and a type of kMathNumeric or bool.
  FoldLoops(Isa isa, Fold fold, DataType type, bool real);

  explicit operator bool() const { return kernels_.rows != nullptr; }
  // What nothing was taken in by: 0, 1, or the worst of the type.
  void start(void* folds, std::int64_t count) const;
  // As the kernels do.
  void rows(const void* x, std::int64_t step, std::int64_t rows, std::int64_t count, void* folds) const;
  void columns(const void* x, std::int64_t step, std::int64_t size, std::int64_t count, void* folds) const;
  bool has_whole_columns() const { return kernels_.whole_columns != nullptr; }
  bool whole_columns(Finish finish, const void* x, std::int64_t step, std::int64_t size, std::int64_t count,
                     void* y) const {
    return kernels_.whole_columns(finish, x, step, size, count, y);
  }
  // folds[i] takes in the fold others[i].
  void join(const void* others, std::int64_t count, void* folds) const { join_(others, count, folds); }
  // y[i] is what folds[i], of `terms` elements, finally is as an element. An integer that it can't be is 0 or the
  // nearest that it can.
  void finish(Finish finish, const void* folds, std::int64_t count, std::int64_t terms, void* y) const {
    kernels_.finish(finish, folds, count, terms, y);
  }

 private:
  static constexpr std::int64_t kMostWide = 4096;

  FoldKernels kernels_{};
  std::size_t size_ = 0;             // of an element
  std::int64_t together_ = 0;        // how many are widened at a time
  std::array<std::byte, 8> none_{};  // a fold that took in nothing
  void (*join_)(const void* others, std::int64_t count, void* folds) = nullptr;
};

inline FoldLoops fold_loops(Isa isa, Fold fold, DataType type, bool real = false) {
  return FoldLoops(isa, fold, type, real);
}

// folds[i] takes in all that `reduced` visits from element i * step of x on, i < count.
void take_in(const FoldLoops& loops, const BroadcastLoop& reduced, DataType type, const void* x, std::int64_t step,
             std::int64_t count, void* folds);

}  // namespace convoy::ops
