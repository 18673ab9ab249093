#include "engines/cpu/depthwise/depthwise.h"

#include <fmt/format.h>

#include "engines/cpu/common/testing/float_check.h"

namespace convoy::cpu {
namespace {

void right(const std::string& text) {
  expect_right(depthwise_engine(), text);
  if (in_f64(text) != text) expect_right(depthwise_engine(), in_f64(text));
}

// A square 2D problem of c groups: x is c channels, w m*c.
std::string square(const char* pass, int n, int c, int m, int in, int filter, int stride, int dilation, int pad,
                   int out, const char* layout, const char* more = "") {
  return fmt::format(
      "{0}:x=f32,{1}x{2}x{4}x{4},{10}:w=f32,{3}x1x{5}x{5},nchw:y=f32,{1}x{3}x{9}x{9},{10}:pad={8}x{8}:stride={6}x{6}:"
      "dilation={7}x{7}:groups={2}{11}",
      pass, n, c, c * m, in, filter, stride, dilation, pad, out, layout, more);
}

constexpr const char* kLayouts[] = {"nhwc", "nchw", "nchw8c", "nchw16c"};

TEST(Depthwise, TunedFiltersAndStrides) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : kLayouts) {
      right(square(pass, 2, 19, 1, 16, 3, 1, 1, 1, 16, layout));
      right(square(pass, 1, 35, 1, 17, 3, 2, 1, 1, 9, layout));
      right(square(pass, 1, 16, 1, 15, 5, 1, 1, 2, 15, layout));
      right(square(pass, 1, 40, 1, 18, 5, 2, 1, 2, 9, layout));
    }
  }
}

TEST(Depthwise, MapsSmallerThanATileAndThanTheFilter) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : kLayouts) {
      right(square(pass, 1, 5, 1, 1, 3, 1, 1, 1, 1, layout));
      right(square(pass, 1, 33, 1, 2, 5, 1, 1, 2, 2, layout));
      right(square(pass, 1, 17, 1, 3, 7, 2, 1, 3, 2, layout));
      right(square(pass, 1, 7, 1, 1, 1, 1, 1, 0, 1, layout));
    }
  }
}

TEST(Depthwise, AnyFilterStrideDilationAndPadding) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : kLayouts) {
      right(square(pass, 1, 11, 1, 21, 7, 1, 1, 3, 21, layout));
      right(square(pass, 1, 11, 1, 21, 4, 3, 1, 0, 6, layout));
      right(square(pass, 1, 9, 1, 23, 3, 1, 4, 4, 23, layout));
      right(square(pass, 1, 9, 1, 23, 3, 2, 2, 1, 11,
                   layout));  // stride and dilation share a factor: taps of one phase only
      right(square(pass, 1, 9, 1, 23, 3, 4, 6, 6, 6, layout));
      right(square(pass, 1, 9, 1, 12, 2, 5, 1, 0, 3, layout));  // positions of x that nothing reads
      right(square(pass, 1, 9, 1, 6, 3, 1, 1, 5, 14, layout));  // more padding than filter
      right(
          fmt::format("{0}:x=f32,1x20x9x14,{1}:w=f32,20x1x3x5,nchw:y=f32,1x20x5x14,{1}:pad=1x0/2x4:stride=2x1:"
                      "groups=20:mode=conv",
                      pass, layout));
    }
  }
}

TEST(Depthwise, ChannelMultiplier) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : kLayouts) {
      right(square(pass, 1, 12, 2, 9, 3, 1, 1, 1, 9, layout, ":bias=1"));
      right(square(pass, 2, 7, 3, 10, 3, 2, 1, 1, 5, layout));
      right(square(pass, 1, 2, 20, 8, 5, 1, 1, 2, 8, layout));
      right(square(pass, 1, 1, 8, 12, 3, 1, 1, 1, 12, layout));
    }
  }
}

TEST(Depthwise, OneAndThreeDimensions) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : {"nwc", "ncw", "ncw8c", "ncw16c"}) {
      right(fmt::format("{0}:x=f32,2x21x40,{1}:w=f32,21x1x5,ncw:y=f32,2x21x20,{1}:pad=2:stride=2:groups=21", pass,
                        layout));
    }
    for (const char* layout : {"ndhwc", "ncdhw", "ncdhw8c", "ncdhw16c"}) {
      right(
          fmt::format("{0}:x=f32,1x18x5x7x9,{1}:w=f32,18x1x3x3x3,ncdhw:y=f32,1x18x3x7x9,{1}:pad=1x1x1:stride=2x1x1:"
                      "groups=18",
                      pass, layout));
      right(
          fmt::format("{0}:x=f32,1x6x4x6x6,{1}:w=f32,12x1x2x3x3,ncdhw:y=f32,1x12x3x3x3,{1}:pad=0x1x1:stride=1x2x2:"
                      "groups=6:mode=conv",
                      pass, layout));
    }
  }
}

