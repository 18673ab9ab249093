// What is special about a provider: its names, that nothing it offers is missed, what its plans copy, what it refuses.
// tests/engines checks every row's results on random problems.
#include "engines/onednn/onednn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "convoy/host_tensor.h"
#include "core/stages.h"
#include "engines/onednn/known.h"
#include "engines/onednn/request.h"
#include "engines/onednn/survey.h"
#include "engines/onednn/testing/rows.h"
#include "engines/testing/engine_property.h"

namespace convoy::onednn {
namespace {

// A plan's notes, in one string.
std::string notes_of(std::string_view name, const ConvProblem& problem, std::int64_t layout, bool constant = false) {
  const HostTensor weights = *HostTensor::zeros(problem.w);
  const PlanRequest request{1, cpu_features(), constant ? weights.data.get() : nullptr};
  const auto plan = engine(name).plan(problem, {KnobValue{"layout", layout == 1 ? "preferred" : "given"}}, request);
  if (!plan.ok()) return plan.error().message;
  std::string text;
  for (const std::string& note : (*plan)->notes()) text += note + "; ";
  return text;
}

TEST(OneDnn, NamesFollowTheDescriptions) {
  EXPECT_EQ(name_of_implementation("brgconv:avx512_core"), "onednn.brgconv_avx512");
  EXPECT_EQ(name_of_implementation("brgconv:avx512_core_bf16"), "onednn.brgconv_avx512");
  EXPECT_EQ(name_of_implementation("brgconv:avx512_core_vnni"), "onednn.brgconv_avx512_vnni");
  EXPECT_EQ(name_of_implementation("brgconv_1x1:avx512_core_amx_fp16"), "onednn.brgconv_1x1_amx");
  EXPECT_EQ(name_of_implementation("jit:avx2"), "onednn.jit_avx2");
  EXPECT_EQ(name_of_implementation("x64:gemm:jit"), "onednn.gemm");
  EXPECT_EQ(name_of_implementation("ref:any"), "onednn.ref");
  EXPECT_EQ(name_of_implementation("ip:any+gemm:jit"), "onednn.ip");
  EXPECT_EQ(name_of_implementation("brg_fwd:avx512_core+brgconv_1x1:avx512_core"), "onednn.brg_fwd_avx512");
}

TEST(OneDnn, NamesAreUnique) {
  std::vector<std::string> names;
  for (const Engine* row : engines()) names.push_back(row->info().name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

// A newer oneDNN that offers something else fails here: it needs a row.
TEST(OneDnn, EverythingOfferedHasARowThatAdmitsIt) {
  testing::ProblemOptions options;
  options.types.clear();
  for (const Engine* row : engines()) {
    for (const TypeCombination& types : row->info().types) {
      if (std::find(options.types.begin(), options.types.end(), types) == options.types.end()) {
        options.types.push_back(types);
      }
    }
  }
  options.flipped = options.alpha_beta = options.bias = options.residual = false;
  options.activations = {ActivationKind::relu};
  options.requantize = options.zero_points = false;
  testing::Random random(7);
  int offers = 0;
  for (int i = 0; i < 400; ++i) {
    const ConvProblem problem = testing::random_problem(random, options);
    const auto ref = refuse(engine("onednn.ref"), problem, {1, cpu_features()});
    if (ref && ref->code != RefusalCode::not_offered) continue;  // oneDNN can't be asked
    const auto surveyed = survey(problem);
    EXPECT_EQ(surveyed->unknown(), std::vector<std::string>{}) << print(problem);
    for (const SurveyedImplementation& offer : surveyed->all()) {
      ++offers;
      const auto refusal = refuse(*engines()[offer.row], problem, {1, cpu_features()});
      EXPECT_TRUE(!refusal || known_wrong(implementations()[offer.row], problem))
          << engines()[offer.row]->info().name << ": " << refusal->reason << "\n"
          << print(problem);
    }
  }
  EXPECT_GT(offers, 400);
}

TEST(OneDnn, BlockedTensorsPassStraightThrough) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  const auto blocked = problem("fprop:x=f32,1x32x9x9,nchw16c:w=f32,48x32x3x3:y=f32,1x48x9x9,nchw16c:pad=1x1");
  EXPECT_EQ(notes_of("onednn.jit_avx512", blocked, 0, true), "jit:avx512_core; w packed at plan time as OIhw16i16o; ");
  // The format that it prefers is the one given: there is no second layout to try.
  EXPECT_EQ(engine("onednn.jit_avx512").configurations(blocked, {1, cpu_features()}).knobs[0].values,
            std::vector<KnobSetting>{"given"});
}

// oneDNN is asked the same, however the strides of dims of 1 are spelled.
TEST(OneDnn, OneChannelIsInTheLayoutOfTheOthers) {
  for (const std::string pass : {"fprop", "dgrad", "wgrad"}) {
    for (const std::string layout : {"nhwc", "nchw"}) {
      const std::string other = layout == "nhwc" ? "nchw" : "nhwc";
      for (const auto& [c, k] : {std::pair(1, 64), std::pair(64, 1)}) {
        const auto asked = [&](const std::string& of_c, const std::string& of_k) {
          return problem(fmt::format("{}:x=f32,1x{}x56x56,{}:w=f32,{}x{}x3x3:y=f32,1x{}x56x56,{}:pad=1x1", pass, c,
                                     of_c, k, c, k, of_k));
        };
        const ConvProblem alike = asked(layout, layout);
        const ConvProblem mixed = c == 1 ? asked(other, layout) : asked(layout, other);
        ASSERT_NE(alike.x.strides == mixed.x.strides, alike.y.strides == mixed.y.strides);
        const auto told = [](const ConvProblem& problem) {
          std::string text;
          for (const SurveyedImplementation& offer : survey(problem)->all()) {
            text += fmt::format("{} layout={} reorders {}\n", implementations()[offer.row].name(),
                                static_cast<int>(offer.form.any_layout), offer.reordered_bytes);
          }
          return text;
        };
        EXPECT_EQ(told(mixed), told(alike)) << print(mixed);
        EXPECT_NE(told(mixed).find("onednn.gemm layout=0 reorders 0\n"), std::string::npos) << told(mixed);
      }
    }
  }
}

// In either spelling the results are the oracle's.
TEST(OneDnn, OneChannelIsComputedInEitherLayout) {
  for (const char* text : {"dgrad:x=f32,1x1x9x9,nchw:w=f32,16x1x3x3:y=f32,1x16x9x9,nhwc:pad=1x1",
                           "wgrad:x=f32,1x1x9x9,nhwc:w=f32,16x1x3x3:y=f32,1x16x9x9,nchw:pad=1x1",
                           "fprop:x=f32,1x16x9x9,nhwc:w=f32,1x16x3x3:y=f32,1x1x9x9,nchw:pad=1x1:gamma=1:act=relu"}) {
    testing::EngineCase test;
    test.engine = &engine("onednn.gemm");
    test.problem = problem(text);
    test.knobs = {KnobValue{"layout", "given"}};
    EXPECT_EQ(run(test).failure, "") << text;
  }
}

TEST(OneDnn, ReordersAreTold) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  const auto rows = problem("fprop:x=f32,1x32x9x9,nchw:w=f32,48x32x3x3:y=f32,1x48x9x9,nchw:pad=1x1");
  EXPECT_EQ(notes_of("onednn.jit_avx512", rows, 1),
            "jit:avx512_core; reorders x: nchw -> nChw16c; w packed at each execution as OIhw16i16o; "
            "reorders y: nChw16c -> nchw; ");
  auto fused = rows;
  fused.epilogue.bias = true;
  const auto plan =
      engine("onednn.jit_avx512").plan(fused, {KnobValue{"layout", "preferred"}}, {1, cpu_features(), nullptr});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(stages_of(**plan),
            (std::vector<std::string>{"reorder x", "pack weights", "convolution + bias", "reorder out"}));
}

// A product of quantized matrices: the rows of one are pixels of one image, whose channels lie side by side.
TEST(OneDnn, ABatchOfSinglePixelsIsOneImage) {
  if (cpu_features().isa < Isa::avx512 || !cpu_features().avx512_vnni) GTEST_SKIP() << "skipped: needs AVX-512 VNNI";
  const Engine& pointwise = engine("onednn.jit_int8_1x1_avx512_vnni");
  const PlanRequest request{1, cpu_features()};
  const auto rows = problem("fprop:x=u8,400x384x1x1:w=s8,384x384x1x1:y=u8,400x384x1x1:requant=channel:zp=104,0,128");
  const auto image =
      problem("fprop:x=u8,1x384x400x1,nhwc:w=s8,384x384x1x1:y=u8,1x384x400x1,nhwc:requant=channel:zp=104,0,128");
  ASSERT_FALSE(refuse(pointwise, rows, request));
  EXPECT_EQ(pointwise.configurations(rows, request).knobs[0].values, std::vector<KnobSetting>{"given"});
  EXPECT_EQ(pointwise.estimate(rows, request)->seconds, pointwise.estimate(image, request)->seconds);
}

// The pixel of an image may be beside all windows, or what the only window has.
TEST(OneDnn, SinglePixelsWithPaddingOrAStride) {
  const std::string head = "fprop:x=u8,2x64x1x1:w=s8,64x64x1x1:y=u8,2x64x1x1:requant=channel:zp=104,0,128";
  for (const std::string window : {":pad=0x0/1x0:stride=2x1", ":pad=1x0:stride=3x1", ":stride=2x1"}) {
    const ConvProblem each = problem(head + window);
    int takers = 0;
    for (const Engine* row : engines()) {
      if (refuse(*row, each, {1, cpu_features()})) continue;
      ++takers;
      testing::EngineCase test{.engine = row, .problem = each, .isa = cpu_features().isa};
      test.knobs = default_knobs(row->configurations(each, {1, cpu_features()}));
      EXPECT_EQ(testing::run(test).failure, "") << window;
    }
    EXPECT_GT(takers, cpu_features().avx512_vnni ? 0 : -1) << window;
  }
}

TEST(OneDnn, RefusalsNameTheField) {
  const std::string base = ":x=f32,2x16x9x9,nhwc:w=f32,24x16x3x3";
  EXPECT_EQ(reason("onednn.ref", "dgrad" + base + ":y=f32,2x24x7x7,nhwc:bias=1"),
            "bias=1: oneDNN's dgrad has no epilogue");
  EXPECT_EQ(reason("onednn.ref", "wgrad" + base + ":y=f32,2x24x7x7,nhwc:beta=1"),
            "alpha=1, beta=1: oneDNN's wgrad has no epilogue");
  EXPECT_EQ(reason("onednn.ref", "fprop" + base + ":beta=1:gamma=0.5"),
            "gamma=0.5 with beta=1: oneDNN scales what it adds from out only, and out holds one tensor");
  EXPECT_EQ(reason("onednn.jit_1x1_sse41", "fprop" + base), "filter=3x3: this engine computes filters of 1 only");
  EXPECT_EQ(reason("onednn.jit_dw_sse41", "fprop" + base),
            "groups=1 of 16 to 24 channels: this engine computes depthwise problems, a channel to a channel only");
  EXPECT_EQ(reason("onednn.ref", "fprop" + base + ":mode=conv"),
            "mode=conv: this engine computes cross-correlation only");
  EXPECT_EQ(reason("onednn.ref", "fprop:x=u8,1x4x3x3:w=s8,4x4x1x1:y=s32,1x4x3x3:zp=0,2,0"),
            "zp=0,2,0: oneDNN's convolution has no zero point of w");
  EXPECT_EQ(reason("onednn.ref", "fprop:x=f32,1x1x4x1,nhwc:w=f32,1x1x3x1:pad=268435457x0"),
            "pre_padding[0]=268435457: oneDNN's convolutions take at most 1048576");
}

// Sizes that oneDNN would take seconds or minutes to plan.
TEST(OneDnn, WhatWouldTakeLongIsRefused) {
  for (const auto& [text, why] : std::vector<std::pair<const char*, const char*>>{
           {"fprop:x=f32,1x1x65537,nwc:w=f32,1x1x3", "x.dims[2]=65537: oneDNN takes too long to plan beyond 65536"},
           {"fprop:x=f32,1x65537x3,nwc:w=f32,1x65537x3", "x.dims[1]=65537: oneDNN takes too long to plan beyond 65536"},
           {"fprop:x=f32,1x8x513x512,nhwc:w=f32,8x8x1x1",
            "x.dims=1x8x513x512: oneDNN takes too long to plan beyond 262144 pixels with a filter of 1"},
           {"fprop:x=f32,1x1x2049x2048,nhwc:w=f32,1x1x3x3",
            "x.dims=1x1x2049x2048: oneDNN takes too long to plan beyond 4194304 pixels"},
           {"fprop:x=s8,1x16x8079,nwc:w=s8,51x16x5:y=s32,1x51x8079,nwc:pad=6:dilation=3",
            "dilation[0]=3 in rows of 8079: oneDNN takes too long to plan beyond 2"},
           {"dgrad:x=f32,18x11x3769,nwc:w=f32,17x11x107:y=f32,18x17x3664,nwc:pad=1/0",
            "w.dims[2]=107 in rows of 3769: oneDNN takes too long to plan beyond 16"},
           {"fprop:x=u8,1x16x13x89,nhwc:w=s8,12x16x3x3:y=u8,1x12x13x532,nhwc:pad=1x443/1x2",
            "pre_padding[1]=443 in rows of 532: oneDNN's fprop takes too long to plan with a window of 3 that hangs "
            "over "
            "the edge by more than half"},
           {"dgrad:x=f32,1x26x9x1015,nhwc:w=f32,32x26x5x5:y=f32,1x32x5x1011,nhwc",
            "pre_padding[1]=0 in rows of 1015: oneDNN's dgrad takes too long to plan with a window of 5 that hangs "
            "over "
            "the edge by more than half"}}) {
    EXPECT_EQ(reason("onednn.ref", text), why) << text;
  }
}

// A test under a lower instruction set must not run code for a higher one.
TEST(OneDnn, RowsWithoutALevelRefuseACap) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  const auto asked = problem("fprop:x=f32,1x16x9x9:w=f32,24x16x3x3");
  EXPECT_EQ(reason("onednn.gemm", print(asked)), "taken");
  for (const Isa isa : {Isa::portable, Isa::avx2}) {
    const auto refusal = refuse(engine("onednn.gemm"), asked, {1, capped(cpu_features(), isa)});
    ASSERT_TRUE(refusal) << name_of(isa);
    EXPECT_EQ(refusal->reason, "instruction set=" + std::string(name_of(isa)) + ": this engine needs avx512");
  }
  if (!processor_has("avx512_vnni")) return;
  CpuFeatures bare = cpu_features();
  bare.avx512_vnni = false;
  const auto refusal = refuse(engine("onednn.gemm"), asked, {1, bare});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, "instruction set=avx512 without VNNI: this engine takes all that the processor has");
}

