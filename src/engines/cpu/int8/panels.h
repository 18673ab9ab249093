// How cpu.int8 lays out its operands: packed weight panels and gathered tiles of x.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

// The reduction runs over taps, then the group's channels, padded with zeros to whole steps of the kernel.
// Packed weights: for each group and panel of kernel.columns filters, [step][column][values of a step]; behind them
// all, one s32 per group, panel and column: the column terms of kernels.h.
class Panels {
 public:
  Panels(const ConvProblem& problem, const Kernel& kernel);

  const ConvGeometry& geometry() const { return geometry_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t per_group() const { return per_group_; }  // panels a group
  std::size_t packed_bytes() const;
  std::size_t tile_bytes() const { return tile_bytes_; }  // scratch of one gathered tile; 0 when direct
  bool direct() const { return direct_; }                 // rows of x are used in place: 1x1, dense channels, u8
  bool has_row_terms() const { return w_zero_ != 0; }

  void pack(const void* weights, void* packed) const;
  const void* panel(const void* packed, std::int64_t group, std::int64_t panel) const;
  const std::int32_t* column_terms(const void* packed, std::int64_t group, std::int64_t panel) const;

  // Points `rows` at kernel.rows rows of x for output pixels first_row.. (of `count`; the rest repeat the last),
  // gathered into `tile` unless direct, and fills row_terms where there are any.
  void gather(const void* x, std::int64_t group, std::int64_t first_row, int count, void* tile, const void** rows,
              std::int32_t* row_terms) const;

  // Offset in elements of channel 0 of an output pixel.
  std::int64_t output_offset(std::int64_t pixel) const;

 private:
  struct Pixel {
    std::int64_t n, d, h, w;
  };
  Pixel pixel_at(std::int64_t index) const;

  ConvGeometry geometry_;
  Kernel kernel_;
  DataType x_type_, w_type_;
  bool shifted_;  // VNNI: x' = x + x_shift_, w' = w + w_shift_; else zero points are subtracted first
  std::int32_t x_shift_, w_shift_;
  std::int32_t x_zero_, w_zero_;  // shifted; both 0 when not shifted_
  std::int64_t terms_;            // taps * group_channels
  std::int64_t steps_;
  std::int64_t per_group_;
  bool direct_;
  std::size_t tile_bytes_;
};

}  // namespace convoy::cpu::int8
