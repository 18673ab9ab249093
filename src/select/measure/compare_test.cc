#include "select/measure/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engines/reference/reference.h"
#include "select/measure/problem_data.h"

namespace convoy::selection {
namespace {

// An output as the oracle says it, and what other right ones may differ by.
class CompareWhole : public ::testing::Test {
 protected:
  void make(const char* text, float scale_of_channel_3 = 1) {
    problem_ = *parse_problem(text);
    data_ = *ProblemData::make(problem_, 1);
    const std::int64_t taps = problem_.w.elements() / problem_.w.dims[0];
    if (scale_of_channel_3 != 1) {
      for (std::int64_t i = 0; i < taps; ++i) data_.w.as<float>()[3 * taps + i] *= scale_of_channel_3;
    }
    expected_ = *HostTensor::allocate(problem_.out());
    actual_ = *HostTensor::allocate(problem_.out());
    PlanRequest request;
    const auto oracle = reference_engine().plan(problem_, {}, request);
    ASSERT_TRUE(oracle.ok()) << oracle.error().message;
    ASSERT_TRUE((*oracle)->execute(data_.args(expected_.data.get()), {*team_}).ok());
    std::memcpy(actual_.data.get(), expected_.data.get(), static_cast<std::size_t>(expected_.desc.bytes()));
    // A sample, as of problems that are compared whole.
    const Expectation expectation(problem_, data_.args(nullptr), {.full_terms = 0, .samples = 512}, *team_);
    ASSERT_FALSE(expectation.full());
    tolerances_ = expectation.tolerances(Arithmetic::direct);
  }
  OutputDifference compare() const { return compare_whole(expected_, actual_, tolerances_, *team_); }
  float& at(const Dims& where) { return actual_.as<float>()[problem_.out().offset(where.data())]; }

  ConvProblem problem_;
  ProblemData data_;
  HostTensor expected_, actual_;
  std::vector<double> tolerances_;
  std::unique_ptr<ThreadTeam> team_ = make_cpu_team(2);
};

TEST_F(CompareWhole, EachChannelHasItsOwnTolerance) {
  make("fprop:x=f32,1x64x20x20,nhwc:w=f32,8x64x1x1:bias=1", 1e5F);
  EXPECT_EQ(compare().max_error, 0);
  ASSERT_EQ(tolerances_.size(), 8u);
  EXPECT_GT(tolerances_[3], 1e4 * tolerances_[2]);
  for (const std::int64_t channel : {2, 3}) {
    const Dims where = {0, channel, 7, 5};
    const double tolerance = tolerances_[static_cast<std::size_t>(channel)];
    const float right = at(where);
    at(where) = right + static_cast<float>(4 * tolerance);
    const OutputDifference fault = compare();
    EXPECT_NEAR(fault.max_error, 2, 0.1);
    EXPECT_EQ(fault.worst, problem_.out().offset(where.data()));
    at(where) = right + static_cast<float>(1.5 * tolerance);  // two right ones on either side of the exact value
    EXPECT_LE(compare().max_error, 1);
    at(where) = right;
  }
}

// The output may be far smaller than the sums that it is of: what is allowed follows from those. (It followed from the
// largest output, which relu6 keeps at 6.)
TEST_F(CompareWhole, WhatIsCutOffStillHasTheErrorOfItsSum) {
  make("fprop:x=f32,1x64x20x20,nhwc:w=f32,8x64x1x1:bias=1:act=clip,0,6", 1e5F);
  EXPECT_GT(tolerances_[3], 10 * 65 * 0x1p-24 * 6);
}

// What an output in 16 bits loses by rounding is its own, not that of the elements in the sample.
TEST_F(CompareWhole, EachElementHasItsOwnRounding) {
  make("fprop:x=f16,1x16x20x20,nhwc:w=f16,8x16x1x1,nhwc");
  const std::int64_t i = problem_.out().offset(Dims{0, 2, 7, 5}.data());
  store_from_double(DataType::f16, expected_.data.get(), i, 33.40625);  // neighbours in f16, far above the others
  store_from_double(DataType::f16, actual_.data.get(), i, 33.4375);
  EXPECT_LE(compare().max_error, 1);
  store_from_double(DataType::f16, actual_.data.get(), i, 33.53125);
  EXPECT_GT(compare().max_error, 1);
}

TEST_F(CompareWhole, NanPaddingAndGapsAreWrong) {
  make("fprop:x=f32,1x16x20x20:w=f32,12x16x1x1:y=f32,1x12x20x20,nchw8c");
  at({0, 4, 3, 3}) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(compare().max_error));
  expected_.as<float>()[problem_.out().offset(Dims{0, 4, 3, 3}.data())] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compare().max_error, 0);
  const std::int64_t padding = problem_.out().offset(Dims{0, 11, 3, 3}.data()) + 1;  // of channel 12
  actual_.as<float>()[padding] = 1e-30F;
  EXPECT_TRUE(std::isinf(compare().max_error));
  EXPECT_EQ(compare().worst, padding);
}

TEST_F(CompareWhole, ExactIntegersMustBeTheSame) {
  problem_ = *parse_problem("fprop:x=u8,1x16x20x20,nhwc:w=s8,8x16x3x3:y=s32,1x8x18x18,nhwc");
  expected_ = *HostTensor::zeros(problem_.out());
  actual_ = *HostTensor::zeros(problem_.out());
  const std::vector<double> exact(8, 0);
  EXPECT_EQ(compare_whole(expected_, actual_, exact, *team_).max_error, 0);
  actual_.as<std::int32_t>()[77] = 1;
  EXPECT_GT(compare_whole(expected_, actual_, exact, *team_).max_error, 1);
}

}  // namespace
}  // namespace convoy::selection
