#include "ops/matmul/panel_product.h"

namespace convoy::ops {

PanelProduct<float> panel_product(Isa isa) {
  return isa >= Isa::avx512 ? avx512::panel_product
         : isa >= Isa::avx2 ? avx2::panel_product
                            : plain_panel_product<float>;
}

}  // namespace convoy::ops
