// The oracle's epilogues against literal numbers: every activation, requantization's ties and limits, wrapping sums.
#include "core/epilogue.h"

#include <cmath>

#include "engines/reference/testing/literals.h"

namespace convoy::reference_testing {
namespace {

struct Row {
  Activation activation;
  double v;
  double expected;
};

// The definitions of convolution.h evaluated with mpmath at 30 digits; prelu's slope is 0.25.
const Row rows[] = {
    {{ActivationKind::identity, 0, 0}, -4, -4.0},
    {{ActivationKind::identity, 0, 0}, -1.5, -1.5},
    {{ActivationKind::identity, 0, 0}, -0.25, -0.25},
    {{ActivationKind::identity, 0, 0}, 0, 0.0},
    {{ActivationKind::identity, 0, 0}, 0.75, 0.75},
    {{ActivationKind::identity, 0, 0}, 2.5, 2.5},
    {{ActivationKind::identity, 0, 0}, 7, 7.0},
    {{ActivationKind::relu, 0, 0}, -4, 0},
    {{ActivationKind::relu, 0, 0}, -1.5, 0},
    {{ActivationKind::relu, 0, 0}, -0.25, 0},
    {{ActivationKind::relu, 0, 0}, 0, 0.0},
    {{ActivationKind::relu, 0, 0}, 0.75, 0.75},
    {{ActivationKind::relu, 0, 0}, 2.5, 2.5},
    {{ActivationKind::relu, 0, 0}, 7, 7.0},
    {{ActivationKind::clip, -0.5, 6}, -4, -0.5},
    {{ActivationKind::clip, -0.5, 6}, -1.5, -0.5},
    {{ActivationKind::clip, -0.5, 6}, -0.25, -0.25},
    {{ActivationKind::clip, -0.5, 6}, 0, 0.0},
    {{ActivationKind::clip, -0.5, 6}, 0.75, 0.75},
    {{ActivationKind::clip, -0.5, 6}, 2.5, 2.5},
    {{ActivationKind::clip, -0.5, 6}, 7, 6.0},
    {{ActivationKind::leaky_relu, 0.125, 0}, -4, -0.5},
    {{ActivationKind::leaky_relu, 0.125, 0}, -1.5, -0.1875},
    {{ActivationKind::leaky_relu, 0.125, 0}, -0.25, -0.03125},
    {{ActivationKind::leaky_relu, 0.125, 0}, 0, 0.0},
    {{ActivationKind::leaky_relu, 0.125, 0}, 0.75, 0.75},
    {{ActivationKind::leaky_relu, 0.125, 0}, 2.5, 2.5},
    {{ActivationKind::leaky_relu, 0.125, 0}, 7, 7.0},
    {{ActivationKind::prelu, 0, 0}, -4, -1.0},
    {{ActivationKind::prelu, 0, 0}, -1.5, -0.375},
    {{ActivationKind::prelu, 0, 0}, -0.25, -0.0625},
    {{ActivationKind::prelu, 0, 0}, 0, 0.0},
    {{ActivationKind::prelu, 0, 0}, 0.75, 0.75},
    {{ActivationKind::prelu, 0, 0}, 2.5, 2.5},
    {{ActivationKind::prelu, 0, 0}, 7, 7.0},
    {{ActivationKind::elu, 1, 0}, -4, -0.98168436111126582},
    {{ActivationKind::elu, 1, 0}, -1.5, -0.77686983985157017},
    {{ActivationKind::elu, 1, 0}, -0.25, -0.22119921692859513},
    {{ActivationKind::elu, 1, 0}, 0, 0.0},
    {{ActivationKind::elu, 1, 0}, 0.75, 0.75},
    {{ActivationKind::elu, 1, 0}, 2.5, 2.5},
    {{ActivationKind::elu, 1, 0}, 7, 7.0},
    {{ActivationKind::elu, 1.5, 0}, -4, -1.4725265416668987},
    {{ActivationKind::elu, 1.5, 0}, -1.5, -1.1653047597773553},
    {{ActivationKind::elu, 1.5, 0}, -0.25, -0.3317988253928927},
    {{ActivationKind::elu, 1.5, 0}, 0, 0.0},
    {{ActivationKind::elu, 1.5, 0}, 0.75, 0.75},
    {{ActivationKind::elu, 1.5, 0}, 2.5, 2.5},
    {{ActivationKind::elu, 1.5, 0}, 7, 7.0},
    {{ActivationKind::sigmoid, 0, 0}, -4, 0.017986209962091558},
    {{ActivationKind::sigmoid, 0, 0}, -1.5, 0.18242552380635634},
    {{ActivationKind::sigmoid, 0, 0}, -0.25, 0.4378234991142019},
    {{ActivationKind::sigmoid, 0, 0}, 0, 0.5},
    {{ActivationKind::sigmoid, 0, 0}, 0.75, 0.67917869917539297},
    {{ActivationKind::sigmoid, 0, 0}, 2.5, 0.92414181997875645},
    {{ActivationKind::sigmoid, 0, 0}, 7, 0.99908894880559935},
    {{ActivationKind::tanh, 0, 0}, -4, -0.99932929973906704},
    {{ActivationKind::tanh, 0, 0}, -1.5, -0.90514825364486644},
    {{ActivationKind::tanh, 0, 0}, -0.25, -0.24491866240370913},
    {{ActivationKind::tanh, 0, 0}, 0, 0.0},
    {{ActivationKind::tanh, 0, 0}, 0.75, 0.63514895238728732},
    {{ActivationKind::tanh, 0, 0}, 2.5, 0.98661429815143029},
    {{ActivationKind::tanh, 0, 0}, 7, 0.99999833694394467},
    {{ActivationKind::swish, 1, 0}, -4, -0.071944839848366232},
    {{ActivationKind::swish, 1, 0}, -1.5, -0.27363828570953451},
    {{ActivationKind::swish, 1, 0}, -0.25, -0.10945587477855047},
    {{ActivationKind::swish, 1, 0}, 0, 0.0},
    {{ActivationKind::swish, 1, 0}, 0.75, 0.50938402438154473},
    {{ActivationKind::swish, 1, 0}, 2.5, 2.3103545499468911},
    {{ActivationKind::swish, 1, 0}, 7, 6.9936226416391955},
    {{ActivationKind::swish, 1.5, 0}, -4, -0.0098904926265390973},
    {{ActivationKind::swish, 1.5, 0}, -1.5, -0.14302419734866424},
    {{ActivationKind::swish, 1.5, 0}, -0.25, -0.10183335001148256},
    {{ActivationKind::swish, 1.5, 0}, 0, 0.0},
    {{ActivationKind::swish, 1.5, 0}, 0.75, 0.56618624015072122},
    {{ActivationKind::swish, 1.5, 0}, 2.5, 2.442556575224936},
    {{ActivationKind::swish, 1.5, 0}, 7, 6.9998072501621979},
    {{ActivationKind::hard_swish, 0, 0}, -4, 0.0},
    {{ActivationKind::hard_swish, 0, 0}, -1.5, -0.375},
    {{ActivationKind::hard_swish, 0, 0}, -0.25, -0.11458333333333333},
    {{ActivationKind::hard_swish, 0, 0}, 0, 0.0},
    {{ActivationKind::hard_swish, 0, 0}, 0.75, 0.46875},
    {{ActivationKind::hard_swish, 0, 0}, 2.5, 2.2916666666666667},
    {{ActivationKind::hard_swish, 0, 0}, 7, 7.0},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, -4, 0.0},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, -1.5, 0.3125},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, -0.25, 0.46875},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, 0, 0.5},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, 0.75, 0.59375},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, 2.5, 0.8125},
    {{ActivationKind::hard_sigmoid, 0.125, 0.5}, 7, 1},
    {{ActivationKind::gelu, 0, 0}, -4, -0.00012668496733247969},
    {{ActivationKind::gelu, 0, 0}, -1.5, -0.1002108019032871},
    {{ActivationKind::gelu, 0, 0}, -0.25, -0.10032341857926907},
    {{ActivationKind::gelu, 0, 0}, 0, 0.0},
    {{ActivationKind::gelu, 0, 0}, 0.75, 0.58002948571734885},
    {{ActivationKind::gelu, 0, 0}, 2.5, 2.4844758366855597},
    {{ActivationKind::gelu, 0, 0}, 7, 6.9999999999910413},
    {{ActivationKind::gelu_tanh, 0, 0}, -4, -7.024594819237269e-5},
    {{ActivationKind::gelu_tanh, 0, 0}, -1.5, -0.10042842301976708},
    {{ActivationKind::gelu_tanh, 0, 0}, -0.25, -0.100324649298315},
    {{ActivationKind::gelu_tanh, 0, 0}, 0, 0.0},
    {{ActivationKind::gelu_tanh, 0, 0}, 0.75, 0.5799605551656203},
    {{ActivationKind::gelu_tanh, 0, 0}, 2.5, 2.4849157339100014},
    {{ActivationKind::gelu_tanh, 0, 0}, 7, 6.9999999999999977},
    {{ActivationKind::mish, 0, 0}, -4, -0.072591740792025358},
    {{ActivationKind::mish, 0, 0}, -1.5, -0.29809974216680676},
    {{ActivationKind::mish, 0, 0}, -0.25, -0.12992696367914101},
    {{ActivationKind::mish, 0, 0}, 0, 0.0},
    {{ActivationKind::mish, 0, 0}, 0.75, 0.61001833521829339},
    {{ActivationKind::mish, 0, 0}, 2.5, 2.4713923045578811},
    {{ActivationKind::mish, 0, 0}, 7, 6.9999883798097415},
};

