// Vector math and the fused epilogue against double precision, under every instruction set this processor has.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "convoy/cpu.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/simd/testing/kernels.h"

namespace convoy::cpu {
namespace {

struct IsaCase {
  Isa isa;
  const SimdTestKernels* kernels;
};

class Simd : public testing::TestWithParam<IsaCase> {
 protected:
  void SetUp() override {
    if (cpu_features().isa < GetParam().isa) GTEST_SKIP() << "this processor has no " << name_of(GetParam().isa);
  }
  const SimdTestKernels& kernels() const { return *GetParam().kernels; }
};

double plain_activation(const Activation& act, double v, double slope) {
  switch (act.kind) {
    case ActivationKind::identity:
      return v;
    case ActivationKind::relu:
      return std::fmax(v, 0);
    case ActivationKind::clip:
      return std::fmin(std::fmax(v, act.a), act.b);
    case ActivationKind::leaky_relu:
      return v >= 0 ? v : act.a * v;
    case ActivationKind::prelu:
      return v >= 0 ? v : slope * v;
    case ActivationKind::elu:
      return v >= 0 ? v : act.a * std::expm1(v);
    case ActivationKind::sigmoid:
      return 1 / (1 + std::exp(-v));
    case ActivationKind::tanh:
      return std::tanh(v);
    case ActivationKind::swish:
      return v / (1 + std::exp(-act.a * v));
    case ActivationKind::hard_swish:
      return v * std::fmin(std::fmax(v / 6 + 0.5, 0), 1);
    case ActivationKind::hard_sigmoid:
      return std::fmin(std::fmax(act.a * v + act.b, 0), 1);
    case ActivationKind::gelu:
      return v * (1 + std::erf(v / std::sqrt(2.0))) / 2;
    case ActivationKind::gelu_tanh:
      return v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))) / 2;
    case ActivationKind::mish:
      return v * std::tanh(std::log1p(std::exp(v)));
  }
  return NAN;
}

std::vector<float> sample_values() {
  std::vector<float> values;
  for (double v = -110; v <= 95; v += 0.0137) values.push_back(static_cast<float>(v));
  for (double v = 1e-30; v < 2; v *= 1.07) {
    values.push_back(static_cast<float>(v));
    values.push_back(static_cast<float>(-v));
  }
  return values;
}

TEST_P(Simd, ExpIsWithinThreeUlp) {
  const std::vector<float> in = sample_values();
  std::vector<float> out(in.size());
  kernels().exp(in.data(), out.data(), static_cast<std::int64_t>(in.size()));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double want = std::exp(static_cast<double>(in[i]));
    if (want > std::numeric_limits<float>::max()) {
      EXPECT_EQ(out[i], std::numeric_limits<float>::infinity()) << in[i];
    } else {
      EXPECT_NEAR(out[i], want, 3 * std::ldexp(want, -23) + std::numeric_limits<float>::min()) << in[i];
      EXPECT_NE(std::fpclassify(out[i]), FP_SUBNORMAL) << in[i];
    }
  }
}

TEST_P(Simd, ExpKeepsNanAndInfinities) {
  const float inf = std::numeric_limits<float>::infinity();
  const float in[3] = {NAN, inf, -inf};
  float out[3];
  kernels().exp(in, out, 3);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], inf);
  EXPECT_EQ(out[2], 0.0f);
}

TEST_P(Simd, SumsLanes) {
  std::vector<float> in(16);
  for (int i = 0; i < 16; ++i) in[static_cast<std::size_t>(i)] = static_cast<float>(1 << i);
  EXPECT_EQ(kernels().sum(in.data()), static_cast<float>((1 << kernels().lanes) - 1));
}

const Activation kActivations[] = {
    {ActivationKind::identity},
    {ActivationKind::relu},
    {ActivationKind::clip, -0.5, 6},
    {ActivationKind::leaky_relu, 0.1},
    {ActivationKind::prelu},
    {ActivationKind::elu, 1.3},
    {ActivationKind::sigmoid},
    {ActivationKind::tanh},
    {ActivationKind::swish, 1},
    {ActivationKind::hard_swish},
    {ActivationKind::hard_sigmoid, 0.2, 0.5},
    {ActivationKind::gelu},
    {ActivationKind::gelu_tanh},
    {ActivationKind::mish},
};

// Of their results, however small these are, down to the least normal numbers.
TEST_P(Simd, FunctionsAreWithinFourUlp) {
  const std::vector<float> in = sample_values();
  for (const Activation& act :
       {Activation{ActivationKind::sigmoid}, Activation{ActivationKind::tanh}, Activation{ActivationKind::swish, 1}}) {
    ConvProblem problem;
    problem.epilogue.activation = act;
    std::vector<float> out(in.size());
    const EpilogueArgs e = make_epilogue(problem, {});
    kernels().finish_channels(in.data(), e, out.data(), nullptr, std::ssize(in));
    for (std::size_t i = 0; i < in.size(); ++i) {
      Activation as_given = act;
      as_given.a = static_cast<float>(act.a);
      const double want = plain_activation(as_given, in[i], 0);
      const double least = 128 * static_cast<double>(std::numeric_limits<float>::min());  // e^-87, times 87
      ASSERT_NEAR(out[i], want, 4 * std::ldexp(std::fabs(want), -23) + least) << name_of(act.kind) << " " << in[i];
    }
  }
}

