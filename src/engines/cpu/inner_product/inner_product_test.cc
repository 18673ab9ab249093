#include "engines/cpu/inner_product/inner_product.h"

#include <gtest/gtest.h>

#include "engines/cpu/common/testing/engine_check.h"

namespace convoy::cpu {
namespace {

TEST(InnerProduct, MatchesTheOracle) {
  for (const char* text : {
           "fprop:x=f32,1x64x1x1,nhwc:w=f32,96x64x1x1",
           "fprop:x=f32,3x37x1x1,nchw:w=f32,5x37x1x1:stride=2x2",
           "fprop:x=f32,1x20x7x7,nchw:w=f32,41x20x7x7",
           "fprop:x=f32,2x20x7x7,nhwc:w=f32,41x20x7x7",
           "fprop:x=f32,2x11x3x5,nhwc:w=f32,9x11x3x5:mode=conv",
           "fprop:x=f32,2x11x3x5,nchw:w=f32,9x11x3x5,nhwc:mode=conv",
           "fprop:x=f32,1x700x9,nchw:w=f32,300x700x9",
           "fprop:x=f32,2x3x2x3x4,nhwc:w=f32,130x3x2x3x4",
           "fprop:x=f32,1x1x1x1,nhwc:w=f32,1x1x1x1",
       }) {
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (cpu_features().isa < isa) continue;
      for (const bool constant : {true, false}) {
        const EngineCheck how{.isa = isa, .threads = constant ? 1 : 3, .constant_weights = constant};
        run_and_compare(inner_product_engine(), problem_of(text), how, 7);
        ConvProblem full = problem_of(text);
        full.alpha = 0.5;
        full.beta = 2;
        full.epilogue = {.bias = true, .gamma = 0.5, .activation = {ActivationKind::relu, 0, 0}};
        run_and_compare(inner_product_engine(), full, how, 8);
      }
    }
  }
}

TEST(InnerProduct, RefusalsNameTheField) {
  const auto refused = [](const std::string& text) {
    const auto refusal = refuse(inner_product_engine(), problem_of(text), {1, cpu_features()});
    return refusal ? refusal->reason : std::string();
  };
  EXPECT_EQ(refused("fprop:x=f32,1x8x2x2,nhwc:w=f32,4x8x1x1"),
            "w.dims=4x8x1x1, x.dims=1x8x2x2: this engine needs a filter as large as x");
  EXPECT_EQ(refused("fprop:x=f32,1x8x3x3,nhwc:w=f32,4x8x3x3:pad=1x1"),
            "w.dims=4x8x3x3, x.dims=1x8x3x3: this engine needs a filter as large as x");
  EXPECT_EQ(refused("fprop:x=f32,1x8x3x3,nhwc:w=f32,4x8x3x3:pad=1x0/0x0:stride=2x1"),
            "pre_padding=1x0, post_padding=0x0: this engine takes none");
  EXPECT_NE(refused("fprop:x=f32,1x8x1x1,nhwc:w=f32,4x4x1x1:groups=2"), "");
}

}  // namespace
}  // namespace convoy::cpu
