#include "ops/vision/quads_avx2.h"

#include <immintrin.h>

namespace convoy::ops::avx2 {
namespace {

// Of two points.
inline __m256 products(const float* x, const std::int64_t* offsets, std::int64_t down, const float* weights) {
  const auto taps = [&](std::int64_t offset) {
    const float* const at = x + offset;
    const __m128 above = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    return _mm_loadh_pi(above, reinterpret_cast<const __m64*>(at + down));
  };
  return _mm256_mul_ps(_mm256_set_m128(taps(offsets[1]), taps(offsets[0])), _mm256_loadu_ps(weights));
}

}  // namespace

void sum_quads(const float* x, const std::int64_t* offsets, std::int64_t down, const float* weights, std::int64_t count,
               float* y) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  std::int64_t p = 0;
  for (; p + 8 <= count; p += 8) {
    const auto two = [&](std::int64_t i) { return products(x, offsets + p + i, down, weights + 4 * (p + i)); };
    const __m256 low = _mm256_hadd_ps(two(0), two(2)), high = _mm256_hadd_ps(two(4), two(6));
    _mm256_storeu_ps(y + p, _mm256_permutevar8x32_ps(_mm256_hadd_ps(low, high), order));
  }
  for (; p < count; ++p) {
    const float *const at = x + offsets[p], *const w = weights + 4 * p;
    y[p] = (w[0] * at[0] + w[1] * at[1]) + (w[2] * at[down] + w[3] * at[down + 1]);
  }
}

}  // namespace convoy::ops::avx2