TEST(OracleActivation, LiteralValues) {
  bool seen[static_cast<int>(ActivationKind::mish) + 1] = {};
  for (const Row& row : rows) {
    EXPECT_NEAR(activate(row.activation, row.v, 0.25), row.expected, 1e-12 * std::max(1.0, std::abs(row.expected)))
        << name_of(row.activation.kind) << " of " << row.v;
    seen[static_cast<int>(row.activation.kind)] = true;
  }
  for (const bool kind : seen) EXPECT_TRUE(kind);
}

TEST(OracleActivation, ExtremesStayFinite) {
  using enum ActivationKind;
  for (const double v : {1000.0, -1000.0}) {
    for (const auto kind : {sigmoid, tanh, swish, hard_swish, gelu, gelu_tanh, mish}) {
      const double result = activate({kind, kind == swish ? 1.0 : 0.0, 0}, v);
      EXPECT_NEAR(result,
                  kind == sigmoid ? v > 0
                  : kind == tanh  ? (v > 0 ? 1 : -1)
                  : v > 0         ? v
                                  : 0,
                  1e-9)
          << name_of(kind) << " of " << v;
    }
  }
  EXPECT_EQ(activate({elu, 1.5, 0}, -1000), -1.5);
  EXPECT_TRUE(std::isnan(activate({relu, 0, 0}, std::nan(""))));
}

