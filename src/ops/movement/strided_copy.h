// Moving elements without changing them, between two strided views of the same dims. (Through index maps:
// mapped_copy.h.)
#pragma once

#include <cstdint>
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
  bool find_table();
  template <class T>
  void copy(const T* from, T* to, std::int64_t tile, std::int64_t begin, std::int64_t end) const;
  template <class T>
  void copy_by_table(const T* from, T* to, std::int64_t begin, std::int64_t end) const;

  std::size_t element_size_;
  // Ordered by descending stride of `to` and merged; the innermost one or (when tiled_) two are one block.
  Dims dims_, from_, to_;
  bool tiled_ = false;  // `from` runs along the last dim but one: the block is a transposition
  std::int64_t blocks_ = 1;
  std::int64_t times_ = 1;  // how often each line is written, one behind the other
  // Where inner dims are so short that finding the next line takes longer than moving it: where the elements of some
  // indices of dims_.back() lie, all those of the dims behind it, which are dropped.
  std::vector<std::int32_t> table_;
  std::int64_t table_rows_ = 0, row_elements_ = 0;  // indices that it has; elements of one
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

}  // namespace convoy::ops
