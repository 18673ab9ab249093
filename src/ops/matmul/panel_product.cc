#include "ops/matmul/panel_product.h"

namespace convoy::ops {

template <>
PanelProduct<float> panel_product<float>(Isa isa) {
  return isa >= Isa::avx512 ? avx512::panel_product
         : isa >= Isa::avx2 ? avx2::panel_product
                            : plain_panel_product<float>;
}

template <>
PanelProduct<double> panel_product<double>(Isa isa) {
  return isa >= Isa::avx512 ? avx512_f64::panel_product
         : isa >= Isa::avx2 ? avx2_f64::panel_product
                            : plain_panel_product<double>;
}

template <>
PanelProduct<float> narrow_panel_product<float>(Isa isa) {
  return isa >= Isa::avx512 ? avx512::narrow_panel_product
         : isa >= Isa::avx2 ? avx2::narrow_panel_product
                            : plain_panel_product<float, kNarrowPanel>;
}

template <>
PanelProduct<double> narrow_panel_product<double>(Isa isa) {
  return isa >= Isa::avx512 ? avx512_f64::narrow_panel_product
         : isa >= Isa::avx2 ? avx2_f64::narrow_panel_product
                            : plain_panel_product<double, kNarrowPanel>;
}

template <>
PackingProduct<float> packing_product<float>(Isa isa) {
  return isa >= Isa::avx512 ? avx512::packing_product
         : isa >= Isa::avx2 ? avx2::packing_product
                            : plain_packing_product<float>;
}

template <>
PackingProduct<double> packing_product<double>(Isa isa) {
  return isa >= Isa::avx512 ? avx512_f64::packing_product
         : isa >= Isa::avx2 ? avx2_f64::packing_product
                            : plain_packing_product<double>;
}

}  // namespace convoy::ops
