// Folds of elements of any type with the widest vectors that there are: of rows, whose elements lie side by side, and
// of columns, whose neighbours do. Floats are folded in f64, integers in 64 bits that wrap around, or in f64 where they
// are to be `real`.
#pragma once

#include <cstdint>

#include "convoy/cpu.h"
#include "convoy/data_type.h"
#include "ops/support.h"

namespace convoy::ops {

// Of extremes a NaN is one; exponentials are log(sum(exp(x))), which is always real.
enum class Fold : std::uint8_t { sum, magnitudes, squares, product, largest, smallest, exponentials };
enum class Finish : std::uint8_t { as_it_is, mean, root, logarithm };

// Loops of one fold and type. `folds` are 8 bytes each: a double, an int64_t or a uint64_t.
struct FoldLoops {
  // What nothing was taken in by: 0, 1, or the worst of the type.
  void (*start)(void* folds, std::int64_t count);
  // folds[r] takes in row r, `step` elements behind the one before.
  void (*rows)(const void* x, std::int64_t step, std::int64_t rows, std::int64_t count, void* folds);
  // folds[c] takes in column c, whose `size` elements are `step` apart.
  void (*columns)(const void* x, std::int64_t step, std::int64_t size, std::int64_t count, void* folds);
  // folds[i] takes in the fold others[i].
  void (*join)(const void* others, std::int64_t count, void* folds);
  // y[i] is what folds[i], of `terms` elements, finally is as an element. An integer that it can't be is 0 or the
  // nearest that it can.
  void (*finish)(Finish finish, const void* folds, std::int64_t count, std::int64_t terms, void* y);
  // y[c] is finally the fold of column c, `size` elements that are `step` apart: start, columns and finish in one, in
  // registers. False, and nothing is written, where those are faster. Null: there is no such loop.
  bool (*whole_columns)(Finish finish, const void* x, std::int64_t step, std::int64_t size, std::int64_t count,
                        void* y);
};

// For an instruction set that the processor has, and a type of kMathNumeric or bool.
FoldLoops fold_loops(Isa isa, Fold fold, DataType type, bool real = false);

// folds[i] takes in all that `reduced` visits from element i * step of x on, i < count.
void take_in(const FoldLoops& loops, const BroadcastLoop& reduced, DataType type, const void* x, std::int64_t step,
             std::int64_t count, void* folds);

namespace avx2 {
// Sets what there is for the type.
void set_fold_loops(Fold fold, DataType type, bool real, FoldLoops& loops);
}  // namespace avx2
namespace avx512 {
void set_fold_loops(Fold fold, DataType type, bool real, FoldLoops& loops);
}  // namespace avx512

}  // namespace convoy::ops
