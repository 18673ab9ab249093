#include "select/explain/advice.h"

#include <gtest/gtest.h>

namespace convoy::selection {
namespace {

std::string answers(const std::string& text) {
  const auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text;
  std::string said;
  for (const Advice& advice : advice_for_3d(*problem)) said += (advice.followed ? "yes " : "no, ") + advice.text + "; ";
  return said;
}

TEST(Advice, ChecksThreeDimensionalProblemsOnly) {
  EXPECT_EQ(answers("fprop:x=bf16,1x32x8x8x8,ndhwc:w=bf16,64x32x3x3x3,ndhwc"),
            "yes x=ndhwc y=ndhwc; yes C/groups=32 K/groups=64; yes pointers=64 bytes; yes x=bf16 math=strict; ");
  EXPECT_EQ(
      answers("fprop:x=f32,1x32x8x8x8,ncdhw:w=f32,64x16x3x3x3,ncdhw:groups=2"),
      "no, x=ncdhw y=ncdhw: ndhwc is faster; no, C/groups=16 K/groups=32: 32 or more fill the tensor cores; "
      "yes pointers=64 bytes; no, x=f32 math=strict: bf16, f16, or f32 with --allow tf32 run on the tensor cores; "
      "no, C/groups=16 K/groups=32: both the same, one of 1, 4, 8, 16, 32, 64, 128, 256, have kernels for "
      "groups; ");
  EXPECT_EQ(answers("fprop:x=f32,1x32x8x8x8,ndhwc:w=f32,32x16x3x3x3,ndhwc:groups=2:math=tf32"),
            "yes x=ndhwc y=ndhwc; no, C/groups=16 K/groups=16: 32 or more fill the tensor cores; "
            "yes pointers=64 bytes; yes x=f32 math=tf32; yes C/groups=16 K/groups=16; ");
  EXPECT_EQ(answers("fprop:x=f32,1x4x8x8,nhwc:w=f32,4x4x3x3"), "");
}

}  // namespace
}  // namespace convoy::selection
