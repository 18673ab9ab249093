#include "ops/support.h"

#include <gtest/gtest.h>

namespace convoy::ops {
namespace {

TEST(NodeDesc, AttributesAreTypeChecked) {
  NodeDesc node;
  node.op = "Flatten";
  node.attributes["axis"] = std::int64_t{2};
  EXPECT_EQ(*node.integer("axis", 1), 2);
  EXPECT_EQ(*node.integer("other", 7), 7);
  const auto wrong = node.real("axis", 0);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "Flatten: attribute 'axis' is given as an integer, it must be a real number");
}

TEST(Table, FindsOperators) {
  EXPECT_NE(find_operator("", "Relu"), nullptr);
  EXPECT_EQ(find_operator("ai.onnx", "Relu"), find_operator("", "Relu"));
  EXPECT_EQ(find_operator("com.example", "Relu"), nullptr);
  EXPECT_EQ(find_operator("", "NoSuchOperator"), nullptr);
}

TEST(BroadcastLoop, MergesWhatIsContiguous) {
  const TensorDesc out = TensorDesc::packed(DataType::f32, {2, 3, 4, 5}, Layout::nhwc);
  const TensorDesc channel = TensorDesc::packed(DataType::f32, {3, 1, 1});
  const BroadcastLoop same({out, out});
  EXPECT_EQ(same.inner_size(), 120);
  const BroadcastLoop per_channel({out, channel});
  EXPECT_EQ(per_channel.inner_size(), 3);
  EXPECT_EQ(per_channel.inner_stride(1), 1);
  const BroadcastLoop planar({out.with_layout(Layout::nchw), channel});
  EXPECT_EQ(planar.inner_size(), 20);
  EXPECT_EQ(planar.inner_stride(1), 0);
}

// Any split of the visiting order must visit the same pairs of offsets as going through the coordinates.
TEST(BroadcastLoop, VisitsEveryElementOnceForAnySplit) {
  const TensorDesc out = TensorDesc::packed(DataType::f32, {2, 3, 4, 5}, Layout::nhwc);
  const TensorDesc operand = TensorDesc::packed(DataType::f32, {3, 1, 5});
  const BroadcastLoop loop({out, operand});
  std::vector<std::int64_t> expected(120);
  for (std::int64_t n = 0, i = 0; n < 2; ++n) {
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t h = 0; h < 4; ++h) {
        for (std::int64_t w = 0; w < 5; ++w, ++i) {
          const std::int64_t coords[] = {n, c, h, w};
          expected[out.offset(coords)] = c * 5 + w;
        }
      }
    }
  }
  for (const std::int64_t step : {1, 2, 7, 50, 120}) {
    std::vector<std::int64_t> seen(120, -1);
    for (std::int64_t begin = 0; begin < 120; begin += step) {
      loop.run(begin, std::min<std::int64_t>(begin + step, 120), [&](const std::int64_t* at, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          std::int64_t& slot = seen[at[0] + i * loop.inner_stride(0)];
          EXPECT_EQ(slot, -1);
          slot = at[1] + i * loop.inner_stride(1);
        }
      });
    }
    EXPECT_EQ(seen, expected) << "step " << step;
  }
}

TEST(Support, AxesAndBroadcastErrorsNameTheValues) {
  NodeDesc node;
  node.op = "Concat";
  EXPECT_EQ(*normalize_axis(node, -1, 4, "axis"), 3);
  EXPECT_EQ(normalize_axis(node, 4, 4, "axis").error().message,
            "Concat: axis=4 is outside [-4, 4) for a tensor of rank 4");
  EXPECT_EQ(*normalize_axis(node, 4, 4, "axis", 1), 4);
  const std::vector<std::int64_t> twice = {1, -3};
  EXPECT_EQ(normalize_axes(node, twice, 4).error().message, "Concat: axes[1]=-3 is given twice");
  const Dims shapes[] = {{2, 3}, {4, 1, 3}};
  EXPECT_EQ(*broadcast_dims(node, shapes), (Dims{4, 2, 3}));
  const Dims clash[] = {{2, 3}, {4, 4}};
  EXPECT_FALSE(broadcast_dims(node, clash).ok());
}

TEST(Support, ReadsConstantsOfAnyLayout) {
  NodeDesc node;
  node.op = "Reshape";
  const std::int32_t values[] = {1, 2, 3, 4};
  Input input{true, TensorDesc::packed(DataType::s32, {1, 2, 2}, Layout::nhwc), values};
  EXPECT_EQ(*constant_integers(node, {&input, 1}, 0), (std::vector<std::int64_t>{1, 3, 2, 4}));
  EXPECT_EQ(*constant_reals(node, {&input, 1}, 0), (std::vector<double>{1, 3, 2, 4}));
  input.constant = nullptr;
  EXPECT_EQ(constant_integers(node, {&input, 1}, 0).error().code, ErrorCode::unsupported);
}

TEST(Support, OutputsThatOverflowAreRefused) {
  NodeDesc node;
  node.op = "Expand";
  EXPECT_FALSE(make_output(node, DataType::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40}).ok());
  EXPECT_FALSE(make_output(node, DataType::f32, {2, -1}).ok());
}

}  // namespace
}  // namespace convoy::ops
