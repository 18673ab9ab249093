#include "convoy/convolution.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "base/checked.h"
#include "core/empty.h"
#include "core/testing/random_problem.h"

namespace convoy {
namespace {

// N=1, C=64, 56x56, 3x3 to 64 channels, padding 1, all inferred from x and w.
ConvProblem layer() {
  ConvProblem p;
  p.x = TensorDesc::packed(DataType::f32, {1, 64, 56, 56}, Layout::nhwc);
  p.w = TensorDesc::packed(DataType::f32, {64, 64, 3, 3});
  p.pre_padding = p.post_padding = {1, 1};
  EXPECT_TRUE(infer(p).ok());
  return p;
}

TEST(OutputSize, WrittenOut) {
  EXPECT_EQ(*conv_output_size(224, 7, 3, 3, 2, 1, "y"), 112);
  EXPECT_EQ(*conv_output_size(5, 3, 0, 0, 1, 2, "y"), 1);
  EXPECT_EQ(*conv_output_size(5, 3, 0, 1, 2, 1, "y"), 2);
  EXPECT_EQ(*conv_output_size(1, 1, 0, 0, 9, 1, "y"), 1);
  EXPECT_EQ(
      conv_output_size(4, 3, 0, 0, 1, 2, "y.dims[2]").error().message,
      "y.dims[2]: size 4, filter 3, pad=0/0, stride=1, dilation=2: the filter spans 5, more than the padded size 4");
  EXPECT_FALSE(conv_output_size(4, 3, -1, 0, 1, 1, "y").ok());
  EXPECT_FALSE(conv_output_size(4, 3, 0, 0, 0, 1, "y").ok());
  EXPECT_FALSE(conv_output_size(4, 0, 0, 0, 1, 1, "y").ok());
  EXPECT_FALSE(conv_output_size(kMaxSize, 1, 1, 0, 1, 1, "y").ok());
  EXPECT_FALSE(conv_output_size(4, kMaxSize, 0, 0, 1, kMaxSize, "y").ok());
}

TEST(OutputSize, OfAnEmptyMap) {
  EXPECT_EQ(*conv_output_size(0, 3, 1, 1, 1, 1, "y"), 0);
  EXPECT_EQ(*conv_output_size(0, 3, 0, 0, 2, 1, "y"), 0);
  EXPECT_EQ(*conv_output_size(0, 3, 2, 1, 1, 1, "y"), 1);  // a window of padding
  EXPECT_FALSE(conv_output_size(-1, 3, 2, 2, 1, 1, "y").ok());
  EXPECT_EQ(*transposed_output_size(0, 3, 0, 0, 2, 1, 0, "x"), 1);
  EXPECT_EQ(*transposed_output_size(0, 1, 0, 0, 2, 1, 0, "x"), 0);
}

// Problem strings of empty batches, channels and maps are problems as others are.
TEST(Empty, ProblemsAreWellFormed) {
  for (const char* text :
       {"fprop:x=f32,0x3x8x8:w=f32,4x3x3x3:pad=1x1", "fprop:x=f32,2x0x8x8,nhwc:w=f32,4x0x3x3",
        "fprop:x=f32,2x3x8x8:w=f32,0x3x3x3", "fprop:x=f32,2x3x0x8:w=f32,4x3x3x3:pad=1x1",
        "fprop:x=f32,2x3x0x8:w=f32,4x3x3x3:pad=2x1/1x1", "dgrad:y=f32,0x4x8x8:w=f32,4x3x3x3",
        "dgrad:x=f32,2x3x2x8:y=f32,2x4x0x6:w=f32,4x3x3x3", "dgrad:y=f32,2x0x8x8:w=f32,0x3x3x3:bias=1",
        "wgrad:x=f32,0x3x8x8:y=f32,0x4x6x6:filter=3x3:beta=1", "fprop:x=u8,0x16x8,nwc:w=s8,16x16x3:requant=tensor",
        "fprop:x=f32,0x6x8x8:w=f32,6x1x3x3:groups=6"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
    EXPECT_TRUE(is_empty(*problem)) << text;
    EXPECT_EQ(*parse_problem(print(*problem)), *problem);
  }
  EXPECT_FALSE(is_empty(layer()));
  EXPECT_FALSE(parse_problem("fprop:x=f32,0x3x8x8:w=f32,4x3x0x3").ok());
  EXPECT_FALSE(parse_problem("fprop:x=f32,0x3x8x8:w=f32,4x3x9x3").ok());  // the map is not empty, and too small
  EXPECT_FALSE(parse_problem("fprop:x=f32,0x3x8x8:w=f32,4x3x3x3:y=f32,0x4x0x6").ok());
}

TEST(OutputSize, TransposedIsTheInverse) {
  EXPECT_EQ(*transposed_output_size(112, 7, 3, 3, 2, 1, 1, "x"), 224);
  EXPECT_EQ(*transposed_output_size(3, 2, 0, 0, 2, 1, 0, "x"), 6);
  EXPECT_FALSE(transposed_output_size(1, 1, 1, 0, 1, 1, 0, "x").ok());
  EXPECT_FALSE(transposed_output_size(1, 1, 0, 0, 1, 1, -1, "x").ok());
  EXPECT_FALSE(transposed_output_size(kMaxSize, 1, 0, 0, 2, 1, 0, "x").ok());
  testing::Random random(4);
  for (int i = 0; i < 20000; ++i) {
    const auto small = [&](int least, int most) { return testing::uniform(random, least, most); };
    const std::int64_t in = small(1, 30), filter = small(1, 5), pre = small(0, 3), post = small(0, 3);
    const std::int64_t stride = small(1, 4), dilation = small(1, 3), extra = small(0, stride - 1);
    const auto x = transposed_output_size(in, filter, pre, post, stride, dilation, extra, "x");
    if (!x.ok()) continue;
    ASSERT_EQ(*conv_output_size(*x, filter, pre, post, stride, dilation, "y"), in);
  }
}

TEST(Infer, ForwardTakesTheLayoutOfX) {
  const ConvProblem p = layer();
  EXPECT_EQ(p.y, TensorDesc::packed(DataType::f32, {1, 64, 56, 56}, Layout::nhwc));
  EXPECT_EQ(p.stride, (Dims{1, 1}));
  EXPECT_EQ(p.dilation, (Dims{1, 1}));
  EXPECT_TRUE(validate(p).ok());
}

TEST(Infer, BackwardDataGivesTheSmallestInput) {
  ConvProblem p;
  p.pass = Pass::dgrad;
  p.groups = 2;
  p.y = TensorDesc::packed(DataType::f32, {3, 8, 10}, Layout::nchw8c);
  p.w = TensorDesc::packed(DataType::f32, {8, 5, 3});
  p.stride = {2};
  ASSERT_TRUE(infer(p).ok());
  EXPECT_EQ(p.x, TensorDesc::packed(DataType::f32, {3, 10, 21}, Layout::nchw8c));
  EXPECT_TRUE(validate(p).ok());
}

// x in a std::vector: y can't be asked to be better placed than the caller's memory is.
TEST(Infer, TakesOverTheAlignment) {
  const std::vector<std::array<std::int64_t, 3>> cases = {{4, 64, 4}, {64, 64, 64}, {256, 64, 64}, {16, 8, 8}};
  for (const auto& [x, y, expected] : cases) {
    ConvProblem p = layer();
    p.y = {};
    p.x.alignment = x;
    p.y.alignment = y;
    ASSERT_TRUE(infer(p).ok());
    EXPECT_EQ(p.y.alignment, expected) << x << " " << y;
  }
  EXPECT_EQ(parse_problem("dgrad:y=f32,1x8x8x8,align=4:w=f32,8x8x3x3")->x.alignment, 4);
}

TEST(Infer, KeepsWhatIsGivenAndExplainsWhatCantBe) {
  ConvProblem p = layer();
  p.y.dims[2] = 55;
  EXPECT_TRUE(infer(p).ok());
  EXPECT_EQ(p.y.dims[2], 55);
  p = layer();
  p.stride = {1};
  EXPECT_EQ(infer(p).error().message, "stride=1 has 1 values for 2 spatial dims");
  p = layer();
  p.w.dims = {64, 64, 3};
  EXPECT_EQ(infer(p).error().message, "w.dims=64x64x3 has 3 dims, x.dims=1x64x56x56 has 4");
  p = layer();
  p.y = {};
  p.w.dims[3] = 99;
  EXPECT_NE(infer(p).error().message.find("y.dims[3]: size 56, filter 99"), std::string::npos);
  EXPECT_FALSE(infer(p = ConvProblem{}).ok());
}

TEST(Cost, FlopsAndBytes) {
  ConvProblem p = layer();
  EXPECT_EQ(flops(p), 2.0 * 64 * 56 * 56 * 64 * 9);
  const double tensors = 4.0 * (2 * 64 * 56 * 56 + 64 * 64 * 9), out = 4.0 * 64 * 56 * 56;
  EXPECT_EQ(bytes_moved(p), tensors);
  p.epilogue.bias = true;
  EXPECT_EQ(bytes_moved(p), tensors + 256);
  p.epilogue.gamma = 1;
  p.beta = 1;
  EXPECT_EQ(bytes_moved(p), tensors + 256 + 2 * out);
  p.pass = Pass::wgrad;
  p.epilogue = {};
  EXPECT_EQ(bytes_moved(p), tensors + 4.0 * 64 * 64 * 9);
  EXPECT_EQ(flops(p), 2.0 * 64 * 56 * 56 * 64 * 9);
}

// What one change makes of a good problem.
std::string error_after(const std::function<void(ConvProblem&)>& change, ConvProblem p = layer()) {
  change(p);
  const auto result = validate(p);
  return result.ok() ? "" : result.error().message;
}

using P = ConvProblem;

TEST(Validate, SizesAndChannels) {
  EXPECT_EQ(error_after([](P&) {}), "");
  EXPECT_EQ(error_after([](P& p) {
              p.x = TensorDesc::packed(DataType::f32, {1, 64, 112, 112});
              p.y = TensorDesc::packed(DataType::f32, {1, 64, 55, 55});
              p.stride = {2, 2};
            }),
            "y.dims[2]=55 does not match x.dims[2]=112, w.dims[2]=3, pad=1/1, stride=2, dilation=1, which give 56");
  EXPECT_EQ(error_after([](P& p) { p.w.dims[2] = 0; }), "w.dims[2]=0; a filter's sizes must be at least 1");
  EXPECT_EQ(error_after([](P& p) { p.x.dims[0] = -1; }), "x.dims[0]=-1 is negative");
  EXPECT_EQ(error_after([](P& p) {
              p.w = TensorDesc::packed(DataType::f32, {64, 7, 3, 3});
            }),
            "w.dims[1]=7 does not match x.dims[1]=64 and groups=1, which give 64");
  EXPECT_EQ(error_after([](P& p) { p.groups = 5; }), "groups=5 does not divide x.dims[1]=64");
  EXPECT_EQ(error_after([](P& p) {
              p.w = TensorDesc::packed(DataType::f32, {63, 32, 3, 3});
              p.groups = 2;
            }),
            "groups=2 does not divide w.dims[0]=63");
  EXPECT_EQ(error_after([](P& p) { p.groups = 0; }), "groups=0 is less than 1");
  EXPECT_EQ(error_after([](P& p) { p.y.dims[1] = 63; }), "y.dims[1]=63 does not match w.dims[0]=64");
  EXPECT_EQ(error_after([](P& p) { p.y.dims[0] = 2; }), "y.dims[0]=2 does not match x.dims[0]=1");
  EXPECT_EQ(error_after([](P& p) {
              p.y = TensorDesc::packed(DataType::f32, {1, 64, 56});
            }),
            "y.dims=1x64x56 has 3 dims, x.dims=1x64x56x56 has 4");
  EXPECT_EQ(error_after([](P& p) {
              p.x = TensorDesc::packed(DataType::f32, {1, 64});
            }),
            "x.dims=1x64 has 2 dims; a convolution has 3 to 5 (N, C, 1 to 3 spatial)");
  EXPECT_EQ(error_after([](P& p) { p.x.strides[2] = -1; }), "x.strides[2]=-1 is negative");
}

TEST(Validate, Window) {
  EXPECT_EQ(error_after([](P& p) { p.stride = {1, 0}; }), "stride[1]=0 is less than 1");
  EXPECT_EQ(error_after([](P& p) { p.dilation = {0, 1}; }), "dilation[0]=0 is less than 1");
  EXPECT_EQ(error_after([](P& p) { p.pre_padding = {-1, 1}; }), "pre_padding[0]=-1 is less than 0");
  EXPECT_EQ(error_after([](P& p) { p.post_padding = {1}; }), "post_padding=1 has 1 values for 2 spatial dims");
}

TEST(Validate, WrittenElementsMustNotOverlap) {
  const std::string error = error_after([](P& p) { p.y.strides[1] = 0, p.y.strides[1] = 64; });
  EXPECT_NE(error.find("y.strides["), std::string::npos) << error;
  EXPECT_NE(error.find("overlap"), std::string::npos) << error;
  EXPECT_EQ(error_after([](P& p) { p.x.strides = {1, 1, 1, 1}; }), "");  // read only: allowed
  EXPECT_NE(error_after([](P& p) {
              p.pass = Pass::dgrad;
              p.x.strides = {1, 1, 1, 1};
            }),
            "");
}

TEST(Validate, Types) {
  EXPECT_EQ(error_after([](P& p) { p.x.type = DataType::f16; }), "");
  EXPECT_EQ(error_after([](P& p) { p.x.type = DataType::f64; }),
            "types x=f64, w=f32, y=f32: f64 does not mix with other types");
  EXPECT_EQ(error_after([](P& p) { p.x.type = p.w.type = p.y.type = DataType::f64; }),
            "compute=f32 does not match types x=f64, w=f64, y=f64, which need f64");
  EXPECT_EQ(error_after([](P& p) { p.x.type = DataType::s8; }),
            "types x=s8, w=f32, y=f32: integer problems take s8 or u8 for both x and w");
  EXPECT_EQ(error_after([](P& p) { p.y.type = DataType::s32; }),
            "types x=f32, w=f32, y=s32: a convolution takes floating-point types, or s8 and u8");
  EXPECT_NE(error_after([](P& p) { p.x.type = p.w.type = DataType::boolean; }), "");
  EXPECT_NE(error_after([](P& p) {
              p.x.type = p.w.type = DataType::s8;
              p.compute = DataType::s32;
              p.pass = Pass::wgrad;
            }),
            "");
}

TEST(Validate, EpilogueAndQuantization) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_after([&](P& p) { p.beta = nan; }), "beta=nan is not finite");
  EXPECT_EQ(error_after([&](P& p) { p.epilogue.gamma = inf; }), "gamma=inf is not finite");
  EXPECT_EQ(error_after([&](P& p) { p.epilogue.bias = p.epilogue.narrow_bias = true; }),
            "bias=out: out is f32; only a 16-bit out has a bias of its own type");
  EXPECT_EQ(error_after([&](P& p) { p.epilogue.bias = p.epilogue.float_bias = true; }),
            "bias=f32: compute is f32; only an integer problem has a bias of another float type");
  EXPECT_EQ(error_after([&](P& p) {
              p.epilogue.activation = {ActivationKind::relu, 1, 0};
            }),
            "act=relu has no parameter a, 1 given");
  EXPECT_EQ(error_after([&](P& p) {
              p.epilogue.activation = {ActivationKind::clip, 2, 1};
            }),
            "act=clip: its lower bound 2 is greater than its upper bound 1");
  EXPECT_EQ(error_after([&](P& p) { p.epilogue.activation = {ActivationKind::clip, -inf, inf}; }), "");
  EXPECT_EQ(error_after([&](P& p) {
              p.epilogue.activation = {ActivationKind::elu, inf, 0};
            }),
            "act=elu: a=inf is not finite");
  EXPECT_EQ(error_after([&](P& p) { p.gate = true; }), "");
  EXPECT_EQ(error_after([&](P& p) {
              p.gate = true;
              p.pass = Pass::wgrad;
            }),
            "gate=1: pass=wgrad, only fprop has a gate");
  EXPECT_EQ(error_after([](P& p) {
              p.gate = true;
              p.x.type = p.w.type = DataType::s8;
              p.compute = DataType::s32;
            }),
            "gate=1: x is s8, a gate is for floating-point types");
  EXPECT_EQ(error_after([&](P& p) { p.epilogue.requantize = Requantize::per_tensor; }),
            "requant=tensor needs an integer problem, x is f32");
  EXPECT_EQ(error_after([&](P& p) { p.x_zero_point = 3; }), "x_zero_point=3 is not a value of x=f32");

