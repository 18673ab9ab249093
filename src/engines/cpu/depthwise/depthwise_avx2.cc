#include "engines/cpu/depthwise/depthwise_kernels.h"
#include "engines/cpu/simd/epilogue.h"
#include "simd/halves.h"

namespace convoy::cpu::avx2 {
namespace {

CONVOY_SIMD Vi zero_index() { return _mm256_setzero_si256(); }
CONVOY_SIMD Vi load_index(const std::int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm256_permutevar8x32_ps(v, index); }  // lane l is v[index[l]]
// Elements 0, 2, 4 .. of the 16 of a and b.
CONVOY_SIMD Vf even_lanes(Vf a, Vf b) {
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));  // a0a2 b0b2 a4a6 b4b6
  return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, _MM_SHUFFLE(3, 1, 2, 0)));
}

}  // namespace
}  // namespace convoy::cpu::avx2

#include "engines/cpu/depthwise/channels_kernel.inc"
#include "engines/cpu/depthwise/halves_kernel.inc"
#include "engines/cpu/depthwise/plane_kernel.inc"
