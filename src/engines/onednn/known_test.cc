// Faults of oneDNN's (known.h), and that they are refused: each test fails when its fault is mended, and the refusal
// can go.
#include "engines/onednn/known.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "convoy/host_tensor.h"
#include "engines/onednn/request.h"
#include "engines/onednn/survey.h"
#include "engines/onednn/testing/rows.h"
#include "engines/reference/reference.h"
#include "engines/testing/engine_property.h"

namespace convoy::onednn {
namespace {

// docs/known-failures.md: without VNNI, 8-bit products are summed in pairs in 16 bits that saturate. When this fails,
// oneDNN has corrected it, and the refusal can go.
TEST(OneDnn, ByteProductsWithoutVnniSaturate) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  testing::EngineCase test;
  test.problem = problem("fprop:x=u8,1x64x6x6,nhwc:w=s8,32x64x3x3:y=s32,1x32x4x4,nhwc");
  test.isa = cpu_features().isa;
  for (const char* name : {"onednn.brgconv_avx512", "onednn.jit_uni_int8_avx2"}) {
    test.engine = &engine(name);
    EXPECT_NE(reason(name, print(test.problem)).find("saturate"), std::string::npos) << name;
    EXPECT_NE(run(test).failure, "") << name;
  }
}

// docs/known-failures.md: sums of bytes become f32 before they are written as s32. When this fails, oneDNN has
// corrected it, and the refusal can go.
TEST(OneDnn, SumsOfBytesGoThroughF32) {
  std::map<std::string, int> wrong;  // of those that were run
  for (const char* text : {"fprop:x=u8,2x128x6x6,nhwc:w=s8,32x128x3x3:y=s32,2x32x4x4,nhwc",
                           "fprop:x=s8,2x256x6x6,nhwc:w=s8,32x256x3x3:y=s32,2x32x4x4,nhwc:zp=5,0,0",
                           "fprop:x=u8,2x1024x4x4,nhwc:w=s8,32x1024x1x1:y=s32,2x32x4x4,nhwc",
                           "fprop:x=s8,2x2048x4x4,nhwc:w=s8,32x2048x1x1:y=s32,2x32x4x4,nhwc:zp=5,0,0",
                           "fprop:x=u8,2x1024x4x4,nhwc:w=s8,32x1024x1x1:y=s32,2x32x4x4,nhwc:bias=1",
                           "fprop:x=u8,2x64x6x6,nhwc:w=s8,32x64x6x6:y=s32,2x32x1x1,nhwc:bias=1",
                           "fprop:x=u8,2x128x6x6,nhwc:w=s8,32x128x3x3:y=s32,2x32x4x4,nhwc:bias=1"}) {
    testing::EngineCase test;
    test.problem = problem(text);
    test.isa = cpu_features().isa;
    test.fill = testing::Fill::limits;
    for (const Engine* row : engines()) {
      const auto refusal = refuse(*row, test.problem, {1, cpu_features()});
      ASSERT_TRUE(refusal) << row->info().name << " " << text;
      if (refusal->reason.find("rounds sums to f32") == std::string::npos) continue;
      if (survey(test.problem)->find(row_of_name(row->info().name)) == nullptr) continue;
      test.engine = row;
      wrong[row->info().name] += run(test).failure.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(wrong.size(), 0U);
  for (const auto& [name, times] : wrong) EXPECT_GT(times, 0) << name;
}

// Likewise: 1x1 filters on s8 in code that adds 128 to x, from 515 products on. Random sums of 600 to 1,023 were off
// by 1.
TEST(OneDnn, SumsOfShiftedBytesAreRefused) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512 with VNNI";
  const std::string many = "fprop:x=s8,1x600x7x7,nhwc:w=s8,16x600x1x1:y=s32,1x16x7x7,nhwc";
  const std::string few = "fprop:x=s8,1x512x7x7,nhwc:w=s8,16x512x1x1:y=s32,1x16x7x7,nhwc";
  std::vector<const char*> names{"onednn.jit_int8_1x1_avx512_vnni"};
  if (processor_has("avx2_vnni")) names.push_back("onednn.jit_uni_int8_1x1_avx2_vnni");  // Zen 4 lacks it
  for (const char* name : names) {
    EXPECT_NE(reason(name, many).find("600 products of up to 32640 reach 19584000"), std::string::npos)
        << reason(name, many);
    EXPECT_EQ(reason(name, few), "taken");
  }
}

// docs/known-failures.md: the correction for s8 and zero points is lost where a filter has 8 taps.
TEST(OneDnn, DepthwiseBytesOfEightTapsLoseTheirCorrection) {
  if (!processor_has("avx2_vnni")) GTEST_SKIP() << "skipped: needs AVX-VNNI";
  testing::EngineCase test;
  test.engine = &engine("onednn.jit_uni_int8_avx2_vnni");
  test.isa = cpu_features().isa;
  for (const char* text : {"fprop:x=s8,1x16x7x5,nhwc:w=s8,16x1x4x2:y=s32,1x16x4x4,nhwc:groups=16",
                           "fprop:x=u8,1x16x7x5,nhwc:w=s8,16x1x2x4:y=s32,1x16x6x2,nhwc:groups=16:zp=3,0,0"}) {
    test.problem = problem(text);
    EXPECT_NE(reason("onednn.jit_uni_int8_avx2_vnni", text).find("8 taps"), std::string::npos);
    if (survey(test.problem)->find(row_of_name("onednn.jit_uni_int8_avx2_vnni")) == nullptr) continue;
    EXPECT_NE(run(test).failure, "") << text;
  }
  EXPECT_EQ(
      reason("onednn.jit_uni_int8_avx2_vnni", "fprop:x=u8,1x16x7x5,nhwc:w=s8,16x1x4x2:y=s32,1x16x4x4,nhwc:groups=16"),
      "taken");
}

// docs/known-failures.md: a convolution that is computed as an inner product leaves out prelu.
TEST(OneDnn, InnerProductsLeaveOutPrelu) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  testing::EngineCase test;
  test.engine = &engine("onednn.ip");
  test.problem = problem("fprop:x=bf16,2x16x6x6,nchw:w=bf16,16x16x6x6:y=f32,2x16x1x1,nchw:act=prelu");
  test.isa = cpu_features().isa;
  test.fill = testing::Fill::small_integers;
  const std::string why = reason("onednn.ip", print(test.problem));
  EXPECT_EQ(why, "act=prelu: oneDNN's inner product leaves it out: wrong results");
  if (survey(test.problem)->find(row_of_implementation("ip:any")) != nullptr) {
    EXPECT_NE(run(test).failure, "");
  }
}

// docs/known-failures.md: wgrad in bf16 reads what nobody wrote where a row of x is shorter than the stride.
TEST(OneDnn, ShortRowsAreReadBeyondTheirEnd) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  for (const char* name : {"onednn.jit_bf16_avx512", "onednn.brgconv_bwd_w_amx"}) {
    if (name == std::string_view("onednn.brgconv_bwd_w_amx") && !processor_has("amx")) continue;
    testing::EngineCase test;
    test.engine = &engine(name);
    test.problem = problem("wgrad:x=bf16,1x32x5x2,nhwc:w=bf16,32x32x1x3:y=bf16,1x32x5x1,nhwc:pad=0x1:stride=1x3");
    test.isa = cpu_features().isa;
    EXPECT_EQ(
        reason(name, print(test.problem)),
        "stride=1x3: oneDNN's wgrad in bf16 reads unset memory where rows of x are shorter, here 2: wrong results");
    // NaN there is taken for an infinite gradient's beside padding and mended; what else is in the workspace is not.
    const auto plan = test.engine->plan(test.problem, {KnobValue{"layout", "given"}}, {1, cpu_features()});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const testing::ConvData data(test.problem, 1, testing::Fill::normal);
    const std::size_t size = (*plan)->workspace_bytes();
    const std::shared_ptr<std::byte> workspace = allocate_aligned(std::max<std::size_t>(size, 64));
    std::memset(workspace.get(), 0x3f, size);  // bf16 0.75
    testing::GuardedBuffer out = data.make_out();
    ConvArgs args = data.args();
    args.out = out.data();
    const auto team = make_cpu_team(1);
    ASSERT_TRUE((*plan)->execute(args, {*team, workspace.get(), size}).ok());
    EXPECT_FALSE(verify_with_reference(test.problem, data.args(), out.data(), {}, *team).ok()) << name;
  }
}