TEST(OracleActivation, InTheFormulasOrder) {
  // act(alpha*conv + beta*out + bias + gamma*z) = relu(2*3 + 1*1 - 10 + 2*1) = relu(-1), and with bias -8: 1.
  EXPECT_EQ(run("fprop:x=f32,1x1x1:w=f32,2x1x1:alpha=2:beta=1:bias=1:gamma=2:act=relu",
                {.x = {1}, .w = {3, 3}, .out = {1, 1}, .z = {1, 1}, .bias = {-10, -8}}),
            (Values{0, 1}));
}

TEST(OracleActivation, PreluHasASlopeForEachChannel) {
  EXPECT_EQ(run("fprop:x=f32,1x1x2:w=f32,2x1x1:act=prelu", {.x = {-4, 4}, .w = {1, 1}, .slopes = {0.5F, -2}}),
            (Values{-2, 4, 8, 4}));
  EXPECT_EQ(run("wgrad:x=f32,1x1x1:w=f32,2x1x1:y=f32,1x2x1:act=prelu", {.x = {1}, .y = {-4, -4}, .slopes = {0.5F, -2}}),
            (Values{-2, 8}));
}

TEST(OracleRequantize, AFloatBiasIsInUnitsOfTheSum) {
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=s8,2x1x1:y=f32,1x2x2:bias=f32:requant=channel:act=relu",
                {.x = {3, 5}, .w = {2, -2}, .bias = {0.25, 7.5}, .scales = {1, 2}}),
            (Values{6.25, 10.25, 3, 0}));
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=s8,1x1x1:y=u8,1x1x2:bias=f32:requant=tensor",
                {.x = {3, 4}, .w = {1}, .bias = {0.75}, .scales = {4}}),
            (Values{15, 19}));
}

// What is added to the sum does not wrap, but is kept within s32.
TEST(OracleRequantize, ABiasSaturates) {
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=s8,2x1x1:y=s32,1x2x2:bias=1",
                {.x = {1, 3}, .w = {1, -1}, .bias = {2147483646, -2147483646}}),
            (Values{2147483647, 2147483647, -2147483647, -2147483648}));
}

TEST(OracleRequantize, TiesGoToEvenBeforeTheZeroPoint) {
  // v*scale = -2.5 -1.5 -0.5 0.5 1.5 2.5 3.5
  const Literals literals{.x = {-5, -3, -1, 1, 3, 5, 7}, .w = {1}, .scales = {0.5F}};
  EXPECT_EQ(run("fprop:x=s8,1x1x7:w=s8,1x1x1:y=s8,1x1x7:requant=tensor", literals), (Values{-2, -2, 0, 0, 2, 2, 4}));
  EXPECT_EQ(run("fprop:x=s8,1x1x7:w=s8,1x1x1:y=s8,1x1x7:requant=tensor:zp=0,0,1", literals),
            (Values{-1, -1, 1, 1, 3, 3, 5}));
}