// Bias, residual, alpha, beta and each activation, per channel and per position, full vectors and tails; NaN beside the
// valid output must stay.
TEST_P(Simd, EpilogueMatchesDouble) {
  const std::vector<float> acc = sample_values();
  const auto count = static_cast<std::int64_t>(acc.size());
  std::vector<float> bias(acc.size()), z(acc.size()), slopes(acc.size()), old(acc.size());
  for (std::size_t i = 0; i < acc.size(); ++i) {
    bias[i] = static_cast<float>(static_cast<int>(i % 7) - 3) * 0.25f;
    z[i] = static_cast<float>(static_cast<int>(i % 5) - 2) * 0.5f;
    slopes[i] = static_cast<float>(i % 3) * 0.1f;
    old[i] = static_cast<float>(static_cast<int>(i % 11) - 5) * 0.125f;
  }
  for (const Activation& act : kActivations) {
    for (int variant = 0; variant < 4; ++variant) {
      ConvProblem problem;
      problem.epilogue.activation = act;
      problem.epilogue.bias = variant & 1;
      problem.epilogue.gamma = variant >= 2 ? 0.5 : 0;
      problem.alpha = variant == 3 ? 0.75 : 1;
      problem.beta = variant == 3 ? 2 : 0;
      ConvArgs args;
      args.bias = bias.data();
      args.slopes = slopes.data();
      const EpilogueArgs e = make_epilogue(problem, args);
      for (bool by_channel : {true, false}) {
        std::vector<float> out(acc.size() + 1, NAN);
        if (problem.beta != 0) std::copy(old.begin(), old.end(), out.begin());
        if (by_channel) {
          kernels().finish_channels(acc.data(), e, out.data(), z.data(), count);
        } else {
          kernels().finish_positions(acc.data(), e, 6, out.data(), z.data(), count);
        }
        ASSERT_TRUE(std::isnan(out.back()));
        for (std::size_t i = 0; i < acc.size(); ++i) {
          const std::size_t c = by_channel ? i : 6;
          double v = problem.alpha * acc[i] + problem.epilogue.gamma * z[i];
          if (problem.epilogue.bias) v += bias[c];
          if (problem.beta != 0) v += problem.beta * old[i];
          const double want = plain_activation(act, v, slopes[c]);
          const double scale = std::fabs(want) + (std::fabs(acc[i]) + 3) * (variant ? 1 : 0.25);
          ASSERT_NEAR(out[i], want, 4 * std::ldexp(scale, -23))
              << name_of(act.kind) << " acc=" << acc[i] << " variant=" << variant << " by_channel=" << by_channel;
        }
      }
    }
  }
}

TEST_P(Simd, AColumnHasTheBitsOfItsVectors) {
  const std::int64_t lanes = kernels().lanes;
  const std::vector<std::int64_t> places = {2 * lanes + 1, -1, 0, 4 * lanes + 2};
  std::vector<float> acc(places.size() * lanes), old(6 * lanes), z(6 * lanes), bias(lanes + 3), slopes(lanes + 3);
  for (std::size_t i = 0; i < acc.size(); ++i) acc[i] = static_cast<float>(static_cast<int>(i % 13) - 6) * 0.7f;
  for (std::size_t i = 0; i < old.size(); ++i) old[i] = z[i] = static_cast<float>(static_cast<int>(i % 5) - 2) * 0.5f;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = slopes[i] = static_cast<float>(i) * 0.1f;
  for (const Activation& act : kActivations) {
    for (const bool reads : {false, true}) {
      ConvProblem problem;
      problem.epilogue.activation = act;
      problem.epilogue.bias = reads;
      problem.epilogue.gamma = reads ? 0.5 : 0;
      problem.beta = reads ? 2 : 0;
      ConvArgs args;
      args.bias = bias.data();
      args.slopes = slopes.data();
      const EpilogueArgs whole = make_epilogue(problem, args);
      EpilogueArgs later = whole;  // finish_channels begins at channel 0
      if (whole.bias != nullptr) later.bias += 3;
      if (whole.slopes != nullptr) later.slopes += 3;
      for (const auto n : {static_cast<int>(lanes), 3}) {
        std::vector<float> out = old, want = old;
        kernels().finish_column(acc.data(), whole, 3, n, out.data(), z.data(), places.data(), std::ssize(places));
        for (std::size_t i = 0; i < places.size(); ++i) {
          if (places[i] < 0) continue;
          kernels().finish_channels(acc.data() + i * lanes, later, want.data() + places[i], z.data() + places[i], n);
        }
        ASSERT_EQ(out, want) << name_of(act.kind) << " reads=" << reads << " lanes=" << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Simd,
                         testing::Values(IsaCase{Isa::avx2, &avx2::test_kernels},
                                         IsaCase{Isa::avx512, &avx512::test_kernels}),
                         [](const auto& info) { return std::string(name_of(info.param.isa)); });

}  // namespace
}  // namespace convoy::cpu
