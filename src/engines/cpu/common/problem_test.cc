#include "engines/cpu/common/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engines/cpu/common/packed_plan.h"

namespace convoy::cpu {
namespace {

ConvProblem small_problem(ConvMode mode) {
  ConvProblem p;
  p.x = TensorDesc::packed(DataType::f32, {2, 4, 9, 10}, Layout::nhwc);
  p.w = TensorDesc::packed(DataType::f32, {6, 2, 3, 5});
  p.pre_padding = {1, 2};
  p.post_padding = {0, 2};
  p.stride = {2, 1};
  p.dilation = {1, 1};
  p.groups = 2;
  p.mode = mode;
  p.y = TensorDesc::packed(DataType::f32, {2, 6, 4, 10}, Layout::nhwc);
  return p;
}

TEST(FlatGeometry, PadsMissingDimsInFront) {
  const ConvGeometry g = flat_geometry(small_problem(ConvMode::cross_correlation));
  EXPECT_EQ(g.x_size[0], 1);
  EXPECT_EQ(g.x_size[1], 9);
  EXPECT_EQ(g.y_size[2], 10);
  EXPECT_EQ(g.filter[0], 1);
  EXPECT_EQ(g.taps, 15);
  EXPECT_EQ(g.stride[1], 2);
  EXPECT_EQ(g.pre[2], 2);
  EXPECT_EQ(g.post[1], 0);
  EXPECT_EQ(g.group_channels, 2);
  EXPECT_EQ(g.group_filters, 3);
  EXPECT_EQ(g.x.spatial[0], 0);
  EXPECT_EQ(g.x.spatial[1], 40);
  EXPECT_EQ(g.x.spatial[2], 4);
  EXPECT_EQ(g.x.channel, 1);
  EXPECT_EQ(g.w.origin, 0);
  EXPECT_EQ(g.w.out, 30);
}

TEST(FlatGeometry, FlippedFiltersRunBackwards) {
  const ConvGeometry g = flat_geometry(small_problem(ConvMode::convolution));
  EXPECT_EQ(g.w.origin, 14);
  EXPECT_EQ(g.w.spatial[1], -5);
  EXPECT_EQ(g.w.spatial[2], -1);
}

TEST(BestRow, TakesTheHighestThatIsAllowed) {
  const int low = 1, high = 2;
  const IsaRow<int> rows[] = {{Isa::avx512, &high}, {Isa::avx2, &low}};
  EXPECT_EQ(best_row<int>(rows, Isa::avx512), &high);
  EXPECT_EQ(best_row<int>(rows, Isa::avx2), &low);
  EXPECT_EQ(best_row<int>(rows, Isa::portable), nullptr);
}

// Packs one float: the negated first weight; run copies it to out.
class NegatePlan : public PackedPlan {
 public:
  NegatePlan() : PackedPlan(ConvProblem{}, Candidate{"test.negate", {}}, 1, sizeof(float), 4) {}

 private:
  void pack(const void* weights, void* packed, ThreadTeam*) const override {
    *static_cast<float*>(packed) = -*static_cast<const float*>(weights);
  }
  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam&) const override {
    *static_cast<float*>(scratch) = 0;
    *static_cast<float*>(args.out) = *static_cast<const float*>(packed);
    return {};
  }
};

class OneThread : public ThreadTeam {
 public:
  explicit OneThread(int size = 1) : size_(size) {}
  int size() const override { return size_; }
  void run(FunctionRef<void(int)> body) override { body(0); }

 private:
  int size_;
};

TEST(PackedPlan, KeepsConstantWeightsAndPacksOthersEachTime) {
  float weight = 3, out = NAN;
  OneThread team;
  alignas(64) float workspace[64];
  ConvArgs args;
  args.w = &weight;
  args.out = &out;

  NegatePlan constant;
  ASSERT_TRUE(constant.keep(&weight).ok());
  EXPECT_EQ(constant.workspace_bytes(), 64u);
  EXPECT_EQ(constant.retained_bytes(), 64u);
  NegatePlan variable;
  EXPECT_EQ(variable.workspace_bytes(), 128u);
  EXPECT_EQ(variable.retained_bytes(), 0u);

  weight = 5;
  std::fill(std::begin(workspace), std::end(workspace), NAN);
  ASSERT_TRUE(constant.execute(args, {team, workspace, sizeof workspace}).ok());
  EXPECT_EQ(out, -3);
  ASSERT_TRUE(variable.execute(args, {team, workspace, sizeof workspace}).ok());
  EXPECT_EQ(out, -5);
}

// Reads no weights: the windows of its problem lie in padding.
class PaddingPlan : public PackedPlan {
 public:
  explicit PaddingPlan(const ConvProblem& problem)
      : PackedPlan(problem, Candidate{"test.padding", {}}, 1, 0, 0, /*mixes_groups=*/true) {}

 private:
  void pack(const void*, void*, ThreadTeam*) const override {}
  Result<void> run(const ConvArgs& args, const void*, void*, ThreadTeam&) const override {
    std::fill_n(static_cast<float*>(args.out), 2, NAN);
    return {};
  }
};

TEST(PackedPlan, KeepsConstantWeightsThatNoWindowReads) {
  const auto problem = parse_problem("dgrad:x=f32,1x1x1x2:w=f32,1x1x1x3:y=f32,1x1x1x1:pad=0x3/0x1:stride=1x4");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const float weights[3] = {1, 2, 3}, y = 4;
  float x[2];
  PaddingPlan plan(*problem);
  ASSERT_TRUE(plan.keep(weights).ok());
  OneThread team;
  ConvArgs args;  // without w
  args.y = &y;
  args.out = x;
  ASSERT_TRUE(plan.execute(args, {team, nullptr, 0}).ok());
  EXPECT_EQ(x[0], 0);
}

TEST(PackedPlan, RefusesASmallWorkspaceAndALargerTeam) {
  NegatePlan plan;
  OneThread one, two(2);
  alignas(64) float workspace[64];
  float value = 1;
  ConvArgs args;
  args.w = &value;
  args.out = &value;
  const auto small = plan.execute(args, {one, workspace, 127});
  ASSERT_FALSE(small.ok());
  EXPECT_NE(small.error().message.find("workspace_bytes=127"), std::string::npos);
  EXPECT_FALSE(plan.execute(args, {two, workspace, sizeof workspace}).ok());
}

}  // namespace
}  // namespace convoy::cpu
