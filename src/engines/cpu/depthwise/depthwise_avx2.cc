#include "engines/cpu/depthwise/depthwise_kernels.h"
#include "engines/cpu/simd/epilogue.h"

namespace convoy::cpu::avx2 {
namespace {

CONVOY_SIMD Vi zero_index() { return _mm256_setzero_si256(); }
CONVOY_SIMD Vi load_index(const std::int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
CONVOY_SIMD Vf permute(Vf v, Vi index) { return _mm256_permutevar8x32_ps(v, index); }  // lane l is v[index[l]]

}  // namespace
}  // namespace convoy::cpu::avx2

#include "engines/cpu/depthwise/channels_kernel.inc"
#include "engines/cpu/depthwise/plane_kernel.inc"
