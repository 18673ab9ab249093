// The oracle's kernels compile for every type and pass, without a GPU.
#include <gtest/gtest.h>

#include "base/environment.h"
#include "device/cuda/nvrtc.h"
#include "engines/cuda/compiler/compiler.h"
#include "engines/cuda/reference/reference_kernels.h"

namespace convoy::cuda {
namespace {

TEST(CudaReference, CompilesForEveryTypeAndPass) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  const char* const problems[] = {
      "fprop:x=f32,1x4x5x5:w=f32,8x4x3x3",
      "dgrad:x=bf16,1x4x5x5:w=bf16,8x4x3x3:y=bf16,1x8x3x3",
      "wgrad:x=f16,2x4x64x64:w=f16,8x4x3x3:y=f16,2x8x62x62",
      "fprop:x=f64,1x4x5:w=f64,8x4x3",
      "fprop:x=f8_e4m3,1x4x5x5:w=f8_e5m2,8x4x3x3:y=bf16,1x8x3x3",
      "fprop:x=u8,1x4x5x5:w=s8,8x4x3x3:y=s8,1x8x3x3:requant=tensor",
      "fprop:x=s8,1x4x5x5:w=s8,8x4x3x3:y=s32,1x8x3x3",
  };
  const bool full = environment(Variable::test_full).has_value();
  for (const char* text : problems) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    for (const int architecture : {80, 90, 100}) {
      if (!full && architecture != 90) continue;
      const auto compiled = compile(reference_request(*problem, architecture));
      EXPECT_TRUE(compiled.ok()) << text << ": " << compiled.error().message;
    }
  }
}

}  // namespace
}  // namespace convoy::cuda