  ConvProblem q = layer();
  q.x.type = DataType::u8;
  q.w.type = q.y.type = DataType::s8;
  q.compute = DataType::s32;
  EXPECT_EQ(error_after([&](P& p) { p.x_zero_point = 255; }, q), "");
  EXPECT_EQ(error_after([&](P& p) { p.x_zero_point = -1; }, q), "x_zero_point=-1 is not a value of x=u8");
  EXPECT_EQ(error_after([&](P& p) { p.w_zero_point = 128; }, q), "w_zero_point=128 is not a value of w=s8");
  EXPECT_EQ(error_after([&](P& p) { p.y_zero_point = 1; }, q),
            "y_zero_point=1 needs requantization (requant=tensor or channel)");
  EXPECT_EQ(error_after([&](P& p) { p.x_zero_given = p.w_zero_given = true; }, q), "");

  const auto residual_after = [&](auto change) {
    return error_after(
        [&](P& p) {
          p.epilogue.requantize = Requantize::per_tensor;
          p.epilogue.residual = {0.5, 3, 0.25, -128};
          change(p);
        },
        q);
  };
  EXPECT_EQ(residual_after([](P&) {}), "");
  EXPECT_EQ(residual_after([](P& p) { p.epilogue.requantize = Requantize::none; }),
            "residual needs requantization (requant=tensor or channel) to s8 or u8, y is s8");
  EXPECT_EQ(residual_after([](P& p) { p.y.type = DataType::f32; }),
            "residual needs requantization (requant=tensor or channel) to s8 or u8, y is f32");
  EXPECT_EQ(residual_after([](P& p) { p.epilogue.gamma = 2; }),
            "gamma=2: z is added behind the requantization (residual) already");
  EXPECT_EQ(residual_after([](P& p) { p.epilogue.residual->z_scale = 0; }),
            "residual: z_scale=0 is not positive and finite");
  EXPECT_EQ(residual_after([](P& p) { p.epilogue.residual->zero_point = 200; }),
            "residual: zero_point=200 is not a value of y=s8");
  EXPECT_EQ(error_after([&](P& p) { p.x_zero_given = true, p.x_zero_point = 2; }, q),
            "x_zero_point=2 although it is given at execution");
  EXPECT_EQ(error_after([&](P& p) { p.w_zero_given = true; }),
            "w_zero_point given at execution needs an integer problem");
}

}  // namespace
}  // namespace convoy
