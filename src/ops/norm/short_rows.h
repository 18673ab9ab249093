// Moments of many short lines that lie side by side in f32 (short_lines.h).
#pragma once

#include <array>
#include <cmath>

#include "ops/rows.h"
#include "ops/short_lines.h"

namespace convoy::ops {

struct LineMoments {
  std::array<double, kShortLines> mean, variance;
};

// Of `count` lines whose `size` elements are x[e * count + i], size > 0: in f64, about each line's first element. NaN
// stays.
inline void moments_of_lines(const float* x, std::int64_t size, std::int64_t count, LineMoments& m) {
  double *const mean = m.mean.data(), *const variance = m.variance.data();
  std::fill_n(mean, count, 0.0);
  std::fill_n(variance, count, 0.0);
  // An infinity less itself is what its line becomes: the first row counts, too.
  for (std::int64_t e = 0; e < size; ++e) avx2::add_row(x + e * count, x, mean, variance, count);
  const double share = 1 / static_cast<double>(size);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const double off = mean[i] * share, v = variance[i] * share - off * off;
    variance[i] = v < 0 ? 0 : v;
    mean[i] = off + static_cast<double>(x[i]);
  }
}

// The longest rows of neighbours that are rather taken side by side.
constexpr std::int64_t kLongestShortRow = 12;

}  // namespace convoy::ops