// docs/known-failures.md: dilated wgrad in bf16 of groups narrower than a vector.
TEST(OneDnn, DilatedGradientsOfFewChannelsReadUnsetMemory) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  testing::EngineCase test;
  test.engine = &engine("onednn.jit_bf16_avx512");
  test.problem =
      problem("wgrad:x=bf16,2x64x33x33,nhwc:w=bf16,64x8x3x3:y=bf16,2x64x33x33,nhwc:pad=2x2:dilation=2x2:groups=8");
  test.isa = cpu_features().isa;
  EXPECT_EQ(
      reason("onednn.jit_bf16_avx512", print(test.problem)),
      "dilation=2x2: oneDNN's dilated wgrad in bf16 reads unset memory where channels don't fill vectors of 16, here "
      "8: wrong results");
  EXPECT_NE(run(test).failure, "");
}

// docs/known-failures.md: what strided wgrad gathers of few channels is written in whole vectors, the last one too.
TEST(OneDnn, FewChannelsAreWrittenBeyondTheScratchpad) {
  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "needs AVX2";
  const ConvProblem asked = problem("wgrad:x=f32,1x5x20x20,nhwc:w=f32,16x5x1x1:y=f32,1x16x10x10,nhwc:stride=2x2");
  EXPECT_EQ(
      reason("onednn.jit_1x1_avx2", print(asked)),
      "C/groups=5: oneDNN's strided wgrad for filters of 1 writes beyond its scratchpad where channels don't fill a "
      "vector of 16: memory is overwritten");
  const auto plan = engine("onednn.jit_1x1_avx2").plan(asked, {KnobValue{"layout", "given"}}, {1, cpu_features()});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  constexpr std::byte untouched{0xab};
  const std::size_t size = (*plan)->workspace_bytes();
  std::vector<std::byte> memory(size + (1 << 20), untouched);
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  std::byte* const workspace = memory.data() + (64 - misaligned);
  const testing::ConvData data(asked, 1, testing::Fill::normal);
  testing::GuardedBuffer out = data.make_out();
  ConvArgs args = data.args();
  args.out = out.data();
  const auto team = make_cpu_team(1);
  ASSERT_TRUE((*plan)->execute(args, {*team, workspace, size}).ok());
  EXPECT_TRUE(std::any_of(workspace + size, memory.data() + memory.size(), [](std::byte b) { return b != untouched; }));
}

