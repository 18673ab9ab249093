// How cpu.int8 lays out its operands: packed weight panels beside the lines of x (common/lines.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engines/cpu/common/lines.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

// A block whose rows may have terms of their own.
struct ByteBlock : Block {
  std::array<std::int32_t, kMostRows> terms;  // row terms of kernels.h, where there are any
};

// The rows hold x' = x + 128 where x is s8, the weights w' = w - 128 where w is u8; the lines are filled with x's zero
// point.
//
// Packed: for each group and panel of kernel.tile.columns filters its weights; behind them all, one s32 per group,
// panel and column: the column terms of kernels.h, or, where x's zero point comes with the execution, what it is
// multiplied with to give them; then for each group and panel how many steps are taken again, and which, where there
// may be such.
class Panels {
 public:
  Panels(const ConvProblem& problem, const Kernel& kernel);

  const ConvGeometry& geometry() const { return geometry_; }
  const Lines<std::uint8_t>& lines() const { return lines_; }
  std::int64_t per_group() const { return per_group_; }  // panels a group
  std::size_t packed_bytes() const;
  bool has_row_terms() const { return w_zero_ != 0 || w_zero_given_; }
  std::int64_t computed_columns() const;  // of a group: a last panel may be narrow

  // Before any of the following.
  void list_steps() { lines_.list_steps(); }
  void pack(const void* weights, void* packed) const;
  Panel panel(const void* packed, std::int64_t group, std::int64_t panel) const;

  // The terms of all columns, kernel.tile.columns for each group and panel: in `packed`, or computed into `scratch` (of
  // term_bytes()) where they depend on a zero point that comes with the execution.
  const std::int32_t* column_terms(const void* packed, std::int32_t x_zero_point, void* scratch) const;
  std::size_t term_bytes() const { return x_zero_given_ ? all_columns() * sizeof(std::int32_t) : 0; }
  std::int64_t first_column(std::int64_t group, std::int64_t panel) const {
    return (group * per_group_ + panel) * kernel_.tile.columns;
  }
  std::int32_t w_shift() const { return w_shift_; }  // what is added to weights, and so to their zero points

  // Lines::gather, and the rows' terms.
  void gather(const void* x, std::int32_t x_zero_point, std::int64_t group, std::int64_t first, std::int64_t count,
              void* memory, ByteBlock& block) const;

 private:
  std::size_t all_panels() const { return static_cast<std::size_t>(geometry_.groups * per_group_); }
  std::size_t all_columns() const { return all_panels() * static_cast<std::size_t>(kernel_.tile.columns); }
  // Of packed weights, and where in them what is.
  std::int64_t panel_bytes() const { return kernel_.tile.columns * kStepBytes * lines_.steps() * (again_ ? 2 : 1); }
  std::size_t terms_at() const { return all_panels() * static_cast<std::size_t>(panel_bytes()); }
  std::size_t again_at() const { return terms_at() + all_columns() * sizeof(std::int32_t); }
  void halve_large_pairs(std::byte* weights, std::int32_t* again) const;
  std::int32_t row_term(const std::uint8_t* pixel, std::int32_t x_zero) const;

  ConvGeometry geometry_;
  Kernel kernel_;
  DataType x_type_, w_type_;
  bool again_;                      // steps may be taken again
  std::int32_t x_shift_, w_shift_;  // x' = x + x_shift_, w' = w + w_shift_
  std::int32_t x_zero_point_;       // as the problem has it
  std::int32_t w_zero_;             // in the packed weights; 0 when given
  bool x_zero_given_, w_zero_given_;
  std::int64_t per_group_;
  Lines<std::uint8_t> lines_;
};

}  // namespace convoy::cpu::int8
