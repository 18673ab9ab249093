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
            "yes x=ndhwc y=ndhwc; yes C/groups=32 K/groups=64; yes pointers=64 bytes; ");
  EXPECT_EQ(answers("fprop:x=f32,1x32x8x8x8,ncdhw:w=f32,64x16x3x3x3,ncdhw:groups=2"),
            "no, x=ncdhw y=ncdhw: ndhwc is faster; no, C/groups=16 K/groups=32: 32 or more fill the tensor cores; "
            "yes pointers=64 bytes; ");
  EXPECT_EQ(answers("fprop:x=f32,1x4x8x8,nhwc:w=f32,4x4x3x3"), "");
}

}  // namespace
}  // namespace convoy::selection