TEST(Depthwise, PairsOfLayouts) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const auto& [x, y] : {std::pair{"nhwc", "nchw16c"},
                               {"nchw16c", "nhwc"},
                               {"nchw8c", "nchw16c"},
                               {"nchw16c", "nchw8c"},
                               {"nhwc", "nchw8c"}}) {
      for (int m : {1, 2, 3}) {
        right(fmt::format("{}:x=f32,1x19x9x9,{}:w=f32,{}x1x3x3,nchw:y=f32,1x{}x9x9,{}:pad=1x1:groups=19", pass, x,
                          19 * m, 19 * m, y));
      }
    }
  }
}

TEST(Depthwise, Epilogues) {
  for (const char* layout : kLayouts) {
    for (const char* epilogue : {":bias=1:act=relu", ":bias=1:gamma=0.5:act=clip,0,6", ":alpha=2:beta=-0.5:bias=1",
                                 ":bias=1:act=prelu", ":gamma=1:act=hard_swish", ":act=sigmoid"}) {
      right(square("fprop", 1, 21, 1, 9, 3, 1, 1, 1, 9, layout, epilogue));
      right(square("dgrad", 1, 21, 1, 9, 3, 2, 1, 1, 5, layout, epilogue));
    }
  }
}

// Bands of rows at the borders and between them, chunks of channels, images, slices.
TEST(Depthwise, HalvesAreComputedAsF32) {
  for (const char* type : {"bf16", "f16"}) {
    const auto halves = [&](std::string text) {
      for (std::size_t at = 0; (at = text.find("f32", at)) != std::string::npos; at += 3) text.replace(at, 3, type);
      right(text);
    };
    for (const char* more : {"", ":bias=1:act=clip,0,6", ":alpha=2:bias=1:act=swish,1", ":act=prelu"}) {
      halves(square("fprop", 2, 19, 1, 16, 3, 1, 1, 1, 16, "nhwc", more));
      halves(square("fprop", 1, 150, 1, 17, 5, 2, 1, 2, 9, "nhwc", more));
      halves(square("fprop", 1, 96, 1, 56, 7, 1, 1, 3, 56, "nhwc", more));
      halves(square("fprop", 1, 9, 1, 6, 3, 1, 1, 5, 14, "nhwc", more));  // rows of padding alone
      halves(square("fprop", 1, 9, 1, 23, 3, 4, 6, 6, 6, "nhwc", more));
    }
    halves(
        "fprop:x=f32,1x18x5x7x9,ndhwc:w=f32,18x1x3x3x3,ncdhw:y=f32,1x18x3x7x9,ndhwc:pad=1x1x1:stride=2x1x1:groups=18");
    halves("fprop:x=f32,2x21x40,nwc:w=f32,21x1x5,ncw:y=f32,2x21x20,nwc:pad=2:stride=2:groups=21:mode=conv");
  }
}

TEST(Depthwise, RefusesOtherHalves) {
  const auto refused = [](const char* pass, const char* more, RefusalCode code, const char* says) {
    expect_refused(
        depthwise_engine(),
        fmt::format("{}:x=bf16,1x8x6x6,nhwc:w=bf16,8x1x3x3,nchw:y=bf16,1x8x6x6,nhwc:pad=1x1:groups=8{}", pass, more),
        code, says);
  };
  refused("dgrad", "", RefusalCode::pass, "pass=dgrad");
  refused("fprop", ":beta=1", RefusalCode::scaling, "beta=1");
  refused("fprop", ":gamma=1", RefusalCode::epilogue, "residual");
  refused("fprop", ":bias=out", RefusalCode::epilogue, "bias=out");
  expect_refused(depthwise_engine(), "fprop:x=bf16,1x8x6x6,nchw:w=bf16,8x1x3x3,nchw:groups=8", RefusalCode::layout,
                 "x.layout=nchw");
  expect_refused(depthwise_engine(), "fprop:x=bf16,1x8x6x6,nhwc:w=bf16,16x1x3x3,nchw:y=bf16,1x16x4x4,nhwc:groups=8",
                 RefusalCode::channels, "w.dims=16x1x3x3");
  expect_refused(depthwise_engine(), "fprop:x=f16,1x32x1000000,nwc:w=f16,32x1x3,ncw:groups=32", RefusalCode::size,
                 "x.dims=1x32x1000000, x.type=f16");
}

TEST(Depthwise, RefusesOtherGroupsAndHugeRows) {
  expect_refused(depthwise_engine(), "fprop:x=f32,1x8x8x8,nhwc:w=f32,8x2x3x3,nchw:groups=4", RefusalCode::groups,
                 "groups=4");
  expect_refused(depthwise_engine(),
                 "fprop:x=f32,1x2x8x8,nchw:w=f32,2x1x2x2,nchw:pad=1000000000x1000000000:dilation=2000000000x2000000000:"
                 "groups=2",
                 RefusalCode::size, "dilation=2000000000");
  expect_refused(depthwise_engine(), "dgrad:x=f32,1x2x2001,ncw:w=f32,2x1x1,ncw:y=f32,1x2x1,ncw:stride=2001:groups=2",
                 RefusalCode::stride, "stride=2001");
}

}  // namespace
}  // namespace convoy::cpu
