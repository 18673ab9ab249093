#include "convert/problem.h"

#include <gtest/gtest.h>

#include <random>

namespace convoy {
namespace {

constexpr Layout kPacked[] = {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c};

TEST(ConversionProblem, Prints) {
  const TensorDesc x = TensorDesc::packed(DataType::f32, {1, 64, 56, 56});
  EXPECT_EQ(print(ConversionProblem{x, x.with_layout(Layout::nhwc)}),
            "convert:x=f32,1x64x56x56,nchw:y=f32,1x64x56x56,nhwc");
}

TEST(ConversionProblem, PrintedAndParsedIsTheSame) {
  std::mt19937_64 random(5);
  constexpr DataType kTypes[] = {DataType::f32, DataType::bf16, DataType::f16, DataType::u8, DataType::s8};
  for (int i = 0; i < 3000; ++i) {
    Dims dims;
    for (std::uint64_t d = 3 + random() % 3; d > 0; --d) dims.push_back(static_cast<std::int64_t>(1 + random() % 90));
    ConversionProblem problem{TensorDesc::packed(kTypes[random() % 5], dims, kPacked[random() % 4]),
                              TensorDesc::packed(kTypes[random() % 5], dims, kPacked[random() % 4])};
    if (random() % 4 == 0) problem.x.alignment = 16;
    if (random() % 4 == 0) {
      problem.y = TensorDesc::packed(problem.y.type, dims);
      for (auto& stride : problem.y.strides) stride *= 2;
    }
    const std::string text = print(problem);
    const auto parsed = parse_conversion(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().message;
    ASSERT_EQ(*parsed, problem) << text;
  }
}

TEST(ConversionProblem, ErrorsNameTheField) {
  const std::pair<std::string, std::string> cases[] = {
      {"convert:y=f32,1x3x4x4,nchw", "field 'x' is missing"},
      {"convert:x=f32,1x3x4x4,nchw", "field 'y' is missing"},
      {"convert:x=f32,1x3x4x4,nchw:y=f32,1x3x4x5,nhwc", "y.dims=1x3x4x5 differ from x.dims=1x3x4x4"},
      {"convert:x=f33,1x3x4x4,nchw:y=f32,1x3x4x4,nhwc", "x"},
      {"convert:x=f32,1x3x4x4,nchw:y=f32,1x3x4x4,nhcw", "y"},
      {"convert:x=f32,1x3x4x4,nchw:x=f32,1x3x4x4,nchw", "field 'x' is given twice"},
      {"convert:x=f32,1x3x4x4,nchw:pad=1", "field 'pad' is not one of x, y"},
      {"convert:x", "field 'x' has no '='"},
      {"convert", "field 'x' is missing"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = parse_conversion(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().message.substr(0, message.size()), message) << text;
  }
}

TEST(ConversionSeconds, GrowWithBytesAndFallWithThreads) {
  const auto seconds = [](std::int64_t side, Layout from, Layout to, int threads) {
    const TensorDesc x = TensorDesc::packed(DataType::f32, {1, 64, side, side}, from);
    PlanRequest request;
    request.threads = threads;
    return conversion_seconds(x, x.with_layout(to), request);
  };
  EXPECT_EQ(seconds(56, Layout::nhwc, Layout::nhwc, 1), 0);
  EXPECT_EQ(seconds(1, Layout::nchw, Layout::nhwc, 1), 0);  // the same bytes
  EXPECT_GT(seconds(8, Layout::nchw, Layout::nhwc, 1), 0);
  EXPECT_GT(seconds(112, Layout::nchw, Layout::nhwc, 1), 2 * seconds(56, Layout::nchw, Layout::nhwc, 1));
  EXPECT_LT(seconds(112, Layout::nchw, Layout::nhwc, 2), seconds(112, Layout::nchw, Layout::nhwc, 1));
  // A byte of short rows takes longer.
  EXPECT_GT(2 * seconds(7, Layout::nchw, Layout::nchw8c, 1), seconds(14, Layout::nchw, Layout::nchw8c, 1));
}

}  // namespace
}  // namespace convoy
