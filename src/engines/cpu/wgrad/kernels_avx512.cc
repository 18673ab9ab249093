#include "engines/cpu/wgrad/kernels.h"
#include "simd/simd.h"

namespace convoy::cpu::avx512 {
namespace {

// Of each four lanes those that two bits each of kOrder say.
template <int kOrder>
CONVOY_SIMD Vf permute(Vf v) {
  return _mm512_permute_ps(v, kOrder);
}

}  // namespace
}  // namespace convoy::cpu::avx512

#include "engines/cpu/wgrad/kernels.inc"