TEST(OneDnn, WhatIsNotOfferedIsSaid) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512";
  const std::string why = reason("onednn.gemm_s8s8s32", "fprop:x=u8,1x4x3x3:w=s8,4x4x1x1:y=s32,1x4x3x3");
  if (why.find("VNNI") != std::string::npos) GTEST_SKIP() << why;
  EXPECT_EQ(why, "x=u8,1x4x3x3,nchw y=s32,1x4x3x3,nchw and these sizes: oneDNN does not offer it for them");
}

// The zero point is added after rounding: 2.5 and 3.5 both become even first.
TEST(OneDnn, TiesAreRoundedBeforeTheZeroPoint) {
  for (const Engine* row : engines()) {
    testing::EngineCase test;
    test.engine = row;
    test.problem = problem("fprop:x=u8,1x20x5x5,nhwc:w=s8,32x20x3x3:y=u8,1x32x3x3,nhwc:requant=channel:zp=0,0,7");
    test.isa = cpu_features().isa;
    test.fill = testing::Fill::small_integers;  // scales are multiples of a quarter: many ties, compared bit for bit
    if (refuse(*row, test.problem, {1, cpu_features()})) continue;
    EXPECT_EQ(run(test).failure, "") << describe(test);
  }
}

// oneDNN takes no bias that is wider than x there: it is added behind the sum.
TEST(OneDnn, HalvesOfDepthwiseLayersHaveABias) {
  if (!processor_has("avx512_bf16")) GTEST_SKIP() << "no AVX512_BF16";
  for (const int channels : {16, 17, 40, 144}) {
    for (const char* rest : {"", ":act=clip,0,6", ":act=prelu", ":gamma=0.5:act=swish,1"}) {
      testing::EngineCase test;
      test.engine = &engine("onednn.brdgmm_dw_avx512");
      test.problem = problem(
          fmt::format("fprop:x=bf16,2x{0}x14x15,nhwc:w=bf16,{0}x1x3x3:y=bf16,2x{0}x14x15,nhwc:pad=1x1:groups={0}"
                      ":bias=1{1}",
                      channels, rest));
      EXPECT_EQ(reason("onednn.brdgmm_dw_avx512", print(test.problem)), "taken");
      EXPECT_EQ(run(test).failure, "") << print(test.problem);
    }
  }
}

