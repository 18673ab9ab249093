// How cpu.int8 lays out its operands: packed weight panels and gathered tiles of x.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

// The reduction runs over taps, then the group's channels, padded with zeros to whole steps of the kernel, of
// x' = x + 128 where x is s8, and w' = w - 128 where w is u8.
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
  std::size_t tile_bytes() const { return tile_bytes_; }  // scratch of one gathered tile; 0 when direct
  // Tiles that are gathered before the panels are gone through: what of x fits into the second cache beside a panel.
  static constexpr std::int64_t kMostBlockTiles = 16;
  std::int64_t block_tiles() const;
  std::size_t block_bytes() const { return static_cast<std::size_t>(block_tiles()) * tile_bytes_; }
  bool direct() const { return direct_; }  // rows of x are used in place: 1x1, dense channels, u8
  bool has_row_terms() const { return w_zero_ != 0 || w_zero_given_; }

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

  // Points `rows` at kernel.rows rows of x for output pixels first_row.. (of `count`; the rest repeat the last),
  // gathered into `tile` unless direct, and fills row_terms where there are any, and where channel 0 of each pixel lies
  // in y, in elements.
  void gather(const void* x, std::int32_t x_zero_point, std::int64_t group, std::int64_t first_row, int count,
              void* tile, const void** rows, std::int32_t* row_terms, std::int64_t* out) const;

 private:
  struct Pixel {
    std::int64_t n, d, h, w;
  };
  Pixel pixel_at(std::int64_t index) const;
  void advance(Pixel& pixel) const {
    const std::int64_t* size = geometry_.y_size;
    if (++pixel.w < size[2]) return;
    pixel.w = 0;
    if (++pixel.h < size[1]) return;
    pixel.h = 0;
    if (++pixel.d < size[0]) return;
    pixel.d = 0;
    ++pixel.n;
  }
  std::size_t all_panels() const { return static_cast<std::size_t>(geometry_.groups * per_group_); }
  std::size_t all_columns() const { return all_panels() * static_cast<std::size_t>(kernel_.columns); }
  // Of packed weights, and where in them what is.
  std::int64_t panel_bytes() const { return kernel_.columns * 4 * steps_ * (again_ ? 2 : 1); }
  std::size_t terms_at() const { return all_panels() * static_cast<std::size_t>(panel_bytes()); }
  std::size_t again_at() const { return terms_at() + all_columns() * sizeof(std::int32_t); }
  void halve_large_pairs(std::byte* weights, std::int32_t* again) const;
  template <class Row>
  void each_row(const Pixel& p, Row row) const;
  template <class Tap>
  void each_tap(const Pixel& p, Tap tap) const;
  std::uint8_t* gather_row(const std::uint8_t* x, std::uint8_t x_zero, const Pixel& p, std::uint8_t* to) const;
  std::int32_t row_term(const std::uint8_t* row, const std::uint8_t* end, std::int32_t x_zero) const;

  ConvGeometry geometry_;
  Kernel kernel_;
  DataType x_type_, w_type_;
  bool again_;                      // steps may be taken again
  std::int32_t x_shift_, w_shift_;  // x' = x + x_shift_, w' = w + w_shift_
  std::int32_t x_zero_point_;       // as the problem has it
  std::int32_t w_zero_;             // in the packed weights; 0 when given
  bool x_zero_given_, w_zero_given_;
  std::int64_t terms_;  // taps * group_channels
  std::int64_t steps_;
  std::int64_t per_group_;
  bool direct_;
  bool taps_side_by_side_;  // a filter row's taps are, as their channels
  std::size_t tile_bytes_;
};

}  // namespace convoy::cpu::int8
