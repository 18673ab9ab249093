#include "core/integer_sums.h"

#include <gtest/gtest.h>

#include <string>

namespace convoy {
namespace {

ConvProblem problem(const std::string& text) { return *parse_problem(text); }

std::string refused(const std::string& text) {
  const auto refusal = refuse_sums_in_f32(problem(text), "a library");
  return refusal ? refusal->reason : "";
}

TEST(IntegerSums, LargestOfAWindow) {
  EXPECT_EQ(largest_sum(problem("fprop:x=u8,1x8x9x9:w=s8,4x8x3x3:y=s32,1x4x7x7")), 72.0 * 255 * 128);
  EXPECT_EQ(largest_sum(problem("fprop:x=s8,1x8x9x9:w=s8,4x8x3x3:y=s32,1x4x7x7")), 72.0 * 128 * 128);
  EXPECT_EQ(largest_sum(problem("fprop:x=u8,1x8x9x9:w=u8,4x8x3x3:y=s32,1x4x7x7")), 72.0 * 255 * 255);
  EXPECT_EQ(largest_sum(problem("fprop:x=u8,1x8x9:w=s8,8x1x5:y=s32,1x8x5:groups=8")), 5.0 * 255 * 128);
  // The farther end counts, and the farthest there is where the zero point is not known.
  EXPECT_EQ(largest_product(problem("fprop:x=u8,1x1x1:w=s8,1x1x1:y=s32,1x1x1:zp=100,-28,0")), 155.0 * 155);
  EXPECT_EQ(largest_product(problem("fprop:x=s8,1x1x1:w=s8,1x1x1:y=s32,1x1x1:zp=given,given,0")), 255.0 * 255);
}

TEST(IntegerSums, AreLargestOfTheseBytes) {
  const auto of = [](const std::string& x, const std::string& w, const std::string& zero_points) {
    const ExtremeBytes extreme =
        extreme_bytes(problem("fprop:x=" + x + ",1x1x1:w=" + w + ",1x1x1:y=s32,1x1x1" + zero_points));
    return std::string(extreme.x_greatest ? "greatest " : "least ") + (extreme.w_greatest ? "greatest" : "least");
  };
  EXPECT_EQ(of("u8", "s8", ""), "greatest greatest");
  EXPECT_EQ(of("u8", "s8", ":zp=200,0,0"), "least least");
  EXPECT_EQ(of("u8", "u8", ":zp=200,0,0"), "least greatest");  // there are no negative weights
  EXPECT_EQ(of("u8", "u8", ":zp=200,128,0"), "least least");
  EXPECT_EQ(of("s8", "s8", ""), "least least");
  EXPECT_EQ(of("s8", "s8", ":zp=given,0,0"), "greatest greatest");
  EXPECT_EQ(of("s8", "s8", ":zp=0,given,0"), "least greatest");
}

TEST(IntegerSums, AreRefusedWhereF32MayNotHoldThem) {
  const auto of = [](int channels, const std::string& rest = "") {
    const std::string c = std::to_string(channels);
    return "fprop:x=u8,1x" + c + "x1:w=s8,1x" + c + "x1:y=s32,1x1x1" + rest;
  };
  EXPECT_EQ(refused(of(514)), "");  // 16,776,960
  EXPECT_EQ(
      refused(of(515)),
      "y=s32: a library rounds sums to f32, which holds integers up to 2^24 only, and 515 products of up to 32640 "
      "reach 16809600: wrong results");
  EXPECT_EQ(refused(of(600, ":zp=128,0,0")), "");
  EXPECT_NE(refused(of(300, ":alpha=2")).find("reach 19584000"), std::string::npos);
  EXPECT_NE(refused(of(1, ":bias=1")).find("the bias may have any size"), std::string::npos);
  EXPECT_NE(refused(of(1, ":beta=1")).find("beta=1 adds s32"), std::string::npos);
  EXPECT_NE(refused(of(1, ":gamma=1")).find("gamma=1 adds s32"), std::string::npos);
  EXPECT_EQ(refused("fprop:x=u8,1x600x1:w=s8,1x600x1:y=f32,1x1x1:bias=1"), "");
  EXPECT_EQ(refused("fprop:x=f32,1x600x1:w=f32,1x600x1"), "");
}

}  // namespace
}  // namespace convoy