// How many times as fast `threads` are predicted to be as one.
double predicted_gain(std::string_view name, std::string_view text, int threads) {
  const ConvProblem shared = problem(text);
  PlanRequest request{1, cpu_features()};
  const KnobValues knobs = default_knobs(engine(name).configurations(shared, request));
  const double alone = engine(name).predict_seconds(shared, knobs, request);
  request.threads = threads;
  return alone / engine(name).predict_seconds(shared, knobs, request);
}

// Measured (a Xeon): 47 us on one thread and 41 to 51 on two with 64 filters, 229 and 152 with 192.
TEST(OneDnn, ThreadsShareNoMorePartsThanThereAre) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  const auto gain = [](std::string_view text, int threads) {
    return predicted_gain("onednn.jit_avx512", text, threads);
  };
  EXPECT_DOUBLE_EQ(gain("fprop:x=f32,1x32x30x40,nhwc:w=f32,64x32x1x1,nchw", 2), 1);
  EXPECT_DOUBLE_EQ(gain("fprop:x=f32,1x32x30x40,nhwc:w=f32,192x32x1x1,nchw", 2), 1.5) << "three sets: two and one";
  EXPECT_DOUBLE_EQ(gain("fprop:x=f32,4x32x30x40,nhwc:w=f32,64x32x1x1,nchw", 3), 2) << "four samples: two, one, one";
  EXPECT_DOUBLE_EQ(gain("fprop:x=f32,1x32x30x40,nhwc:w=f32,64x32x3x3,nchw", 2), 2);
}

