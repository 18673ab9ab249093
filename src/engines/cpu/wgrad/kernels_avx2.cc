#include "engines/cpu/wgrad/kernels.h"
#include "simd/simd.h"

namespace convoy::cpu::avx2 {
namespace {

// Of each four lanes those that two bits each of kOrder say.
template <int kOrder>
CONVOY_SIMD Vf permute(Vf v) {
  return _mm256_permute_ps(v, kOrder);
}

}  // namespace
}  // namespace convoy::cpu::avx2

#include "engines/cpu/wgrad/kernels.inc"
