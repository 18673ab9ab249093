// What is special about a provider: its names, that nothing it offers is missed, what its plans copy, what it refuses.
// tests/engines checks every row's results on random problems.
#include "engines/onednn/onednn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "convoy/host_tensor.h"
#include "engines/onednn/implementations.h"
#include "engines/onednn/survey.h"
#include "support/engine_property.h"

namespace convoy::onednn {
namespace {

const Engine& engine(std::string_view name) {
  const auto all = engines();
  return **std::find_if(all.begin(), all.end(), [&](const Engine* e) { return e->info().name == name; });
}

ConvProblem problem(std::string_view text) { return *parse_problem(text); }

// A plan's notes, in one string.
std::string notes_of(std::string_view name, const ConvProblem& problem, std::int64_t layout, bool constant = false) {
  const HostTensor weights = *HostTensor::zeros(problem.w);
  const PlanRequest request{1, cpu_features(), constant ? weights.data.get() : nullptr};
  const auto plan = engine(name).plan(problem, {{"layout", layout}}, request);
  if (!plan.ok()) return plan.error().message;
  std::string text;
  for (const std::string& note : (*plan)->notes()) text += note + "; ";
  return text;
}

std::string reason(std::string_view name, std::string_view text) {
  const auto refusal = refuse(engine(name), problem(text), cpu_features());
  return refusal ? refusal->reason : "taken";
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
    const auto ref = refuse(engine("onednn.ref"), problem, cpu_features());
    if (ref && ref->code != RefusalCode::not_offered) continue;  // oneDNN can't be asked
    const auto surveyed = survey(problem);
    EXPECT_EQ(surveyed->unknown, std::vector<std::string>{}) << print(problem);
    for (const Offer& offer : surveyed->offers) {
      ++offers;
      const auto refusal = refuse(*engines()[offer.row], problem, cpu_features());
      const bool known_wrong = refusal && refusal->reason.find("saturate") != std::string::npos;
      EXPECT_TRUE(!refusal || known_wrong) << engines()[offer.row]->info().name << ": " << refusal->reason << "\n"
                                           << print(problem);
    }
  }
  EXPECT_GT(offers, 400);
}

TEST(OneDnn, BlockedTensorsPassStraightThrough) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  const auto blocked = problem("fprop:x=f32,1x32x9x9,nchw16c:w=f32,48x32x3x3:y=f32,1x48x9x9,nchw16c:pad=1x1");
  EXPECT_EQ(notes_of("onednn.jit_avx512", blocked, 0, true), "jit:avx512_core; w packed at plan time as OIhw16i16o; ");
  // The format that it prefers is the one given: there is no second layout to try.
  EXPECT_EQ(engine("onednn.jit_avx512").knobs(blocked, cpu_features())[0].values, std::vector<std::int64_t>{0});
}

TEST(OneDnn, ReordersAreTold) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  const auto rows = problem("fprop:x=f32,1x32x9x9,nchw:w=f32,48x32x3x3:y=f32,1x48x9x9,nchw:pad=1x1");
  EXPECT_EQ(notes_of("onednn.jit_avx512", rows, 1),
            "jit:avx512_core; reorders x: nchw -> nChw16c; w packed at each execution as OIhw16i16o; "
            "reorders y: nChw16c -> nchw; ");
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
            "pre_padding[0]=268435457: oneDNN's convolutions take at most 268435456");
}

TEST(OneDnn, WhatIsNotOfferedIsSaidWithWhatIs) {
  const std::string why = reason("onednn.gemm_s8s8s32", "fprop:x=u8,1x4x3x3:w=s8,4x4x1x1:y=s32,1x4x3x3");
  if (why.find("VNNI") != std::string::npos) GTEST_SKIP() << why;
  EXPECT_EQ(why.substr(0, why.find(", it offers")),
            "x=u8,1x4x3x3,nchw y=s32,1x4x3x3,nchw and these sizes: oneDNN does not offer it for them");
  EXPECT_NE(why.find("ref"), std::string::npos);
}

// The zero point is added after rounding: 2.5 and 3.5 both become even first.
TEST(OneDnn, TiesAreRoundedBeforeTheZeroPoint) {
  for (const Engine* row : engines()) {
    testing::EngineCase test;
    test.engine = row;
    test.problem = problem("fprop:x=u8,1x20x5x5,nhwc:w=s8,32x20x3x3:y=u8,1x32x3x3,nhwc:requant=channel:zp=0,0,7");
    test.isa = cpu_features().isa;
    test.fill = testing::Fill::small_integers;  // scales are multiples of a quarter: many ties, compared bit for bit
    if (refuse(*row, test.problem, cpu_features())) continue;
    EXPECT_EQ(run(test).failure, "") << describe(test);
  }
}

// docs/known-failures.md: without VNNI, 8-bit products are summed in pairs in 16 bits that saturate. When this fails,
// oneDNN has corrected it, and the refusal can go.
TEST(OneDnn, ByteProductsWithoutVnniSaturate) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  testing::EngineCase test;
  test.problem = problem("fprop:x=u8,1x64x6x6,nhwc:w=s8,32x64x3x3:y=s32,1x32x4x4,nhwc");
  test.isa = cpu_features().isa;
  for (const char* name : {"onednn.brgconv_avx512", "onednn.jit_uni_int8_avx2"}) {
    test.engine = &engine(name);
    EXPECT_NE(reason(name, print(test.problem)).find("saturate"), std::string::npos) << name;
    EXPECT_NE(run(test).failure, "") << name;
  }
}

// oneDNN offers this one for one thread only.
TEST(OneDnn, FewerThreadsAreTold) {
  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "needs AVX2";
  testing::EngineCase test;
  test.engine = &engine("onednn.brgconv_strided_avx2");
  test.problem = problem("dgrad:x=f32,1x16x3,ncw:w=f32,48x16x3:y=f32,1x48x1,ncw:stride=3");
  test.threads = 3;
  ASSERT_FALSE(refuse(*test.engine, test.problem, cpu_features()));
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
  std::vector<std::shared_ptr<const Survey>> seen(8);
  for (auto& found : seen) threads.emplace_back([&] { found = survey(asked); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& found : seen) EXPECT_EQ(found, first);
  asked.x.alignment = 4;  // oneDNN's answer does not depend on it
  EXPECT_EQ(survey(asked), first);
  asked = problem("fprop:x=f32,1x24x12x13,nhwc:w=f32,40x24x3x3:pad=1x1");
  EXPECT_NE(survey(asked), first);
}

}  // namespace
}  // namespace convoy::onednn
