#include "engines/testing/problem_generator.h"

#include <gtest/gtest.h>

#include <set>

#include "engines/testing/conv_data.h"

namespace convoy::testing {
namespace {

ProblemOptions everything() {
  ProblemOptions options;
  using enum DataType;
  options.types = {{f64, f64, f64, f64},         {f32, f32, f32, f32}, {f16, f16, f16, f32}, {bf16, bf16, f32, f32},
                   {f8_e4m3, f8_e5m2, f16, f32}, {u8, s8, u8, s32},    {s8, s8, f32, s32}};
  return options;
}

TEST(ProblemGenerator, ProblemsAreValidAndSurviveTheirString) {
  Random random(1);
  const ProblemOptions options = everything();
  for (int i = 0; i < 5000; ++i) {
    const ConvProblem problem = random_problem(random, options);
    const Result<void> valid = validate(problem);
    ASSERT_TRUE(valid.ok()) << print(problem) << "\n" << valid.error().message;
    const Result<ConvProblem> again = parse_problem(print(problem));
    ASSERT_TRUE(again.ok()) << print(problem) << "\n" << again.error().message;
    ASSERT_EQ(*again, problem) << print(problem);
    ASSERT_LE(flops(problem) / 2, static_cast<double>(options.max_products)) << print(problem);
  }
}

TEST(ProblemGenerator, SameSeedSameProblems) {
  Random a(7);
  Random b(7);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random_problem(a, everything()), random_problem(b, everything()));
}

TEST(ProblemGenerator, CoversWhatItSays) {
  Random random(3);
  std::set<std::string> seen;
  for (int i = 0; i < 3000; ++i) {
    const ConvProblem p = random_problem(random, everything());
    seen.insert("pass " + std::string(name_of(p.pass)));
    seen.insert("rank " + std::to_string(p.x.rank()));
    seen.insert("act " + std::string(name_of(p.epilogue.activation.kind)));
    if (p.is_depthwise()) seen.insert("depthwise");
    if (p.groups > 1 && !p.is_depthwise()) seen.insert("groups");
    if (p.mode == ConvMode::convolution) seen.insert("flipped");
    if (p.pre_padding != p.post_padding) seen.insert("asymmetric");
    if (p.beta != 0) seen.insert("beta");
    if (p.groups == 1 && p.w.dims[2] > 2 && std::equal(p.x.dims.begin() + 2, p.x.dims.end(), p.w.dims.begin() + 2)) {
      seen.insert("filter as large as x");
    }
    if (p.x.channel_block == 16) seen.insert("16c");
    if (p.x.layout() == Layout::strided) seen.insert("strided");
    if (p.y_zero_point != 0) seen.insert("zero point");
    if (p.epilogue.requantize == Requantize::per_channel) seen.insert("requantize");
  }
  EXPECT_EQ(seen.size(), 3U + 3U + 14U + 10U);
}

TEST(GuardedBuffer, NoticesAByteOnEitherSide) {
  for (const std::size_t alignment : {1, 4, 16, 64}) {
    GuardedBuffer buffer(100, alignment);
    EXPECT_TRUE(buffer.intact());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0U);
    if (alignment < 64) {
      EXPECT_NE(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2 * alignment), 0U);
    }
    buffer.data()[100] = std::byte{0};
    EXPECT_FALSE(buffer.intact());
    GuardedBuffer other(100, alignment);
    other.data()[-1] = std::byte{0};
    EXPECT_FALSE(other.intact());
  }
}

TEST(ConvData, NoticesAWriteBetweenElements) {
  const Result<ConvProblem> problem =
      parse_problem("fprop:x=f32,1x2x4,ncw:w=f32,3x2x1,ncw:y=f32,1x3x4,strides=24x8x2:pad=0:stride=1");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const ConvData data(*problem, 1, Fill::normal);
  GuardedBuffer out = data.make_out();
  data.reset(out);
  EXPECT_EQ(data.trespass(out), "");
  out.data()[0] = std::byte{1};  // an element
  EXPECT_EQ(data.trespass(out), "");
  out.data()[5] = std::byte{1};  // the gap after it
  EXPECT_NE(data.trespass(out), "");
}

}  // namespace
}  // namespace convoy::testing
