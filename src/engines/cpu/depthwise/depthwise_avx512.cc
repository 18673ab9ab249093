#include "engines/cpu/depthwise/depthwise_kernels.h"
#include "engines/cpu/simd/epilogue.h"
#include "simd/halves.h"

namespace convoy::cpu::avx512 {
namespace {

CONVOY_SIMD Vi zero_index() { return _mm512_setzero_si512(); }
CONVOY_SIMD Vi load_index(const std::int32_t* p) { return _mm512_loadu_si512(p); }
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm512_permutexvar_ps(index, v); }  // lane l is v[index[l]]
// Elements 0, 2, 4 .. of the 32 of a and b.
CONVOY_SIMD Vf even_lanes(Vf a, Vf b) {
  return _mm512_permutex2var_ps(a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
}

}  // namespace
}  // namespace convoy::cpu::avx512

#include "engines/cpu/depthwise/channels_kernel.inc"
#include "engines/cpu/depthwise/halves_kernel.inc"
#include "engines/cpu/depthwise/plane_kernel.inc"