// docs/known-failures.md: SSE4.1 code that adds from memory which is not aligned. Refused is all that can be seen of
// it.
TEST(OneDnn, SumsFromUnalignedMemoryAreRefused) {
  const auto depthwise = [](int channels, const char* more) {
    const std::string c = std::to_string(channels);
    return reason("onednn.jit_dw_sse41", "fprop:x=f32,2x" + c + "x9x7,nhwc:w=f32," + c + "x1x3x3:y=f32,2x" + c +
                                             "x9x7,nhwc" + more + ":groups=" + c);
  };
  EXPECT_EQ(depthwise(40, ":pad=1x1:beta=1"), "taken");
  EXPECT_EQ(depthwise(37, ":pad=1x1"), "taken");
  EXPECT_NE(depthwise(37, ":pad=1x1:beta=1").find("rows of 37 channels"), std::string::npos);
  EXPECT_NE(depthwise(40, ",align=8:pad=1x1:beta=1").find("align=8"), std::string::npos);
  const std::string pointwise = "fprop:x=f32,2x16x9x7,nchw8c:w=f32,40x16x1x1:y=f32,2x40x9x7,nchw8c";
  EXPECT_EQ(reason("onednn.jit_1x1_sse41", pointwise + ":beta=1"), "taken");
  EXPECT_NE(reason("onednn.jit_1x1_sse41", pointwise + ",align=4:beta=1").find("align=4"), std::string::npos);
}

