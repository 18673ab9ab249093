// cuDNN's rows, what is known of them, and their names: without the library, but for the copies between layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>

#include "core/provider.h"
#include "core/refines.h"
#include "device/cuda/nvrtc.h"
#include "engines/cudnn/channels_last.h"
#include "engines/cudnn/cudnn.h"
#include "engines/cudnn/described_h200.h"
#include "engines/cudnn/known.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"
#include "engines/cudnn/predict.h"
#include "engines/cudnn/survey.h"
#include "engines/testing/problem_of.h"

namespace convoy::cudnn {
namespace {

using convoy::testing::problem_of;

constexpr const char* kDense = "fprop:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1";

bool has(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

TEST(Cudnn, NamesOfNotesAndKnobs) {
  EXPECT_EQ(name_of(CUDNN_NUMERICAL_NOTE_TENSOR_CORE), "TENSOR_CORE");
  EXPECT_EQ(name_of(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC), note::nondeterministic);
  EXPECT_EQ(name_of(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION), note::reduced_precision_reduction);
  EXPECT_EQ(name_of(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS), note::down_convert_inputs);
  EXPECT_EQ(name_of(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP), "STRICT_NAN_PROP");
  EXPECT_EQ(name_of(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION), note::runtime_compilation);
  EXPECT_EQ(name_of(CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY), "CUBLASLT_DEPENDENCY");
  EXPECT_EQ(name_of(static_cast<cudnnBackendNumericalNote_t>(77)), "NOTE_77");
  EXPECT_EQ(meaning_of(CUDNN_KNOB_TYPE_TILE_SIZE), "TILE_SIZE");
  EXPECT_EQ(meaning_of(CUDNN_KNOB_TYPE_SWAP_AB), "SWAP_AB");
  for (int type = 0; type < CUDNN_KNOB_TYPE_COUNTS; ++type) {
    const auto knob = static_cast<cudnnBackendKnobType_t>(type);
    EXPECT_EQ(parse_knob_name(knob_name(knob)), knob);
  }
  for (const char* text : {"", "k", "kx", "2", "k-1", "k99999999999"}) EXPECT_FALSE(parse_knob_name(text)) << text;
}

TEST(Cudnn, RowsAreThereWithoutAnything) {
  std::set<std::string> names;
  for (const Engine* engine : engines()) {
    EXPECT_TRUE(names.insert(engine->info().name).second) << engine->info().name;
    EXPECT_EQ(engine->info().device, DeviceKind::cuda);
    EXPECT_EQ(engine->info().provider, "cuDNN");
    EXPECT_TRUE(refuse(*engine, problem_of(kDense), {})) << "a request for the processor";
  }
  for (const char* name :
       {"cudnn.eng0", "cudnn.eng84", "cudnn.legacy.fprop7", "cudnn.legacy.dgrad5", "cudnn.legacy.wgrad6"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// Whether a file of this name is in the process.
bool mapped(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

// In a process of its own, where no other test has loaded it.
TEST(CudnnDeathTest, RowsDontLoadTheLibraryTheirVersionDoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto right = [] {
    for (const Engine* engine : engines()) {
      if (!refuse(*engine, problem_of(kDense), {}) || engine->info().provider != "cuDNN") return false;
    }
    if (mapped("libcudnn.so")) return false;
    const auto version = provider_of(*engines().front());
    return version ? version->starts_with("cuDNN 9.") && mapped("libcudnn.so") : !mapped("libcudnn.so");
  };
  EXPECT_EXIT(std::exit(right() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST(Cudnn, NondeterministicAlgorithmsSaySo) {
  std::set<std::string> marked;
  for (const Engine* engine : engines()) {
    EXPECT_EQ(engine->info().deterministic, !has(engine->info().notes, note::nondeterministic));
    if (!engine->info().deterministic) marked.insert(engine->info().name);
  }
  EXPECT_EQ(marked, (std::set<std::string>{"cudnn.legacy.dgrad0", "cudnn.legacy.wgrad0", "cudnn.legacy.wgrad3"}));
}

TEST(Cudnn, ChannelsLastCopiesAreCounted) {
  const Engine& engine = channels_last_engine();
  const PlanRequest request = on(described_h200());
  const auto reason = [&](const std::string& text, int target_sms = 0) {
    PlanRequest asked = request;
    asked.target_sms = target_sms;
    const auto refusal = refuse(engine, problem_of(text), asked);
    return refusal ? refusal->reason : std::string("taken");
  };
  EXPECT_EQ(reason(kDense), "x, w and y are channels last: cudnn.eng* take them as they are");
  EXPECT_EQ(reason("fprop:x=f32,1x8x5x5,nchw8c:w=f32,8x8x3x3"),
            "x is in blocks of 8 channels: this engine takes strides only");
  const std::string planes = "fprop:x=f16,64x64x56x56:w=f16,64x64x3x3:pad=1x1";
  if (const auto api = cuda::cudnn(); !api.ok()) GTEST_SKIP() << "skipped: " << api.error().message;
  if (const auto api = cuda::nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  ASSERT_EQ(reason(planes), "taken");
  EXPECT_EQ(reason(planes, 64), "taken");
  // The engines are those of the channels-last problem, in its heuristics' order.
  const ConvProblem problem = problem_of(planes);
  const ConvProblem inner = problem_of("fprop:x=f16,64x64x56x56,nhwc:w=f16,64x64x3x3,nhwc:pad=1x1");
  const auto named = heuristic_candidates(inner, request);
  ASSERT_TRUE(named.ok()) << named.error().message;
  const Configurations configurations = engine.configurations(problem, request);
  ASSERT_EQ(configurations.knobs.size(), 1u);
  EXPECT_EQ("cudnn.eng" + print(configurations.knobs[0].values.front()), named->front().engine);
  // Its first estimate asks nobody, and is no more than what asking gives.
  const auto bound = engine.estimate(problem, request);
  ASSERT_TRUE(bound.has_value());
  EXPECT_FALSE(bound->certain);
  const auto estimate = refined(engine, problem, request, 0);
  ASSERT_TRUE(estimate.has_value());
  EXPECT_TRUE(estimate->certain);
  EXPECT_LE(bound->seconds, estimate->seconds);
  EXPECT_EQ(estimate->knobs, default_knobs(configurations));
  EXPECT_EQ(estimate->seconds, engine.predict_seconds(problem, estimate->knobs, request));
  // Two activations of 25.7 MB there and back on 4 TB/s: over 20 us; what isn't copied isn't counted.
  const Engine& direct = *engines()[static_cast<std::size_t>(*configurations.knobs[0].values.front().number())];
  const double there = direct.predict_seconds(inner, default_knobs(direct.configurations(inner, request)), request);
  EXPECT_GT(estimate->seconds, there + 20e-6);
  EXPECT_LT(estimate->seconds, there + 60e-6);
  // cuDNN's own copies take twice as long, so the heuristic goes this way; where nothing has to be copied it does not.
  const auto cheapest = [&](const std::string& text) {
    const ConvProblem asked = problem_of(text);
    std::pair<double, std::string> best{std::numeric_limits<double>::infinity(), ""};
    for (const Engine* each : engines()) {
      if (!admits(each->info(), asked, request)) continue;
      const auto guess = each->estimate(asked, request);
      if (guess) best = std::min(best, {guess->seconds, each->info().name});
    }
    return best.second;
  };
  EXPECT_EQ(cheapest(planes), "cudnn.nhwc");
  EXPECT_TRUE(cheapest(kDense).starts_with("cudnn.eng")) << cheapest(kDense);
  EXPECT_TRUE(cheapest("fprop:x=f32,64x64x56x56:w=f32,64x64x3x3:pad=1x1").starts_with("cudnn.eng"));
  const ConvProblem filter_only = problem_of("fprop:x=f16,64x64x56x56,nhwc:w=f16,64x64x3x3:pad=1x1");
  EXPECT_LT(engine.predict_seconds(filter_only, estimate->knobs, request), there + 5e-6);
}

// An epilogue that engine 8 is compiled for is predicted as slow as it is, so that a network undoes the fusion.
TEST(Cudnn, Engine8IsSlowWithCompiledActivations) {
  const std::string conv = "fprop:x=f32,1x256x10x10,nhwc:w=f32,80x256x3x3,nhwc:pad=1x1:bias=1";
  const auto seconds = [](const std::string& text, std::int64_t engine) {
    return first_choice_seconds(problem_of(text), described_h200(), engine);
  };
  EXPECT_NEAR(seconds(conv + ":act=swish,1", 8), 638e-6, 30e-6);
  EXPECT_LT(seconds(conv + ":act=swish,1", 11), 30e-6);
  EXPECT_LT(seconds(conv + ":act=relu", 8), 30e-6);
  EXPECT_LT(seconds(conv + ":act=swish,1:math=tf32", 8), 30e-6);
  EXPECT_LT(seconds("fprop:x=f16,1x256x10x10,nhwc:w=f16,80x256x3x3,nhwc:pad=1x1:bias=1:act=swish,1", 8), 30e-6);
}

// U-Net's with eight pictures and ResNet-50's with 32 and one, in microseconds on an H100. An engine that is faster
// with few pixels was once chosen for the first, since these were predicted at twice their time.
TEST(Cudnn, HalvesArePredictedByTheirChannels) {
  const auto expect_us = [](const std::string& text, double us) {
    EXPECT_NEAR(first_choice_seconds(problem_of("fprop:" + text + ":bias=1:act=relu"), described_h200(), 41), us * 1e-6,
                0.15e-6 * us)
        << text;
  };
  expect_us("x=f16,8x1024x64x64,nhwc:w=f16,512x1024x3x3,nhwc:pad=1x1", 380);
  expect_us("x=f16,8x128x512x512,nhwc:w=f16,64x128x3x3,nhwc:pad=1x1", 611);
  expect_us("x=f16,8x512x32x32,nhwc:w=f16,1024x512x3x3,nhwc:pad=1x1", 100);
  expect_us("x=f16,32x256x14x14,nhwc:w=f16,256x256x3x3,nhwc:pad=1x1", 17);
  expect_us("x=f16,1x512x7x7,nhwc:w=f16,512x512x3x3,nhwc:pad=1x1", 11.5);
  // tf32, on an H200.
  expect_us("x=f32,8x256x128x128,nhwc:w=f32,256x256x3x3,nhwc:pad=1x1:math=tf32", 362);
  expect_us("x=f32,8x64x512x512,nhwc:w=f32,64x64x3x3,nhwc:pad=1x1:math=tf32", 617);
  expect_us("x=f32,32x64x56x56,nhwc:w=f32,256x64x1x1,nhwc:math=tf32", 40.7);
  EXPECT_NEAR(first_choice_seconds(
                  problem_of("fprop:x=f32,32x24x56x56,nhwc:w=f32,144x24x1x1,nhwc:math=tf32:bias=1:act=swish,1"),
                  described_h200(), 4),
              52.5e-6, 8e-6);
  expect_us("x=f16,1x5x256x256x256,ndhwc:w=f16,5x5x3x3x3,ndhwc:pad=2x2x2:dilation=2x2x2", 4470);
  expect_us("x=f16,4x64x96x96x96,ndhwc:w=f16,32x64x3x3x3,ndhwc:pad=1x1x1", 1521);
}

// ResNeXt-50's with 128 pictures and with one, on an H100: those of 4 channels a group were predicted at four times
// their time, so the network at 1.5 times its own.
TEST(Cudnn, GroupsArePredictedByTheirChannels) {
  const auto expect_us = [](const std::string& text, double us) {
    EXPECT_NEAR(
        first_choice_seconds(problem_of("fprop:" + text + ":groups=32:bias=1:act=relu"), described_h200(), 41) * 1e6,
        us, 0.2 * us)
        << text;
  };
  expect_us("x=f16,128x128x56x56,nhwc:w=f16,128x4x3x3,nhwc:pad=1x1", 161);
  expect_us("x=f16,128x256x56x56,nhwc:w=f16,256x8x3x3,nhwc:pad=1x1:stride=2x2", 106);
  expect_us("x=f16,128x256x28x28,nhwc:w=f16,256x8x3x3,nhwc:pad=1x1", 98);
  expect_us("x=f16,128x512x28x28,nhwc:w=f16,512x16x3x3,nhwc:pad=1x1:stride=2x2", 52);
  expect_us("x=f16,128x512x14x14,nhwc:w=f16,512x16x3x3,nhwc:pad=1x1", 41);
  expect_us("x=f16,128x1024x14x14,nhwc:w=f16,1024x32x3x3,nhwc:pad=1x1:stride=2x2", 30);
  expect_us("x=f16,128x1024x7x7,nhwc:w=f16,1024x32x3x3,nhwc:pad=1x1", 25);
  expect_us("x=f16,1x128x56x56,nhwc:w=f16,128x4x3x3,nhwc:pad=1x1", 5.3);
  expect_us("x=f16,1x1024x7x7,nhwc:w=f16,1024x32x3x3,nhwc:pad=1x1", 5.6);
}

// So are engines that sum an output's products in turn: strictly in f32, and from 16 bits to f32.
TEST(Cudnn, SumsInTurnAreAsSlowAsTheyAreLong) {
  const auto seconds = [](const std::string& text, std::int64_t engine) {
    return first_choice_seconds(problem_of(text), described_h200(), engine);
  };
  const std::string pixel = "fprop:x=f32,32x1152x1x1,nchw:w=f32,48x1152x1x1,nchw:bias=1";
  EXPECT_NEAR(seconds(pixel, 44), 49e-6, 6e-6);
  EXPECT_LT(seconds(pixel, 11), 10e-6);
  EXPECT_LT(seconds(pixel + ":math=tf32", 44), 10e-6);
  const std::string narrow = "fprop:x=f16,32x1152x7x7,nhwc:w=f16,192x1152x1x1,nhwc:y=f32,32x192x7x7,nhwc:bias=1";
  EXPECT_NEAR(seconds(narrow, 52), 24e-6, 4e-6);
  EXPECT_LT(seconds("fprop:x=f16,32x1152x7x7,nhwc:w=f16,192x1152x1x1,nhwc:bias=1", 52), 10e-6);
}

// 1x1 filters of f32 in strict math reach a fifth of the multiply-adds, by some engines less.
TEST(Cudnn, StrictPointwiseIsFarFromItsFloor) {
  const auto seconds = [](const std::string& text, std::int64_t engine) {
    return first_choice_seconds(problem_of(text), described_h200(), engine);
  };
  const std::string wide = "fprop:x=f32,32x384x14x14,nchw:w=f32,96x384x1x1,nchw:bias=1";
  EXPECT_NEAR(seconds(wide, 44), 35e-6, 6e-6);
  EXPECT_NEAR(seconds("fprop:x=f32,32x576x14x14,nchw:w=f32,96x576x1x1,nchw:bias=1:gamma=1", 44), 95e-6, 10e-6);
  EXPECT_NEAR(seconds("fprop:x=f32,32x960x7x7,nchw:w=f32,160x960x1x1,nchw:bias=1", 11), 82e-6, 20e-6);
  EXPECT_LT(seconds(wide + ":math=tf32", 44), 28e-6);
}

TEST(Cudnn, LimitsNameTheField) {
  const auto reason = [](const std::string& text, const CudaDevice& device) {
    const auto refusal = outside_limits(problem_of(text), device);
    return refusal ? std::string(convoy::name_of(refusal->code)) + ": " + refusal->reason : "";
  };
  EXPECT_EQ(reason(kDense, described_h200()), "");
  EXPECT_NE(reason("fprop:x=s8,1x32x9x9,nchw16c:w=s8,32x32x3x3:y=s32,1x32x7x7,nchw16c:compute=s32", described_h200())
                .find("NC/32HW32"),
            std::string::npos);
  EXPECT_TRUE(reason("fprop:x=f32,1x4x9x9,nchw,align=2:w=f32,4x4x3x3:y=f32,1x4x7x7", described_h200())
                  .starts_with("alignment: x"));
  EXPECT_TRUE(
      reason("fprop:x=u8,1x4x9x9:w=u8,4x4x3x3:y=s32,1x4x7x7:compute=s32", described_h200()).starts_with("data_type: "));
  CudaDevice a100 = described_h200();
  a100.architecture = 80;
  EXPECT_TRUE(reason("fprop:x=f8_e4m3,1x16x9x9:w=f8_e4m3,16x16x3x3:y=f16,1x16x7x7", a100).starts_with("device: "));
  EXPECT_NE(unmet_advice(problem_of("fprop:x=f16,1x3x9x9:w=f16,64x3x3x3"), described_h200()).find("3 input channels"),
            std::string::npos);
}

TEST(Cudnn, TanhOfEngine0IsRefused) {
  const ConvProblem problem = problem_of("fprop:x=f32,1x16x8x8:w=f32,16x16x1x1:bias=1:act=tanh");
  const auto refusal = known_wrong(problem, 0, 91900, {}, {});
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->reason.find("act=tanh"), std::string::npos);
  EXPECT_FALSE(known_wrong(problem, 8, 91900, {}, {}));
  EXPECT_FALSE(known_wrong(problem_of("fprop:x=f32,1x16x8x8:w=f32,16x16x1x1:bias=1:act=sigmoid"), 0, 91900, {}, {}));
}

// What was seen in 9.19 is taken to hold until it is known not to; of older versions' engines nothing is known.
TEST(Cudnn, WhatIsNotVerifiedOfAVersionIsSaid) {
  const ConvProblem problem = problem_of("wgrad:x=f32,8x32x28x28,nhwc:w=f32,32x32x3x3,nhwc:pad=1x1");
  const ConvProblem single =
      problem_of("wgrad:x=f32,8x4x28x28,nhwc:w=f32,8x1x3x3,nhwc:y=f32,8x8x28x28,nhwc:pad=1x1:groups=4");
  for (const int version : {91900, 91902, 92600, 92801, 93000}) {
    EXPECT_EQ(missing_notes(problem, 68, version, {}), std::vector<std::string>{"DOWN_CONVERT_INPUTS"}) << version;
    EXPECT_TRUE(known_wrong(single, 69, version, {}, {})) << version;
    EXPECT_EQ(not_verified(version).empty(), version / 100 == 919) << not_verified(version);
  }
  EXPECT_TRUE(missing_notes(problem, 68, 91400, {}).empty());
  EXPECT_FALSE(known_wrong(single, 69, 91400, {}, {}));
  EXPECT_TRUE(not_verified(91402).starts_with("cuDNN 9.14.2: not verified.")) << not_verified(91402);
  EXPECT_TRUE(not_verified(92801).ends_with("say the same of themselves")) << not_verified(92801);
  EXPECT_TRUE(not_verified(93000).ends_with("was not looked at")) << not_verified(93000);
}

}  // namespace
}  // namespace convoy::cudnn
