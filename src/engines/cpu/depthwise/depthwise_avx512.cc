#include "engines/cpu/depthwise/depthwise_kernels.h"
#include "engines/cpu/simd/epilogue.h"

namespace convoy::cpu::avx512 {
namespace {

CONVOY_SIMD Vi zero_index() { return _mm512_setzero_si512(); }
CONVOY_SIMD Vi load_index(const std::int32_t* p) { return _mm512_loadu_si512(p); }
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm512_permutexvar_ps(index, v); }  // lane l is v[index[l]]

}  // namespace
}  // namespace convoy::cpu::avx512

#include "engines/cpu/depthwise/channels_kernel.inc"
#include "engines/cpu/depthwise/plane_kernel.inc"