// docs/known-failures.md: AMX code that overwrites memory or crashes. Refused is all that can be seen of it.
TEST(OneDnn, WhatAmxCodeCrashesOnIsRefused) {
  if (!processor_has("amx") || !cpu_features().amx_tile) GTEST_SKIP() << "skipped: needs AMX";
  const auto pointwise = [](const std::string& pixels) {
    return reason("onednn.jit_1x1_amx", "fprop:x=bf16,1x64x" + pixels + ",nhwc:w=bf16,32x64x1x1:y=bf16,1x32x" + pixels);
  };
  for (const char* pixels : {"3x9", "6x6", "6x8", "3x11"}) {
    EXPECT_NE(pointwise(pixels).find("fourth tile"), std::string::npos) << pixels;
  }
  for (const char* pixels : {"5x6", "8x8", "9x9", "14x14"}) EXPECT_EQ(pointwise(pixels), "taken") << pixels;
  const auto rows = [](const std::string& more) {
    return reason("onednn.brgconv_amx", "fprop:x=u8,1x64x1x8,nhwc:w=s8,64x64x3x3:y=s32" + more);
  };
  EXPECT_NE(rows(",1x64x2x8,nhwc:pad=3x1:stride=2x1:dilation=2x1").find("no output meets x"), std::string::npos);
  EXPECT_EQ(rows(",1x64x3x8,nhwc:pad=4x1:stride=2x1:dilation=2x1"), "taken");
}

// docs/known-failures.md: AMX code for pixels of an odd multiple of 32 bytes, with even strides and windows.
TEST(OneDnn, AmxMixesUpPixels) {
  if (!processor_has("amx") || !cpu_features().amx_tile) GTEST_SKIP() << "skipped: needs AMX";
  for (const int channels : {64, 72, 96, 128, 160}) {
    const std::string c = std::to_string(channels);
    testing::EngineCase test;
    test.engine = &engine("onednn.brgconv_amx");
    test.problem = problem("fprop:x=u8,1x" + c + "x10x10,nhwc:w=s8,32x" + c + "x2x2:y=s32,1x32x5x5,nhwc:stride=2x2");
    test.isa = cpu_features().isa;
    const bool right = channels % 64 != 32;
    EXPECT_EQ(reason("onednn.brgconv_amx", print(test.problem)) == "taken", right) << c;
    EXPECT_EQ(run(test).failure.empty(), right) << c;
  }
}

// docs/known-failures.md: AMX code for windows as wide as the stride, of channels that don't fill 64 bytes.
TEST(OneDnn, AmxMixesUpPixelsOfWideStrides) {
  if (!processor_has("amx") || !cpu_features().amx_tile) GTEST_SKIP() << "skipped: needs AMX";
  testing::EngineCase test;
  test.engine = &engine("onednn.brgconv_amx");
  test.problem = problem("fprop:x=u8,1x48x28x28,nhwc:w=s8,64x48x4x4:y=s32,1x64x7x7,nhwc:stride=4x4");
  test.isa = cpu_features().isa;
  EXPECT_NE(reason("onednn.brgconv_amx", print(test.problem)).find("as wide as the stride"), std::string::npos);
  EXPECT_NE(run(test).failure, "");
}

// docs/known-failures.md: wgrad in bf16 of maps and volumes no larger than the window.
TEST(OneDnn, GradientsOfSmallVolumesReadUnsetMemory) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  testing::EngineCase test;
  test.isa = cpu_features().isa;
  test.engine = &engine("onednn.jit_bf16_avx512");
  test.problem = problem("wgrad:x=bf16,1x32x4x4x4,ndhwc:w=bf16,32x32x5x5x5:y=bf16,1x32x4x4x4,ndhwc:pad=2x2x2");
  EXPECT_NE(reason("onednn.jit_bf16_avx512", print(test.problem)).find("no larger than the window"), std::string::npos);
  EXPECT_NE(run(test).failure, "");
  const std::string map = "wgrad:x=bf16,1x192x1x3,nchw:w=bf16,32x192x5x5,nchw:y=bf16,1x32x1x3,nchw:pad=2x2";
  EXPECT_NE(reason("onednn.jit_bf16_avx512", map).find("no larger than the window"), std::string::npos);
  if (!processor_has("amx") || !cpu_features().amx_tile) return;
  test.engine = &engine("onednn.jit_amx");
  test.problem =
      problem("wgrad:x=bf16,1x32x3x3x3,ndhwc:w=bf16,32x32x3x3x3:y=bf16,1x32x2x2x2,ndhwc:pad=1x1x1:stride=2x2x2");
  EXPECT_NE(reason("onednn.jit_amx", print(test.problem)).find("no larger than the window"), std::string::npos);
  EXPECT_NE(run(test).failure, "");
}

