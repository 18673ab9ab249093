// From tiles of 32-bit sums to what cpu.int8 stores: the terms, scales and residual of a panel's columns as the kernels
// read them, and where results go. One a thread.
#pragma once

#include <cstdint>
#include <optional>

#include "convoy/engine.h"
#include "engines/cpu/common/geometry.h"
#include "engines/cpu/int8/kernels.h"

namespace convoy::cpu::int8 {

class Finishing {
 public:
  // `terms`: how many products a sum has at most. Keeps references to all.
  Finishing(const ConvProblem& problem, const ConvGeometry& geometry, const Kernel& kernel, const ConvArgs& args,
            std::int64_t terms, bool has_row_terms);

  // The next tiles' columns are `columns` filters from `filter` on. `column_terms`: kernel.tile.columns of them.
  // `w_shift` is added to weights' zero points that come with the execution.
  void start(std::int64_t filter, int columns, const std::int32_t* column_terms, std::int32_t w_shift = 0);

  std::int32_t* sums() { return own_.sums; }  // a tile's, for callers that have no other place: kMaxRows x columns
  // What finish_bytes() takes, where f32 can do it.
  const std::optional<FinishBytes>& bytes() const { return bytes_; }
  std::byte* out() const { return out_; }  // of 8 bits: where the first column goes, of the first pixel

  // Stores what becomes of `rows` of sums, which are overwritten: the r-th of them at `offsets[r]` elements from the
  // first pixel. `row_terms`: of kernels.h.
  void finish(std::int32_t* sums, int rows, const std::int64_t* offsets, const std::int32_t* row_terms = nullptr);

 private:
  std::optional<FinishBytes> in_bytes();
  void load_residual(int rows, const std::int64_t* offsets);
  void finish_exactly(std::int32_t* sums, int rows, const std::int64_t* offsets, const std::int32_t* row_terms);
  void store(const std::int32_t* sums, int rows, const std::int64_t* offsets);

  // The values of a panel's columns as vectors are read of them, and tiles of sums and of a residual.
  struct Columns {
    alignas(64) double bias[kMaxColumns] = {};
    alignas(64) float scales[kMaxColumns] = {};
    alignas(64) std::int32_t w_zeros[kMaxColumns] = {};
    alignas(64) std::int32_t terms[kMaxColumns];  // with the bias, for finish_bytes()
    alignas(64) std::int32_t sums[kMaxRows * kMaxColumns];
    alignas(64) std::int32_t z[kMaxRows * kMaxColumns];
  };

  const ConvProblem& problem_;
  const ConvGeometry& geometry_;
  const Kernel& kernel_;
  const ConvArgs& args_;
  const std::int64_t terms_;
  const bool has_row_terms_;
  Finish finish_{};
  std::optional<FinishBytes> bytes_;
  int columns_ = 0;
  std::int64_t channels_at_ = 0;  // of the first column, in elements
  std::byte* out_ = nullptr;
  Columns own_;
};

}  // namespace convoy::cpu::int8
