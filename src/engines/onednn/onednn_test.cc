// What is special about a provider: its names, that nothing it offers is missed, what its plans copy, what it refuses.
// tests/engines checks every row's results on random problems.
#include "engines/onednn/onednn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "convoy/host_tensor.h"
#include "core/stages.h"
#include "engines/onednn/implementations.h"
#include "engines/onednn/known.h"
#include "engines/onednn/request.h"
#include "engines/onednn/survey.h"
#include "engines/reference/reference.h"
#include "engines/testing/engine_property.h"

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
  const auto plan = engine(name).plan(problem, {KnobValue{"layout", layout == 1 ? "preferred" : "given"}}, request);
  if (!plan.ok()) return plan.error().message;
  std::string text;
  for (const std::string& note : (*plan)->notes()) text += note + "; ";
  return text;
}

std::size_t row_of_name(std::string_view name) {
  const auto rows = implementations();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Implementation& row) { return row.name() == name; });
  return static_cast<std::size_t>(found - rows.begin());
}

std::string reason(std::string_view name, std::string_view text) {
  const auto refusal = refuse(engine(name), problem(text), {1, cpu_features()});
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
    const auto ref = refuse(engine("onednn.ref"), problem, {1, cpu_features()});
    if (ref && ref->code != RefusalCode::not_offered) continue;  // oneDNN can't be asked
    const auto surveyed = survey(problem);
    EXPECT_EQ(surveyed->unknown(), std::vector<std::string>{}) << print(problem);
    for (const Offer& offer : surveyed->all()) {
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
          for (const Offer& offer : survey(problem)->all()) {
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
  for (const char* name : {"onednn.jit_int8_1x1_avx512_vnni", "onednn.jit_uni_int8_1x1_avx2_vnni"}) {
    EXPECT_NE(reason(name, many).find("600 products of up to 32640 reach 19584000"), std::string::npos)
        << reason(name, many);
    EXPECT_EQ(reason(name, few), "taken");
  }
}

// docs/known-failures.md: the correction for s8 and zero points is lost where a filter has 8 taps.
TEST(OneDnn, DepthwiseBytesOfEightTapsLoseTheirCorrection) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "skipped: needs AVX-512 with VNNI";
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

// Measured (a Xeon): 47 us on one thread and 41 to 51 on two with 64 filters, 229 and 152 with 192.
TEST(OneDnn, ThreadsShareNoMorePartsThanThereAre) {
  if (cpu_features().isa < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  const auto gain = [](const std::string& text, int threads) {
    const ConvProblem shared = problem(text);
    const Engine& direct = engine("onednn.jit_avx512");
    PlanRequest request{1, cpu_features()};
    const KnobValues knobs = default_knobs(direct.configurations(shared, request));
    const double alone = direct.predict_seconds(shared, knobs, request);
    request.threads = threads;
    return alone / direct.predict_seconds(shared, knobs, request);
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
    const ConvProblem shared = problem(fmt::format(
        "fprop:x=u8,1x3x224x{},nhwc:w=s8,{}x3x3x3:y=u8,1x{}x111x{},nhwc:stride=2x2:requant=tensor:zp={},0,0",
        2 * width + 1, filters, filters, width, zero_point));
    const Engine& direct = engine("onednn.jit_int8_avx512_vnni");
    PlanRequest request{1, cpu_features()};
    const KnobValues knobs = default_knobs(direct.configurations(shared, request));
    const double alone = direct.predict_seconds(shared, knobs, request);
    request.threads = 2;
    return alone / direct.predict_seconds(shared, knobs, request);
  };
  EXPECT_LT(gain(111, 64, 3), 1);
  EXPECT_DOUBLE_EQ(gain(112, 64, 3), 2);
  EXPECT_LT(gain(109, 64, 0), 1);
  EXPECT_DOUBLE_EQ(gain(111, 64, 0), 2);
  EXPECT_DOUBLE_EQ(gain(111, 32, 3), 2) << "one set of filters: threads share rows";
  EXPECT_DOUBLE_EQ(gain(111, 128, 3), 2) << "a thread has a line";
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
  const auto told = [](const Offer* offer) {
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
