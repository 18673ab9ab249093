// Moving elements through an index map a dim: what Pad, Tile, Slice, Gather and Resize to the nearest do.
#pragma once

#include <array>
#include <vector>

#include "ops/movement/shuffle_row.h"
#include "ops/support.h"

namespace convoy::ops {

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
  void join_short_rows();
  void find_runs();
  bool find_shuffle();
  template <class T>
  void copy(const T* x, T* y, T fill, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void copy_row(const T* x, T* line, T fill, const Sixteen& fills) const;
  template <class T>
  void copy_groups(const T* x, const std::int64_t* offsets, T* line, T fill) const;
  template <class T>
  void fill_groups(T* line, std::int64_t count, T fill) const;

  std::size_t element_size_;
  std::int64_t group_ = 1;     // elements side by side in both that stay together, as channels do; y has no gaps then
  Dims dims_, strides_;        // of y, in groups, outermost first; strides in elements
  std::vector<Dims> offsets_;  // maps times the strides of x, -1 for fill
  std::vector<Run> runs_;      // of the innermost dim; empty where they would be too short to be worth it
  std::vector<ShuffleStep> shuffle_;  // of the innermost dim; empty where it is no faster than the rest
  std::vector<Sixteen> fills_;
  int steps_per_block_ = 0;
  std::int64_t repeat_ = 0;  // 2 or 4: the innermost dim takes each of its neighbours so many times
  bool fills_some_ = false;  // of a row
  std::int64_t rows_ = 1;
};

}  // namespace convoy::ops
