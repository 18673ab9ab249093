#include "ops/row_functions.h"

namespace convoy::ops {

const RowFunctions* row_functions(Isa isa) {
  return isa >= Isa::avx512 ? &avx512::kRowFunctions : isa >= Isa::avx2 ? &avx2::kRowFunctions : nullptr;
}

}  // namespace convoy::ops