TEST(OracleRequantize, SaturatesAfterTheZeroPoint) {
  EXPECT_EQ(run("fprop:x=s8,1x1x3:w=s8,1x1x1:y=u8,1x1x3:requant=tensor:zp=0,0,10",
                {.x = {-100, 100, 2}, .w = {10}, .scales = {1}}),
            (Values{0, 255, 30}));
  EXPECT_EQ(run("fprop:x=s8,1x1x3:w=s8,1x1x1:y=s8,1x1x3:requant=tensor:zp=0,0,-100",
                {.x = {-100, 100, 20}, .w = {10}, .scales = {1}}),
            (Values{-128, 127, 100}));
}

TEST(OracleRequantize, ResidualMeetsRoundedAndSaturatedBytes) {
  // v*scale = 1.5 2.5 -4 4, t = 2 2 0 4; t*0.5 + (z - 4)*0.25 = 1 + 0.5, 1 - 1, 0 + 1, 2 + 0.
  EXPECT_EQ(run("fprop:x=s8,1x1x4:w=s8,1x1x1:y=u8,1x1x4:requant=tensor:residual=0.5,0,0.25,4:zp=0,0,10",
                {.x = {3, 5, -8, 8}, .w = {1}, .z = {6, 0, 8, 4}, .scales = {0.5F}}),
            (Values{12, 10, 11, 12}));
  // With a zero point of t: t - 100 = -100 and 155 where it saturates, and the sum saturates, too.
  EXPECT_EQ(run("fprop:x=s8,1x1x4:w=s8,1x1x1:y=u8,1x1x4:requant=tensor:residual=1,100,2,0:zp=0,0,5",
                {.x = {-127, 127, -127, 127}, .w = {100}, .z = {60, 0, 0, 100}, .scales = {1}}),
            (Values{25, 160, 0, 255}));
}

TEST(OracleRequantize, PerChannelToFloatAndWithout) {
  EXPECT_EQ(
      run("fprop:x=u8,1x1x1:w=s8,2x1x1:y=s8,1x2x1:requant=channel", {.x = {20}, .w = {1, 1}, .scales = {0.5F, 2}}),
      (Values{10, 40}));
  EXPECT_EQ(run("fprop:x=u8,1x1x1:w=s8,2x1x1:y=f32,1x2x1:requant=channel:bias=1",
                {.x = {20}, .w = {1, 1}, .bias = {1, 2}, .scales = {0.5F, 0.25F}}),
            (Values{10.5, 5.5}));
  // Without: saturates to out's type.
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=s8,1x1x1:y=s8,1x1x2", {.x = {200, 3}, .w = {-2}}), (Values{-128, -6}));
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=s8,1x1x1:y=s32,1x1x2", {.x = {200, 3}, .w = {-2}}), (Values{-400, -6}));
}

TEST(OracleIntegers, ZeroPointsGivenAtExecution) {
  // (x - 3)*(w - z): x = 5 4 gives 2 1; w = 2 3 and z = 1 gives 1 2, w = 2 3 and z = 4 gives -2 -1.
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=s8,2x1x2:y=s32,1x2x3:pad=1:zp=given,given,0",
                {.x = {5, 4}, .w = {2, 3, 2, 3}, .x_zero = {3}, .w_zeros = {1, 4}}),
            (Values{4, 4, 1, -2, -5, -2}));
}

TEST(OracleIntegers, ZeroPointsAndPaddingThatIsTheZeroPoint) {
  // (x - 3)*(w - 1): x = 5 4 gives 2 1, w = 2 3 gives 1 2; padding contributes nothing.
  EXPECT_EQ(run("fprop:x=u8,1x1x2:w=u8,1x1x2:y=s32,1x1x3:pad=1/1:zp=3,1,0", {.x = {5, 4}, .w = {2, 3}}),
            (Values{2 * 2, 1 * 2 + 2 * 1, 1 * 1}));
}

TEST(OracleIntegers, SumsWrapAtThirtyTwoBits) {
  // 66,052 products of 255*-128 = -32,640 are -2,155,937,280, which is 2,139,030,016 modulo 2^32.
  constexpr std::int64_t n = 66052;
  static_assert(n * -32640 + (std::int64_t{1} << 32) == 2139030016);
  EXPECT_EQ(run("fprop:x=u8,1x66052x1:w=s8,1x66052x1:y=s32,1x1x1", {.x = Values(n, 255), .w = Values(n, -128)}),
            (Values{2139030016}));
}

}  // namespace
}  // namespace convoy::reference_testing
