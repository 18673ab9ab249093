// Verification: what it accepts, what it catches, which elements it looks at.
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "core/tolerance.h"
#include "engines/reference/testing/literals.h"
#include "engines/testing/conv_data.h"

namespace convoy::reference_testing {
namespace {

using testing::ConvData;
using testing::Fill;

const char* const small = "fprop:x=f32,2x24x9x9,nhwc:w=f32,20x24x3x3:pad=1x1:bias=1:act=relu";
// 1.2e9 products: sampled.
const char* const big = "fprop:x=f32,1x64x200x200,nhwc:w=f32,48x64x3x3:pad=1x1";

struct Executed {
  ConvProblem problem;
  ConvData data;
  testing::GuardedBuffer out;
  std::unique_ptr<ThreadTeam> team = make_cpu_team(2);

  explicit Executed(const char* text, bool execute = true)
      : problem(problem_of(text)), data(problem, 3, Fill::normal), out(data.make_out()) {
    ConvArgs args = data.args();
    args.out = out.data();
    if (execute) {
      EXPECT_TRUE((*reference_engine().plan(problem, {}, {}))->execute(args, {*team}).ok());
    }
  }
  float* at(const Dims& coords) { return reinterpret_cast<float*>(out.data()) + problem.out().offset(coords.data()); }
  Verification verify(VerifyOptions options = {}) const {
    return verify_with_reference(problem, data.args(), out.data(), options, *team);
  }
};

TEST(Verify, TheOracleAgreesWithItself) {
  const Executed run(small);
  const Verification verification = run.verify();
  EXPECT_TRUE(verification.ok());
  EXPECT_TRUE(verification.full);
  EXPECT_EQ(verification.checked, 2 * 20 * 9 * 9);
  EXPECT_TRUE(run.verify({.exact = true}).ok());
}

TEST(Verify, NamesTheWorstElement) {
  Executed run(small);
  const float right = *run.at({1, 7, 0, 8});
  *run.at({1, 7, 0, 8}) = right + 1;
  const Verification verification = run.verify();
  EXPECT_FALSE(verification.ok());
  EXPECT_EQ(verification.worst, (Dims{1, 7, 0, 8}));
  EXPECT_EQ(verification.actual, right + 1);
  EXPECT_EQ(verification.expected, right);
  *run.at({1, 7, 0, 8}) = std::nanf("");
  EXPECT_TRUE(std::isinf(run.verify().max_error));
}

TEST(Verify, ALostProductIsNoticedAndARoundingIsNot) {
  Executed run("fprop:x=f32,1x512x3x3,nhwc:w=f32,8x512x3x3:pad=1x1");
  const ConvArgs args = run.data.args();
  const float product = static_cast<const float*>(args.x)[run.problem.x.offset(Dims{0, 0, 1, 1}.data())] *
                        static_cast<const float*>(args.w)[run.problem.w.offset(Dims{5, 0, 1, 1}.data())];
  ASSERT_GT(std::abs(product), 0.2F);
  const float right = *run.at({0, 5, 1, 1});
  *run.at({0, 5, 1, 1}) = right - product;
  EXPECT_FALSE(run.verify().ok()) << run.verify().max_error;
  *run.at({0, 5, 1, 1}) = std::nextafter(right, 1e9F);
  EXPECT_TRUE(run.verify().ok());
  EXPECT_FALSE(run.verify({.exact = true}).ok());
}

TEST(Verify, SamplesABigProblemWithItsCorners) {
  Executed run(big, false);
  const Expectation expectation(run.problem, run.data.args(), {}, *run.team);
  EXPECT_FALSE(expectation.full());
  // Write what the oracle says of the sampled elements only: everything compared must be among them.
  const Verification blank = expectation.compare(run.out.data(), Arithmetic::direct);
  EXPECT_GE(blank.checked, 4096);
  EXPECT_FALSE(blank.ok());
  for (const std::int64_t c : {0, 47}) {
    for (const std::int64_t h : {0, 199}) {
      for (const std::int64_t w : {0, 199}) {
        const Dims corner = {0, c, h, w};
        const ReferenceElement element = reference_element(run.problem, run.data.args(), corner.data());
        *run.at(corner) = static_cast<float>(element.stored);
      }
    }
  }
  // The first element in the sample's order is a corner; with the corners right, the worst is elsewhere.
  const Verification rest = expectation.compare(run.out.data(), Arithmetic::direct);
  EXPECT_FALSE(rest.ok());
  EXPECT_NE(rest.worst, (Dims{0, 0, 0, 0}));
}

TEST(Verify, AnElementIsWhatTheWholeComputes) {
  for (const char* text :
       {small, "dgrad:x=f32,2x6x5x5:w=f32,4x3x3x3:y=f32,2x4x3x3:stride=2x2:pad=1x1:groups=2:beta=0.5",
        "wgrad:x=f16,2x6x5x5:w=f32,4x3x3x3:y=f16,2x4x3x3:stride=2x2:pad=1x1:groups=2:alpha=2",
        "fprop:x=u8,1x8x4x4,nhwc:w=s8,8x8x3x3:y=s8,1x8x2x2,nhwc:bias=1:requant=channel:zp=3,0,7"}) {
    const Executed run(text, false);
    ConvArgs args = run.data.args();
    testing::GuardedBuffer out = run.data.make_out();
    run.data.reset(out);
    args.out = out.data();
    ASSERT_TRUE((*reference_engine().plan(run.problem, {}, {}))->execute(args, {*run.team}).ok());
    const Dims at = {run.problem.out().dims[0] - 1, 1, 1, 0};
    const double whole = load_as_double(run.problem.out().type, out.data(), run.problem.out().offset(at.data()));
    const ReferenceElement element = reference_element(run.problem, run.data.args(), at.data());
    EXPECT_EQ(whole, element.stored) << text;
    EXPECT_NEAR(element.exact, element.stored, 0.5 + std::abs(element.stored) * 1e-3) << text;
  }
}

// At a corner of dgrad one tap of nine meets data, but Winograd's tile has all nine: the bound counts them. (Found by
// the property test with spiked data.)
TEST(Verify, WinogradCountsTheWholeWindow) {
  Executed run("dgrad:x=f32,1x2x4x6:w=f32,3x2x3x3:y=f32,1x3x2x4", false);
  const Dims corner = {0, 1, 0, 0};
  const Dims middle = {0, 1, 2, 3};
  const ConvArgs args = run.data.args();
  EXPECT_EQ(reference_element(run.problem, args, corner.data(), Arithmetic::winograd).bound,
            reference_element(run.problem, args, middle.data(), Arithmetic::winograd).bound);
  EXPECT_LT(reference_element(run.problem, args, corner.data()).bound,
            reference_element(run.problem, args, middle.data()).bound);
}

TEST(Tolerance, HalfUlps) {
  EXPECT_EQ(half_ulp(DataType::f32, 1), 0x1p-24);
  EXPECT_EQ(half_ulp(DataType::f32, 1.99), 0x1p-24);
  EXPECT_EQ(half_ulp(DataType::f32, 2), 0x1p-23);
  EXPECT_EQ(half_ulp(DataType::f32, 0), 0x1p-150);
  EXPECT_EQ(half_ulp(DataType::bf16, -1), 0x1p-8);
  EXPECT_EQ(half_ulp(DataType::f16, 1e-9), 0x1p-25);
  EXPECT_EQ(half_ulp(DataType::u8, 200), 0.5);
}

TEST(Tolerance, GrowsAsDerived) {
  ConvProblem problem = problem_of("fprop:x=f32,1x1x4:w=f32,1x1x1");
  const auto bound = [&](std::int64_t terms, double sum_abs, Arithmetic arithmetic = Arithmetic::direct) {
    return error_before_rounding(problem, {terms, sum_abs}, 0, {}, arithmetic);
  };
  EXPECT_EQ(bound(8, 1), 9 * 0x1p-24);          // the rigorous bound
  EXPECT_EQ(bound(1023, 1), 8 * 32 * 0x1p-24);  // lambda * sqrt(n + 1)
  EXPECT_EQ(bound(8, 2), 2 * bound(8, 1));
  EXPECT_EQ(bound(8, 1, Arithmetic::winograd), 16 * bound(8, 1));
  problem.math = MathMode::tf32;
  EXPECT_EQ(bound(8, 1), 9 * 0x1p-24 + 0x1p-10);
}

TEST(Tolerance, AddendsAreTermsOfTheSum) {
  ConvProblem problem = problem_of("fprop:x=f32,1x1x4:w=f32,1x1x1");
  const auto bound = [&](std::int64_t terms, const EpilogueValues& values, Arithmetic arithmetic = Arithmetic::direct) {
    return error_before_rounding(problem, {terms, 1}, 0, values, arithmetic);
  };
  problem.epilogue.bias = true;
  EXPECT_EQ(bound(8, {.bias = -3}), 10 * (1 + 3) * 0x1p-24);
  EXPECT_EQ(bound(1022, {.bias = 3}), 8 * 32 * (1 + 3) * 0x1p-24);
  // A transform amplifies what it transforms.
  EXPECT_EQ(bound(8, {.bias = 3}, Arithmetic::winograd), 10 * (16 + 3) * 0x1p-24);
  problem.beta = 0.5;
  problem.epilogue.gamma = 2;
  problem.alpha = 4;
  EXPECT_EQ(bound(8, {.prior = 8, .bias = 3, .z = -1}), 14 * (4 * 1 + 4 + 3 + 2) * 0x1p-24);
  problem.math = MathMode::tf32;  // of the products only
  EXPECT_EQ(bound(8, {.prior = 8, .bias = 3, .z = -1}), 14 * (4 * 1 + 4 + 3 + 2) * 0x1p-24 + 4 * 0x1p-10);
}

// Sums as an engine may compute them: from zero or from the bias, one after the other or in lanes. Products are small
// beside the bias, as in trained networks, where the roundings of a sum that begins with it are those of its size.
TEST(Tolerance, ASumMayBeginWithTheBias) {
  ConvProblem problem = problem_of("fprop:x=f32,1x1x4:w=f32,1x1x1:bias=1");
  std::mt19937 random(7);
  double worst = 0, worst_without_bias = 0;
  for (int round = 0; round < 2000; ++round) {
    const int terms = 1 + static_cast<int>(random() % 300);
    const float bias = std::uniform_real_distribution<float>(-8, 8)(random);
    float from_bias = bias, from_zero = 0, lanes[8] = {bias};
    double exact = 0, sum_abs = 0;
    for (int i = 0; i < terms; ++i) {
      const float a = std::uniform_real_distribution<float>(-1, 1)(random);
      const float b = std::uniform_real_distribution<float>(-0.05F, 0.05F)(random);
      from_bias = std::fma(a, b, from_bias);
      from_zero = std::fma(a, b, from_zero);
      lanes[i % 8] = std::fma(a, b, lanes[i % 8]);
      exact += static_cast<double>(a) * b;
      sum_abs += std::abs(static_cast<double>(a) * b);
    }
    float in_lanes = 0;
    for (const float lane : lanes) in_lanes += lane;
    const double bound = error_before_rounding(problem, {terms, sum_abs}, exact, {.bias = bias}, Arithmetic::direct);
    const double without = std::min<double>(terms + 1, 8 * std::sqrt(terms + 1.0)) * 0x1p-24 * sum_abs +
                           0x1p-24 * (std::abs(exact) + std::abs(bias));  // of the rule before
    const double value = exact + bias;
    for (const float sum : {from_bias, from_zero + bias, in_lanes}) {
      const double error = error_in_tolerances(DataType::f32, sum, value, static_cast<float>(value), bound);
      ASSERT_LE(error, 1) << terms << " terms, bias " << bias;
      worst = std::max(worst, error);
      worst_without_bias = std::max(worst_without_bias,
                                    error_in_tolerances(DataType::f32, sum, value, static_cast<float>(value), without));
    }
  }
  EXPECT_GT(worst_without_bias, 1);  // which is why it was wrong
  EXPECT_GT(worst, 0.05);            // and the bound is not idle
}

// Products below the normal numbers are rounded there, or flushed to zero.
TEST(Tolerance, WhatUnderflowsMayBeLost) {
  const ConvProblem problem = problem_of("fprop:x=f32,1x1x4:w=f32,1x1x1");
  const double bound = error_before_rounding(problem, {9, 9e-40}, 9e-40, {}, Arithmetic::direct);
  EXPECT_LE(error_in_tolerances(DataType::f32, 0, 9e-40, static_cast<float>(9e-40), bound), 1);
  EXPECT_GT(error_in_tolerances(DataType::f32, 0, 1e-36, 1e-36F, bound), 1);
}

TEST(Tolerance, ByChannelTheLargestCounts) {
  ChannelTolerances tolerances(TensorDesc::packed(DataType::f32, {1, 4, 1, 1}));
  tolerances.add(0, 1, 1e-3);
  tolerances.add(0, 100, 1e-5);
  tolerances.add(2, 0, 0);
  tolerances.add(3, std::numeric_limits<double>::infinity(), 1);
  EXPECT_EQ(std::move(tolerances).by_channel(), (std::vector<double>{1e-3, 1e-3, 0, 1e-3}));
}

TEST(Tolerance, IntegersWithoutScalingAreExact) {
  ConvProblem problem = problem_of("fprop:x=u8,1x1x1:w=s8,1x1x1:y=s32,1x1x1:bias=1:act=relu");
  EXPECT_EQ(error_before_rounding(problem, {100, 1e9}, 1e9, {.bias = 12345}, Arithmetic::direct), 0);
  EXPECT_EQ(error_in_tolerances(DataType::s32, 7, 7, 7, 0), 0);
  EXPECT_GT(error_in_tolerances(DataType::s32, 8, 7, 7, 0), 1);
}

// Whole numbers stay exact in s32 whatever is added, a fraction of the bias or of alpha does not.
TEST(Tolerance, LargeSumsAreExactInS32AndRoundedElsewhere) {
  const std::string types = "fprop:x=u8,1x1x1:w=s8,1x1x1:y=";
  constexpr double sum = 1e9, prior = 7e8, bias = 3;
  const auto bound = [&](const std::string& rest) {
    const ConvProblem problem = problem_of(types + rest);
    const double b = problem.epilogue.float_bias ? bias + 0.5 : bias;
    return error_before_rounding(problem, {100000, 3e9}, sum, {.prior = prior, .bias = b, .scale = 1},
                                 Arithmetic::direct);
  };
  for (const char* rest : {"s32,1x1x1", "s32,1x1x1:alpha=-3:beta=2:bias=1", "f32,1x1x1"})
    EXPECT_EQ(bound(rest), 0) << rest;
  constexpr double u = 0x1p-24;
  EXPECT_DOUBLE_EQ(bound("s32,1x1x1:alpha=0.5:bias=1"), 4 * u * (0.5 * sum + bias));
  EXPECT_DOUBLE_EQ(bound("s32,1x1x1:bias=f32"), 4 * u * (sum + bias + 0.5));
  EXPECT_DOUBLE_EQ(bound("f32,1x1x1:bias=1"), 4 * u * (sum + bias));
  EXPECT_DOUBLE_EQ(bound("u8,1x1x1:beta=1"), 4 * u * (sum + prior));
  EXPECT_GT(bound("u8,1x1x1:requant=tensor"), 0);
}

TEST(Tolerance, RequantizedTiesMustBeRight) {
  const ConvProblem problem = problem_of("fprop:x=u8,1x1x1:w=s8,1x1x1:y=s8,1x1x1:requant=tensor");
  // 5*0.5 is exact in f32, so only 2 is right.
  const double exact = error_before_rounding(problem, {1, 5}, 5, {.scale = 0.5}, Arithmetic::direct);
  EXPECT_EQ(exact, 0);
  EXPECT_GT(error_in_tolerances(DataType::s8, 3, 2.5, 2, exact), 1);
  // The right answer of a tie has no error; where the bound leaves the tie open, the other neighbour uses all of it.
  EXPECT_EQ(error_in_tolerances(DataType::s8, 2, 2.5, 2, 1e-9), 0);
  EXPECT_GT(error_in_tolerances(DataType::s8, 3, 2.5, 2, 1e-9), 0.99);
  EXPECT_LE(error_in_tolerances(DataType::s8, 3, 2.5, 2, 1e-9), 1);
  // 3*(1/3 in f32) is not.
  EXPECT_GT(error_before_rounding(problem, {1, 3}, 3, {.scale = 1.0F / 3}, Arithmetic::direct), 0);
}

TEST(Tolerance, SaturatedAndInfinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_LE(error_in_tolerances(DataType::u8, 255, 900, 255, 1e-3), 1);
  EXPECT_GT(error_in_tolerances(DataType::u8, 253, 900, 255, 1e-3), 1);
  EXPECT_EQ(error_in_tolerances(DataType::f16, infinity, 1e6, infinity, 1), 0);
  EXPECT_TRUE(std::isinf(error_in_tolerances(DataType::f16, infinity, 100, 100, 1e-3)));
  // 65519 rounds to 65504, 65520 to infinity.
  EXPECT_LE(error_in_tolerances(DataType::f16, infinity, 65519, 65504, 2), 1);
  EXPECT_EQ(error_in_tolerances(DataType::f32, std::nan(""), 1, std::nan(""), 1), 0);
  EXPECT_TRUE(std::isinf(error_in_tolerances(DataType::f32, 1, std::nan(""), std::nan(""), 1)));
}

}  // namespace
}  // namespace convoy::reference_testing