// Measured (a Zen 5): 56 us on one thread and 356 on two with 56 columns of outputs, 57 and 60 where both write whole
// lines; without a zero point 102 and 164 us with 109 columns, 99 and 59 with 111.
TEST(OneDnn, ThreadsThatWriteToTheSameLinesWait) {
  if (!cpu_features().avx512_vnni) GTEST_SKIP() << "no AVX512_VNNI";
  const auto gain = [](int width, int filters, int zero_point) {
    const std::string text = fmt::format(
        "fprop:x=u8,1x3x224x{},nhwc:w=s8,{}x3x3x3:y=u8,1x{}x111x{},nhwc:stride=2x2:requant=tensor:zp={},0,0",
        2 * width + 1, filters, filters, width, zero_point);
    return predicted_gain("onednn.jit_int8_avx512_vnni", text, 2);
  };
  EXPECT_LT(gain(111, 64, 3), 1);
  EXPECT_DOUBLE_EQ(gain(112, 64, 3), 2);
  EXPECT_LT(gain(109, 64, 0), 1);
  EXPECT_DOUBLE_EQ(gain(111, 64, 0), 2);
  EXPECT_DOUBLE_EQ(gain(111, 32, 3), 2) << "one set of filters: threads share rows";
  EXPECT_DOUBLE_EQ(gain(111, 128, 3), 2) << "a thread has a line";
}

