#include "ops/reductions.h"

namespace convoy::ops {

const Reductions* reductions(Isa isa) {
  return isa >= Isa::avx512 ? &avx512::kReductions : isa >= Isa::avx2 ? &avx2::kReductions : nullptr;
}

}  // namespace convoy::ops
