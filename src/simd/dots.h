// Products of a vector of f32 with rows of f32 or of halves, which are read as they are: what waits for the rows.
#pragma once

#include <cstdint>

#include "simd/halves.h"

namespace convoy::cpu::CONVOY_CPU_ISA {

template <class E, int kRows>
CONVOY_SIMD void dots_of(const float* x, const typename E::Element* rows, std::int64_t row_step, std::int64_t count,
                         float* sums) {
  Vf low[kRows], high[kRows];
  for (int r = 0; r < kRows; ++r) low[r] = high[r] = zero();
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const Two v = Floats::load_two(x + i);
    for (int r = 0; r < kRows; ++r) {
      const Two w = E::load_two(rows + r * row_step + i);
      low[r] = fma(v.low, w.low, low[r]);
      high[r] = fma(v.high, w.high, high[r]);
    }
  }
  for (; i < count; i += kLanes) {
    const int rest = static_cast<int>(count - i < kLanes ? count - i : kLanes);
    const Lanes lanes = first_lanes(rest);
    for (int r = 0; r < kRows; ++r) {
      const auto* const row = rows + r * row_step + i;
      low[r] = fma(load(x + i, lanes), rest == kLanes ? E::load(row) : E::load(row, rest), low[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) sums[r] = reduce_add(add(low[r], high[r]));
}

// sums[r] = the sum over i of x[i] * rows[r * row_step + i], for `row_count` rows of E; each in an order of its own
// that `count` alone decides.
template <class E>
void dots(const float* x, const typename E::Element* rows, std::int64_t row_step, std::int64_t row_count,
          std::int64_t count, float* sums) {
  constexpr int kAtOnce = 4;
  // Caches give floats that lie in a row sooner than those of four rows: 128 x 1536 in 3.7 us in place of 5.9 (Zen 5).
  constexpr std::int64_t kCached = 1 << 19;
  const bool in_a_row = sizeof(typename E::Element) == sizeof(float) && row_step == count;
  const std::int64_t by_fours = in_a_row && row_count * count <= kCached ? 0 : row_count / kAtOnce * kAtOnce;
  std::int64_t r = 0;
  for (; r < by_fours; r += kAtOnce) dots_of<E, kAtOnce>(x, rows + r * row_step, row_step, count, sums + r);
  for (; r < row_count; ++r) dots_of<E, 1>(x, rows + r * row_step, row_step, count, sums + r);
}

}  // namespace convoy::cpu::CONVOY_CPU_ISA
