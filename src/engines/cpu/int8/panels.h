// How cpu.int8 lays out its operands: packed weight panels, and the lines of x that a block of output pixels reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

// The rows of x that consecutive output pixels of a group read, of x' = x + 128 where x is s8; in groups of
// kernel.group_rows, of which some may be less than full.
struct Block {
  static constexpr int most_tiles = 16, most_rows = 2 * most_tiles * max_rows;
  int groups;
  std::array<int, most_rows / 16> pixels;     // of a group
  std::array<const void*, most_rows> x;       // what a group has too few of is repeated
  std::array<std::int32_t, most_rows> terms;  // row terms of kernels.h, where there are any
  std::array<std::int64_t, most_rows> out;    // where their first channels lie, in elements
};

// The reduction runs over taps, then the group's channels: over runs of terms that lie side by side in x. Each run is
// padded with weights of zero to whole steps of the kernel. w' = w - 128 where w is u8.
//
// An output pixel's runs lie in the same places from its first. A block's lines hold, for each of its output rows, the
// rows of x that the filter reads, with x's zero point where it reads outside; so x is copied once for each row of the
// filter, not for each tap. Else pixels are read one by one, and their terms are one run (implicit im2col): where lines
// were longer, and with AMX, which takes rows equally far apart, so that a group has pixels of one output row only,
// also where that and the padding of runs to 64 bytes cost more.
//
// Packed: for each group and panel of kernel.columns filters its weights; behind them all, one s32 per group, panel and
// column: the column terms of kernels.h, or, where x's zero point comes with the execution, what it is multiplied with
// to give them; then for each group and panel how many steps are taken again, and which, where there may be such.
class Panels {
 public:
  Panels(const ConvProblem& problem, const Kernel& kernel);

  const ConvGeometry& geometry() const { return geometry_; }
  std::int64_t terms() const { return steps_ * 4; }      // of a row, padding included
  std::int64_t per_group() const { return per_group_; }  // panels a group
  std::size_t packed_bytes() const;
  std::int64_t block_tiles() const { return block_tiles_; }  // at most, of kernel.rows pixels each
  std::size_t block_bytes() const { return block_bytes_; }   // scratch for a block's lines; 0 when direct
  bool direct() const { return direct_; }                    // x is used in place: 1x1, dense channels, u8
  bool has_row_terms() const { return w_zero_ != 0 || w_zero_given_; }
  const char* how_x_is_read() const;
  double copied_bytes() const;               // of x for an output pixel and group
  std::int64_t computed_columns() const;     // of a group: a last panel may be narrow
  double filled() const { return filled_; }  // share of the rows of groups that are pixels

  // Before any of the following: where steps read, a long list.
  void list_steps();
  void pack(const void* weights, void* packed) const;
  Panel panel(const void* packed, std::int64_t group, std::int64_t panel) const;

  // The terms of all columns, kernel.columns for each group and panel: in `packed`, or computed into `scratch` (of
  // term_bytes()) where they depend on a zero point that comes with the execution.
  const std::int32_t* column_terms(const void* packed, std::int32_t x_zero_point, void* scratch) const;
  std::size_t term_bytes() const { return x_zero_given_ ? all_columns() * sizeof(std::int32_t) : 0; }
  std::int64_t first_column(std::int64_t group, std::int64_t panel) const {
    return (group * per_group_ + panel) * kernel_.columns;
  }
  std::int32_t w_shift() const { return w_shift_; }  // what is added to weights, and so to their zero points

  // Fills `block` with `count` output pixels from `first`, copying what they read of x into `lines` unless direct.
  void gather(const void* x, std::int32_t x_zero_point, std::int64_t group, std::int64_t first, std::int64_t count,
              void* lines, Block& block) const;

 private:
  struct Pixel {
    std::int64_t n, d, h, w;
  };
  Pixel pixel_at(std::int64_t index) const;
  std::size_t all_panels() const { return static_cast<std::size_t>(geometry_.groups * per_group_); }
  std::size_t all_columns() const { return all_panels() * static_cast<std::size_t>(kernel_.columns); }
  // Of packed weights, and where in them what is.
  std::int64_t panel_bytes() const { return kernel_.columns * 4 * steps_ * (again_ ? 2 : 1); }
  std::size_t terms_at() const { return all_panels() * static_cast<std::size_t>(panel_bytes()); }
  std::size_t again_at() const { return terms_at() + all_columns() * sizeof(std::int32_t); }
  void halve_large_pairs(std::byte* weights, std::int32_t* again) const;
  void plan_lines();
  bool reads_one_by_one() const;
  double filled_rows() const;
  std::int64_t padded_steps(std::int64_t run_terms) const;
  std::int64_t line_pixels(std::int64_t pixels) const;
  void copy_lines(const std::uint8_t* x, std::uint8_t x_zero, const Pixel& p, std::int64_t pixels,
                  std::uint8_t* to) const;
  void copy_pixels(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) const;
  std::int32_t row_term(const std::uint8_t* pixel, std::int32_t x_zero) const;

  ConvGeometry geometry_;
  Kernel kernel_;
  DataType x_type_, w_type_;
  bool again_;                      // steps may be taken again
  std::int32_t x_shift_, w_shift_;  // x' = x + x_shift_, w' = w + w_shift_
  std::int32_t x_zero_point_;       // as the problem has it
  std::int32_t w_zero_;             // in the packed weights; 0 when given
  bool x_zero_given_, w_zero_given_;
  std::int64_t terms_;  // taps * group_channels
  std::int64_t per_group_;
  bool direct_;
  double filled_ = 1;
  bool one_by_one_ = false;              // each pixel has lines of its own
  std::int64_t line_step_;               // from a line's pixel to the next in x
  std::int64_t line_bytes_, row_bytes_;  // from one line, and from one output row's lines, to the next
  std::int64_t pixel_bytes_;             // from one output pixel's first tap to the next's
  std::int64_t run_terms_;
  std::vector<std::int64_t> runs_, steps_at_;  // where they begin, from a pixel's first tap
  std::int64_t steps_;
  std::int64_t block_tiles_;
  std::size_t block_bytes_ = 0;
};

}  // namespace convoy::cpu::int8