// Measured (a Zen 4): 402 us for the first and 229 for the second; 60 to 64 were predicted the other way round.
TEST(OneDnn, SmallProductsOfOnePixelAreSlow) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  const auto seconds = [](const char* name) {
    const ConvProblem pixel = problem("fprop:x=f32,1x960x1x1,nhwc:w=f32,1280x960x1x1:bias=1");
    return engine(name).predict_seconds(pixel, {{"layout", "given"}}, {1, cpu_features()});
  };
  EXPECT_GT(seconds("onednn.brgconv_1x1_avx512"), seconds("onednn.jit_1x1_avx512"));
}

// oneDNN offers this one for one thread only.
TEST(OneDnn, FewerThreadsAreTold) {
  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "needs AVX2";
  testing::EngineCase test;
  test.engine = &engine("onednn.brgconv_strided_avx2");
  test.problem = problem("dgrad:x=f32,1x16x3,ncw:w=f32,48x16x3:y=f32,1x48x1,ncw:stride=3");
  test.threads = 3;
  ASSERT_FALSE(refuse(*test.engine, test.problem, {1, cpu_features()}));
  EXPECT_EQ(run(test).failure, "");
  const auto plan = test.engine->plan(test.problem, {}, {.threads = 3, .cpu = cpu_features()});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const std::vector<std::string> notes = (*plan)->notes();
  EXPECT_NE(std::find(notes.begin(), notes.end(), "runs on one thread: not offered for more"), notes.end());
}

