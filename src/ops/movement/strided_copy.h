// Moving elements without changing them: between two strided views of the same dims, and through an index map a dim.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ops/support.h"

namespace convoy::ops {

// to[sum x_d * to_strides[d]] = from[sum x_d * from_strides[d]] for every x below dims. Strides are in elements; those
// of `from` may be zero or negative, those of `to` are positive where a dim is over 1. The pointers handed to run() are
// those of the element x = 0.
class StridedCopy {
 public:
  StridedCopy(std::size_t element_size, const Dims& dims, const Dims& from_strides, const Dims& to_strides);
  void run(const void* from, void* to, const ExecContext& context) const;

 private:
  std::optional<std::pair<TensorDesc, TensorDesc>> as_conversion() const;
  template <class T>
  void copy(const T* from, T* to, std::int64_t tile, std::int64_t begin, std::int64_t end) const;

  std::size_t element_size_;
  // Set where the copy is a conversion between channels apart and side by side, which src/convert does faster.
  std::optional<std::pair<TensorDesc, TensorDesc>> conversion_;
  // Ordered by descending stride of `to` and merged; the innermost one or (when tiled_) two are one block.
  Dims dims_, from_, to_;
  bool tiled_ = false;  // `from` runs along the last dim but one: the block is a transposition
  std::int64_t blocks_ = 1;
};

// Rows of `bytes`, each `times` times; `from` and `to` may not overlap. `to_step`: from one that is written to the
// next.
void copy_rows(const void* from, std::int64_t from_step, void* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t bytes, std::int64_t times = 1);

// What copies its first input so.
std::unique_ptr<OpPlan> plan_of_copy(const NodeDesc& node, const StridedCopy& copy);

// Of what only gives its first input's bytes, which may be where they are to be.
std::unique_ptr<OpPlan> plan_of_bytes(const NodeDesc& node, std::int64_t bytes);

// The address of element `offset`.
inline const void* at_element(const void* data, std::int64_t offset, std::size_t element_size) {
  return static_cast<const char*>(data) + offset * static_cast<std::int64_t>(element_size);
}
inline void* at_element(void* data, std::int64_t offset, std::size_t element_size) {
  return static_cast<char*>(data) + offset * static_cast<std::int64_t>(element_size);
}

// Index maps are held in memory: outputs with longer dims are refused. (An output without elements needs no maps.)
Result<void> check_mappable(const NodeDesc& node, const TensorDesc& y);

// y[o] = x[maps[0][o_0], maps[1][o_1], ..], or `fill` where any of the indices is -1. Works in any plain layout.
class MappedCopy {
 public:
  // map(d, i): the index in dim d of x, in [-1, dim), for index i of y.
  MappedCopy(const TensorDesc& x, const TensorDesc& y, FunctionRef<std::int64_t(int d, std::int64_t i)> map);
  // `fill`: one element.
  void run(const void* x, void* y, const void* fill, const ExecContext& context) const;

 private:
  struct Run {
    std::int64_t begin, count;  // of the innermost dim
    std::int64_t from;          // offset in x; -1: fill
    std::int64_t step;          // between neighbours in x
  };
  void merge_inner_dims();
  void find_runs();
  template <class T>
  void copy(const T* x, T* y, T fill, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void copy_row(const T* x, T* line, T fill) const;
  template <class T>
  void copy_groups(const T* x, const std::int64_t* offsets, T* line, T fill) const;
  template <class T>
  void fill_groups(T* line, std::int64_t count, T fill) const;

  std::size_t element_size_;
  std::int64_t group_ = 1;     // elements side by side in both that stay together, as channels do; y has no gaps then
  Dims dims_, strides_;        // of y, in groups, outermost first; strides in elements
  std::vector<Dims> offsets_;  // maps times the strides of x, -1 for fill
  std::vector<Run> runs_;      // of the innermost dim; empty where they would be too short to be worth it
  std::int64_t repeat_ = 0;    // 2 or 4: the innermost dim takes each of its neighbours so many times
  std::int64_t rows_ = 1;
};

}  // namespace convoy::ops