// docs/known-failures.md: dgrad in bf16 for filters of 1, of an odd number.
TEST(OneDnn, OddFiltersArePairedWithWhatFollows) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  testing::EngineCase test;
  test.isa = cpu_features().isa;
  test.engine = &engine("onednn.jit_bf16_1x1_avx512");
  test.problem = problem("dgrad:x=bf16,1x16x127x127,nhwc:w=bf16,3x16x1x1:y=bf16,1x3x127x127,nhwc");
  EXPECT_NE(reason("onednn.jit_bf16_1x1_avx512", print(test.problem)).find("odd number"), std::string::npos);
  if (processor_has("avx512_bf16")) {  // emulated, it is right
    EXPECT_NE(run(test).failure, "");
  }
}

// docs/known-failures.md: AMX code for filters of 1 that copies x, where that has several planes.
TEST(OneDnn, AmxLosesItsPlaceBetweenPlanes) {
  if (!processor_has("amx") || !cpu_features().amx_tile) GTEST_SKIP() << "skipped: needs AMX";
  for (const char* depth : {"1", "3"}) {
    const std::string planes = depth;
    testing::EngineCase test;
    test.engine = &engine("onednn.brgconv_1x1_amx");
    test.problem = problem("fprop:x=u8,1x71x" + (planes == "1" ? planes : "5") +
                           "x5x45,ndhwc:w=s8,64x71x1x1x1:y=s32,1x64x" + planes + "x3x23,ndhwc:stride=2x2x2");
    test.isa = cpu_features().isa;
    test.constant_weights = true;
    test.data_seed = 7;
    const bool right = planes == "1";
    EXPECT_EQ(reason("onednn.brgconv_1x1_amx", print(test.problem)) == "taken", right) << planes;
    EXPECT_EQ(run(test).failure.empty(), right) << planes;
  }
}

// docs/known-failures.md: GEMM takes wrong sums of the weights, which it needs for s8 in x and for x's zero point. When
// this fails, that is mended.
TEST(OneDnn, GemmOfBytesTakesWrongSumsOfWeights) {
  if (!processor_has("avx512_vnni")) GTEST_SKIP() << "skipped: needs VNNI";
  for (const std::string type : {"u8", "s8"}) {
    const std::string name = "onednn.gemm_s8" + type + "s32";
    for (const int filters : {16, 18, 21, 64}) {
      for (const int zero : {0, 3}) {
        const std::string k = std::to_string(filters);
        testing::EngineCase test;
        test.engine = &engine(name);
        test.problem = problem("fprop:x=" + type + ",1x64x3x3,nhwc:w=s8," + k + "x64x1x1,nchw:y=s32,1x" + k +
                               "x3x3,nhwc:zp=" + std::to_string(zero) + ",0,0");
        const bool right = filters % 16 == 0 || (type == "u8" && zero == 0);
        EXPECT_EQ(run(test).failure.empty(), right) << print(test.problem);
        EXPECT_EQ(reason(name, print(test.problem)) == "taken", right) << print(test.problem);
      }
    }
  }
}

// docs/known-failures.md: of the channels after the last full vector only the first gets its scale.
TEST(OneDnn, DepthwiseBytesLoseTheLastChannelsScales) {
  if (!processor_has("avx2_vnni")) GTEST_SKIP() << "skipped: needs AVX-VNNI";
  for (const int channels : {6, 48, 49, 50, 55}) {
    const std::string c = std::to_string(channels);
    testing::EngineCase test;
    test.engine = &engine("onednn.jit_uni_int8_avx2_vnni");
    test.problem = problem("fprop:x=u8,1x" + c + "x20x20,nhwc:w=s8," + c + "x1x3x3:y=f32,1x" + c +
                           "x20x20,nhwc:pad=1x1:groups=" + c + ":requant=channel");
    test.isa = Isa::avx2;
    const bool right = channels % 8 < 2;
    EXPECT_EQ(reason("onednn.jit_uni_int8_avx2_vnni", print(test.problem)) == "taken", right) << c;
    EXPECT_EQ(run(test).failure.empty(), right) << c;
  }
}

}  // namespace
}  // namespace convoy::onednn