TEST(OneDnn, SurveysAreKeptAndSharedByThreads) {
  ConvProblem asked = problem("fprop:x=f32,1x24x11x13,nhwc:w=f32,40x24x3x3:pad=1x1");
  const auto first = survey(asked);
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<Survey>> seen(8);
  for (auto& found : seen) threads.emplace_back([&] { found = survey(asked); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& found : seen) EXPECT_EQ(found, first);
  asked.x.alignment = 4;  // oneDNN's answer does not depend on it
  EXPECT_EQ(survey(asked), first);
  asked = problem("fprop:x=f32,1x24x12x13,nhwc:w=f32,40x24x3x3:pad=1x1");
  EXPECT_NE(survey(asked), first);
}

// A survey that is asked row by row, in any order, finds what one walk to the end finds.
TEST(OneDnn, SurveysWalkAsFarAsAsked) {
  const ConvProblem asked = problem("fprop:x=f32,1x24x11x13,nhwc:w=f32,40x24x3x3:pad=1x1:gamma=1");
  const auto told = [](const SurveyedImplementation* offer) {
    return offer == nullptr
               ? std::string("none")
               : std::to_string(offer->form.any_layout) + "," + std::to_string(offer->form.residual_by_sum) + "," +
                     std::to_string(offer->reordered_bytes);
  };
  Survey whole(asked), forward(asked), backward(asked);
  EXPECT_GT(whole.all().size(), 3U);
  const std::size_t rows = implementations().size();
  for (std::size_t i = 0; i < rows; ++i) {
    EXPECT_EQ(told(forward.find(i)), told(whole.find(i))) << implementations()[i].name();
    EXPECT_EQ(told(backward.find(rows - 1 - i)), told(whole.find(rows - 1 - i)));
    EXPECT_EQ(told(Survey(asked).find(i, true)), told(whole.find(i, true)));
  }
}

}  // namespace
}  // namespace convoy::onednn
