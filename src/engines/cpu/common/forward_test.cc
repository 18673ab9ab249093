#include "engines/cpu/common/forward.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "convoy/convolution.h"

namespace convoy::cpu {
namespace {

// Every (output position, tap, input position) that the formula has, and how often it has it.
using Terms = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, int>;

Terms terms_of(const ForwardConv& conv) {
  Terms terms;
  for (const Phase& phase : conv.phases) {
    const Axis& axis = phase.axis[2];
    for (std::int64_t j = 0; j < axis.count; ++j) {
      for (const AxisTap& tap : axis.taps) {
        const std::int64_t in = j * axis.in_step + tap.offset;
        if (in >= 0 && in < axis.in_size) ++terms[{axis.out_start + j * axis.out_step, tap.filter, in}];
      }
    }
  }
  return terms;
}

// fprop and dgrad hold the same products, seen from the two sides: y[p] and x[p*stride + r*dilation - pad].
TEST(ForwardView, HoldsEveryProductOnce) {
  for (std::int64_t stride = 1; stride <= 4; ++stride) {
    for (std::int64_t dilation = 1; dilation <= 3; ++dilation) {
      for (std::int64_t pad = 0; pad <= 3; ++pad) {
        ConvProblem problem;
        problem.x = TensorDesc::packed(DataType::f32, {1, 1, 11});
        problem.w = TensorDesc::packed(DataType::f32, {1, 1, 3});
        problem.stride = {stride};
        problem.dilation = {dilation};
        problem.pre_padding = {pad};
        problem.post_padding = {1};
        ASSERT_TRUE(infer(problem).ok());
        Terms fprop, dgrad;
        for (std::int64_t p = 0; p < problem.y.dims[2]; ++p) {
          for (std::int64_t r = 0; r < 3; ++r) {
            const std::int64_t h = p * stride + r * dilation - pad;
            if (h < 0 || h >= 11) continue;
            ++fprop[{p, r, h}];
            ++dgrad[{h, r, p}];
          }
        }
        EXPECT_EQ(terms_of(forward_view(problem)), fprop) << print(problem);
        problem.pass = Pass::dgrad;
        const ForwardConv transposed = forward_view(problem);
        EXPECT_EQ(terms_of(transposed), dgrad) << print(problem);
        EXPECT_EQ(static_cast<std::int64_t>(transposed.phases.size()), phase_count(problem));
        std::int64_t positions = 0;
        for (const Phase& phase : transposed.phases) positions += phase.axis[2].count;
        EXPECT_EQ(positions, 11);
      }
    }
  }
}

TEST(MergeAxes, JoinsRowsAndImagesOfAOneByOne) {
  auto problem = parse_problem("fprop:x=f32,3x8x5x7,nhwc:w=f32,16x8x1x1:y=f32,3x16x5x7,nhwc");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  ForwardConv conv = forward_view(*problem);
  merge_axes(conv);
  EXPECT_EQ(conv.batch, 1);
  EXPECT_EQ(conv.phases[0].axis[1].count, 1);
  EXPECT_EQ(conv.phases[0].axis[2].count, 105);
  EXPECT_EQ(conv.phases[0].axis[2].in_size, 105);
}

TEST(MergeAxes, LeavesBlockedImagesAndStridesApart) {
  auto blocked = parse_problem("fprop:x=f32,3x32x5x7,nchw16c:w=f32,16x32x1x1:y=f32,3x16x5x7,nchw16c");
  ASSERT_TRUE(blocked.ok()) << blocked.error().message;
  ForwardConv conv = forward_view(*blocked);
  merge_axes(conv);
  EXPECT_EQ(conv.batch, 3);
  EXPECT_EQ(conv.phases[0].axis[2].count, 35);
  auto strided = parse_problem("fprop:x=f32,1x8x5x7,nhwc:w=f32,16x8x1x1:stride=2x1");
  ASSERT_TRUE(strided.ok()) << strided.error().message;
  conv = forward_view(*strided);
  merge_axes(conv);
  EXPECT_EQ(conv.phases[0].axis[1].count, 3);
  EXPECT_EQ(conv.phases[0].axis[2].count, 7);
}

}  // namespace
}  // namespace convoy::cpu
