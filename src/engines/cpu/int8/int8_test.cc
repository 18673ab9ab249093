// cpu.int8 against the oracle, bit for bit: every instruction set this machine has, the shapes that take special paths.
#include "engines/cpu/int8/int8.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "convoy/host_tensor.h"
#include "engines/cpu/int8/depthwise.h"
#include "engines/cpu/int8/gemm.h"
#include "engines/reference/reference.h"

namespace convoy {
namespace {

// Fills with all values of the type, the extremes included: sums that a 16-bit accumulator would lose.
HostTensor patterned(const TensorDesc& desc, unsigned seed) {
  auto tensor = *HostTensor::allocate(desc);
  auto* bytes = tensor.as<unsigned char>();
  for (std::int64_t i = 0; i < desc.bytes(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const unsigned pick = seed >> 24;
    bytes[i] = static_cast<unsigned char>(pick % 5 == 0 ? 0xff : pick % 7 == 0 ? 0x80 : pick);
  }
  return tensor;
}

std::vector<CpuFeatures> processors() {
  std::vector<CpuFeatures> all;
  const CpuFeatures& real = cpu_features();
  for (Isa isa : {Isa::avx2, Isa::avx512}) {
    if (real.isa < isa) continue;
    all.push_back(capped(real, isa));
    if (isa == Isa::avx512 && real.avx512_vnni) {
      all.push_back(real);
      all.back().avx512_vnni = false;
    }
  }
  return all;
}

// What AMX's tiles would have, where there are none: whole steps together, of groups of rows equally far apart.
void multiply_as_amx_does(const void* const* a, int row_count, const cpu::Panel& panel, std::int32_t* c) {
  constexpr int kGroup = 16, kSteps = 16, kColumns = 32;
  const auto* weights = static_cast<const std::int8_t*>(panel.weights);
  for (int r = 0; r < row_count; ++r) {
    const void* const* group = a + r / kGroup * kGroup;
    const auto* first = static_cast<const std::uint8_t*>(group[0]);
    const std::uint8_t* row = first + r % kGroup * (static_cast<const std::uint8_t*>(group[1]) - first);
    for (int n = 0; n < kColumns; ++n) {
      std::uint32_t sum = panel.more ? static_cast<std::uint32_t>(c[r * kColumns + n]) : 0;
      for (std::int64_t i = 0; i < panel.steps; ++i) {
        const std::uint8_t* x = row + panel.at[i / kSteps * kSteps] + i % kSteps * 4;
        for (int b = 0; b < 4; ++b) sum += static_cast<std::uint32_t>(x[b] * weights[(i * kColumns + n) * 4 + b]);
      }
      c[r * kColumns + n] = static_cast<std::int32_t>(sum);
    }
  }
}

class EmulatedAmx final : public Engine {
 public:
  EmulatedAmx() : info_(cpu::int8_amx_engine().info()) { info_.name = "emulated AMX"; }
  const EngineInfo& info() const override { return info_; }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (!cpu::int8::is_depthwise(problem)) return std::nullopt;
    return Refusal{RefusalCode::groups, "depthwise"};
  }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    static const cpu::int8::Kernel kernel = [] {
      cpu::int8::Kernel made = cpu::int8::amx_kernel;
      made.multiply = multiply_as_amx_does;
      made.release = [] {};
      return made;
    }();
    auto plan = cpu::int8::make_gemm_plan(problem, {info_.name, {}}, request.threads, kernel);
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  EngineInfo info_;
};

// Each where it runs.
std::vector<std::pair<const Engine*, CpuFeatures>> engines_on_processors() {
  std::vector<std::pair<const Engine*, CpuFeatures>> all;
  for (const CpuFeatures& cpu : processors()) all.emplace_back(&cpu::int8_engine(), cpu);
  const CpuFeatures& real = cpu_features();
  if (real.isa == Isa::avx512 && real.amx_int8 && amx_permitted()) all.emplace_back(&cpu::int8_amx_engine(), real);
  static const EmulatedAmx& emulated = *new EmulatedAmx;
  if (real.isa == Isa::avx512 && real.avx512_vnni) all.emplace_back(&emulated, real);
  return all;
}

// Weights as trained ones are: most are small, so that few steps are taken again without VNNI.
HostTensor mostly_small(const TensorDesc& desc) {
  HostTensor tensor = patterned(desc, 2);
  for (std::int64_t i = 0; i < desc.elements(); ++i) {
    if (i % 97 != 0) tensor.as<std::int8_t>()[i] = static_cast<std::int8_t>(tensor.as<std::int8_t>()[i] / 3);
  }
  return tensor;
}

void expect_exact(const std::string& text, bool small_weights = false) {
  SCOPED_TRACE(text);
  auto parsed = parse_problem(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ConvProblem& problem = *parsed;
  const HostTensor x = patterned(problem.x, 1);
  const HostTensor w = small_weights ? mostly_small(problem.w) : patterned(problem.w, 2);
  // Of one scale for all: some results are next to a half, and a half in f32.
  const bool halves = problem.epilogue.requantize == Requantize::per_tensor;
  HostTensor bias = *HostTensor::allocate(TensorDesc::packed(problem.bias_type(), {problem.out_channels()}));
  HostTensor scales = *HostTensor::allocate(TensorDesc::packed(DataType::f32, {problem.out_channels()}));
  for (std::int64_t k = 0; k < problem.out_channels(); ++k) {
    const double whole = static_cast<double>(k) * 1000 - 5000;
    store_from_double(bias.desc.type, bias.data.get(), k, problem.epilogue.float_bias ? whole + 0.37 : whole);
    scales.as<float>()[k] = halves ? 1.0f / 96 : 0.0011f * static_cast<float>(k % 5 + 1);
  }
  HostTensor w_zeros = *HostTensor::allocate(TensorDesc::packed(DataType::s32, {problem.out_channels()}));
  for (std::int64_t k = 0; k < problem.out_channels(); ++k) {
    w_zeros.as<std::int32_t>()[k] =
        static_cast<std::int32_t>(k * 41 % 256) - (problem.w.type == DataType::s8 ? 128 : 0);
  }
  const HostTensor z = patterned(problem.y, 3);
  const std::int32_t x_zero = problem.x.type == DataType::s8 ? -77 : 201;
  ConvArgs args{.x = x.data.get(),
                .w = w.data.get(),
                .bias = bias.data.get(),
                .z = problem.epilogue.takes_z() ? z.data.get() : nullptr,
                .scales = scales.as<float>(),
                .x_zero_point = &x_zero,
                .w_zero_points = w_zeros.as<std::int32_t>()};

  for (const auto& [engine, cpu] : engines_on_processors()) {
    const auto refusal = refuse(*engine, problem, {1, cpu});
    if (refusal && engine != &cpu::int8_engine() && refusal->code == RefusalCode::groups) continue;  // depthwise
    ASSERT_FALSE(refusal) << refusal->reason;
    for (int threads : {1, 3}) {
      for (bool constant : {true, false}) {
        SCOPED_TRACE(engine->info().name + " " + std::string(name_of(cpu.isa)) + (cpu.avx512_vnni ? " vnni, " : ", ") +
                     std::to_string(threads) + (constant ? " threads, constant weights" : " threads"));
        const PlanRequest request{threads, cpu, constant ? w.data.get() : nullptr};
        auto plan = engine->plan(problem, {}, request);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        HostTensor out = *HostTensor::allocate(problem.y);
        std::memset(out.data.get(), 0x77, static_cast<std::size_t>(problem.y.bytes()));
        const std::size_t bytes = (*plan)->workspace_bytes();
        auto workspace = allocate_aligned(bytes);
        if (bytes > 0) std::memset(workspace.get(), 0xff, bytes);
        auto team = make_cpu_team(threads);
        args.out = out.data.get();
        ASSERT_TRUE((*plan)->execute(args, {*team, workspace.get(), bytes}).ok());
        const auto verified = verify_with_reference(problem, args, out.data.get(), {.exact = true}, *team);
        EXPECT_TRUE(verified.ok()) << to_string(verified.worst) << " is " << verified.actual << ", not "
                                   << verified.expected;
      }
    }
  }
}

TEST(Int8, PointwiseReadInPlace) {
  expect_exact("fprop:x=u8,2x64x7x5,nhwc:w=s8,48x64x1x1,nchw:y=u8,2x48x7x5,nhwc:bias=1:requant=channel:zp=3,0,7");
  expect_exact("fprop:x=u8,2x64x7x5,nhwc:w=s8,40x64x1x1,nchw:y=u8,2x40x7x5,nhwc:bias=f32:requant=channel:zp=3,0,7");
  expect_exact("fprop:x=u8,2x64x7x5,nhwc:w=s8,40x64x1x1,nchw:y=f32,2x40x7x5,nhwc:bias=f32:requant=channel:act=relu");
  expect_exact("fprop:x=s8,1x40x9,ncw:w=s8,40x1x3,ncw:y=s8,1x40x7,ncw:groups=40:bias=f32:requant=tensor");
}
// Whole and parts of AMX's tiles: 32 pixels, 16 filters, 64 terms; rows that lie apart, and none that is read in place.
TEST(Int8, TilesOfPixelsFiltersAndTerms) {
  for (const int pixels : {1, 15, 16, 17, 33, 64, 75}) {
    expect_exact(
        fmt::format("fprop:x=u8,1x64x{0},nwc:w=s8,40x64x1,ncw:y=u8,1x40x{0},nwc:requant=channel:zp=3,0,7", pixels));
    expect_exact(fmt::format("fprop:x=s8,1x70x{0},nwc:w=s8,17x70x1,ncw:y=s32,1x17x{0},nwc:bias=1:zp=-3,0,0", pixels));
  }
  expect_exact("fprop:x=u8,2x128x9x9,nhwc:w=s8,33x128x1x1,nchw:y=u8,2x33x5x5,nhwc:stride=2x2:requant=channel:act=relu");
  expect_exact("fprop:x=u8,2x128x5x5,nhwc:w=s8,64x64x1x1,nchw:y=u8,2x64x5x5,nhwc:groups=2:requant=channel:zp=9,0,2");
}
// Which way x is read decides what the tests below reach.
TEST(Int8, WideMapsAreReadByLines) {
  const CpuFeatures& cpu = cpu_features();
  if (!cpu.avx512_vnni) GTEST_SKIP() << "no AVX512_VNNI";
  const auto notes_of = [&](const Engine& engine, int width) {
    const auto problem = parse_problem(
        fmt::format("fprop:x=u8,1x64x20x{0},nhwc:w=s8,64x64x3x3,nchw:y=s32,1x64x20x{0},nhwc:pad=1x1", width));
    const auto plan = engine.plan(*problem, {}, {1, cpu});
    EXPECT_TRUE(plan.ok());
    return (*plan)->notes().back();
  };
  const std::string lines = "x copied into lines, for each row of the filter";
  EXPECT_EQ(notes_of(cpu::int8_engine(), 7), lines);
  EXPECT_EQ(notes_of(EmulatedAmx(), 28), lines);
  EXPECT_EQ(notes_of(EmulatedAmx(), 7), "x gathered into tiles (implicit im2col)") << "groups of 16 with 7 pixels";
}

// Rows of x are copied once for each row of a filter; AMX takes groups of pixels of one output row.
TEST(Int8, LinesOfWideMaps) {
  for (const char* text : {
           "fprop:x=u8,1x64x28x28,nhwc:w=s8,64x64x3x3,nchw:y=u8,1x64x28x28,nhwc:pad=1x1:bias=1:requant=channel:zp=3,0,"
           "7",
           "fprop:x=s8,2x64x30x29,nhwc:w=s8,40x64x3x3,nchw:y=s8,2x40x15x15,nhwc:pad=1x1:stride=2x2:requant=channel:zp=-"
           "5,0,2",
           "fprop:x=u8,1x64x13x14,nhwc:w=u8,33x64x3x3,nchw:y=u8,1x33x13x14,nhwc:pad=1x1:requant=tensor:zp=9,131,4",
           "fprop:x=u8,1x3x61x59,nhwc:w=s8,64x3x7x7,nchw:y=u8,1x64x31x30,nhwc:pad=3x3:stride=2x2:requant=channel:act="
           "relu:zp=129,0,0",
           "fprop:x=u8,1x128x12x20,nhwc:w=s8,32x64x3x3,nchw:y=s32,1x32x12x20,nhwc:pad=2x2:dilation=2x2:groups=2",
           "fprop:x=u8,1x64x20x20,nhwc:w=s8,512x64x3x3,nchw:y=s32,1x512x20x20,nhwc:pad=1x1",  // a block of the most
                                                                                              // tiles
           "fprop:x=u8,1x64x3x700,nhwc:w=s8,32x64x3x3,nchw:y=s32,1x32x1x698,nhwc:zp=given,0,0",
           "fprop:x=u8,1x16x20x48,nchw:w=s8,32x16x3x3,nchw:y=u8,1x32x20x48,nchw:pad=1x1:requant=channel:zp=3,0,0",
           "fprop:x=u8,1x48x9x40,nhwc:w=s8,20x48x1x3,nchw:y=s32,1x20x9x19,nhwc:stride=1x2",
           "fprop:x=s8,1x64x20x32,nhwc:w=s8,24x64x1x1,nchw:y=s32,1x24x10x16,nhwc:stride=2x2",
       }) {
    expect_exact(text);
  }
}

TEST(Int8, AmxIsSaidToBeMissing) {
  const auto problem = parse_problem("fprop:x=u8,1x64x7x5,nhwc:w=s8,48x64x1x1,nchw:y=u8,1x48x7x5,nhwc:requant=channel");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  CpuFeatures cpu = cpu_features();
  cpu.isa = Isa::avx512;
  cpu.amx_int8 = false;
  const auto refusal = refuse(cpu::int8_amx_engine(), *problem, {1, cpu});
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, RefusalCode::instruction_set);
  EXPECT_NE(refusal->reason.find("instruction set=avx512 here: this engine needs AMX-INT8"), std::string::npos)
      << refusal->reason;
}
TEST(Int8, FewWeightsThatTwoProductsIn16BitsAreTooLargeFor) {
  for (const char* y : {"s32,1x70x9x8,nhwc:bias=1", "u8,1x70x9x8,nhwc:bias=1:requant=channel:act=relu:zp=5,0,3"}) {
    expect_exact(fmt::format("fprop:x=u8,1x24x9x8,nhwc:w=s8,70x24x3x3,nchw:y={}:pad=1x1", y), true);
    expect_exact(fmt::format("fprop:x=u8,1x256x9x8,nhwc:w=s8,70x256x1x1,nchw:y={}", y), true);
  }
}
// Results in f32 are those in double, next to halves as well.
TEST(Int8, ResultsNextToHalves) {
  for (const char* type : {"u8", "s8"}) {
    for (const char* rest : {"", ":act=relu", ":residual=0.5,3,0.5,7", ":residual=0.9137,1,0.3171,0"}) {
      expect_exact(
          fmt::format("fprop:x=u8,1x8x9x8,nhwc:w=s8,70x8x1x1,nchw:y={},1x70x9x8,nhwc:requant=tensor:zp=1,0,5{}", type,
                      rest),
          true);
    }
  }
}
TEST(Int8, ChannelsThatDoNotFillAStep) {
  expect_exact(
      "fprop:x=u8,1x7x9x9,nhwc:w=s8,33x7x3x3,nchw:y=s8,1x33x9x9,nhwc:pad=1x1:bias=1:requant=tensor:zp=128,0,-3");
}
TEST(Int8, EveryTypeWithZeroPoints) {
  for (const char* x : {"u8", "s8"}) {
    for (const char* w : {"s8", "u8"}) {
      // The output's type and epilogue, and its zero point.
      const std::pair<const char*, int> outputs[] = {{"u8,1x5x4x4,nhwc:requant=channel:act=relu", 9},
                                                     {"s8,1x5x4x4,nhwc:requant=tensor", -4},
                                                     {"s32,1x5x4x4,nhwc", 0},
                                                     {"f32,1x5x4x4,nhwc:requant=channel", 0},
                                                     {"s8,1x5x4x4,nhwc:act=clip,-20,90", 0}};
      for (const auto& [y, y_zero] : outputs) {
        expect_exact(fmt::format("fprop:x={},1x6x8x8,nhwc:w={},5x6x3x3,nchw:y={}:pad=1x1/0x0:stride=2x2:zp={},{},{}", x,
                                 w, y, *x == 'u' ? 120 : -7, *w == 'u' ? 130 : -2, y_zero));
      }
    }
  }
}
TEST(Int8, ZeroPointsGivenAtExecution) {
  for (const char* types : {"u8 s8", "s8 s8", "u8 u8", "s8 u8"}) {
    for (const char* zero_points : {"given,0,0", "0,given,0", "given,given,0", "given,5,0", "5,given,0"}) {
      const std::string x(types, 2), w(types + 3, 2);
      expect_exact(
          fmt::format("fprop:x={},1x6x8x8,nhwc:w={},36x3x3x3,nchw:y=s32,1x36x4x4,nhwc:pad=1x1/0x0:stride=2x2:"
                      "groups=2:zp={}",
                      x, w, zero_points));
    }
  }
  // Read in place by VNNI unless the sums of x are needed.
  expect_exact("fprop:x=u8,1x64x7x5,nhwc:w=s8,48x64x1x1,nchw:y=f32,1x48x7x5,nhwc:bias=1:requant=channel:zp=given,0,0");
  expect_exact("fprop:x=u8,1x64x7x5,nhwc:w=s8,48x64x1x1,nchw:y=f32,1x48x7x5,nhwc:requant=channel:zp=9,given,0");
}
TEST(Int8, GroupsDilationFlippedAndPlainLayout) {
  expect_exact(
      "fprop:x=s8,2x12x9x8,nchw:w=s8,8x3x3x2,nchw:y=s32,2x8x7x9,nchw:pad=1x1/"
      "1x1:dilation=2x1:groups=4:mode=conv:zp=-3,4,0");
}
TEST(Int8, DepthwiseInBytes) {
  for (const char* types : {"u8", "s8"}) {
    for (const char* rest : {":requant=channel:act=relu:zp=3,0,7", ":requant=tensor:zp=given,0,2"}) {
      const std::string x = types;
      // Channels: whole and parts of panels, of halves of them. Taps: each remainder by 4.
      for (const int channels : {12, 16, 32, 40, 48, 65, 96}) {
        expect_exact(
            fmt::format("fprop:x={0},2x{1}x7x9,nhwc:w=s8,{1}x1x3x3,nchw:y={0},2x{1}x7x9,nhwc:pad=1x1:"
                        "groups={1}:bias=1{2}",
                        x, channels, rest));
      }
      for (const int taps : {1, 2, 3, 4, 5, 7}) {
        expect_exact(fmt::format("fprop:x={0},1x36x40,nwc:w=s8,36x1x{1},ncw:y={0},1x36x{2},nwc:groups=36:bias=1{3}", x,
                                 taps, 41 - taps, rest));
      }
      // Rows longer than a call takes, columns beside x, x one pixel wide whose channels lie side by side in nchw too.
      expect_exact(
          fmt::format("fprop:x={0},1x33x3x300,nhwc:w=s8,33x1x3x5,nchw:y={0},1x33x3x150,nhwc:pad=1x2:"
                      "stride=1x2:groups=33:bias=1{1}",
                      x, rest));
      expect_exact(
          fmt::format("fprop:x={0},1x72x1,ncw:w=s8,72x1x5,ncw:y={0},1x72x3,ncw:pad=3:groups=72:bias=1{1}", x, rest));
      expect_exact(
          fmt::format("fprop:x={0},1x20x4x5x6,ndhwc:w=s8,20x1x3x2x3,ncdhw:y={0},1x20x4x6x6,ndhwc:pad=1x1x1:"
                      "groups=20:bias=1{1}",
                      x, rest));
    }
  }
}

TEST(Int8, DepthwiseOfASignalKeepsNoRowOfPadding) {
  const auto problem =
      parse_problem("fprop:x=u8,1x64x100000,nwc:w=s8,64x1x3,ncw:y=u8,1x64x100000,nwc:pad=1:groups=64:requant=channel");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const HostTensor w = patterned(problem->w, 2);
  const auto plan = cpu::int8_engine().plan(*problem, {}, {1, cpu_features(), w.data.get()});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_LT((*plan)->workspace_bytes(), std::size_t{100} << 10);
}

TEST(Int8, Depthwise) {
  expect_exact(
      "fprop:x=u8,1x20x6x6,nhwc:w=s8,20x1x3x3,nhwc:y=u8,1x20x6x6,nhwc:pad=1x1:groups=20:bias=1:requant=channel:zp=10,0,"
      "10");
  // Whole vectors of channels, parts of them, and a last pixel behind which the tensor ends.
  for (const char* types : {"u8 s8", "s8 s8", "u8 u8", "s8 u8"}) {
    for (const int channels : {2, 16, 17, 40, 65}) {
      for (const char* zero_points : {"0,0,0", "120,9,0", "given,0,0", "given,-3,0", "0,given,0"}) {
        const std::string x(types, 2), w(types + 3, 2);
        if (x == "s8" && zero_points[0] == '1') continue;
        if (w == "u8" && std::string_view(zero_points).find('-') != std::string_view::npos) continue;
        expect_exact(
            fmt::format("fprop:x={0},2x{2}x7x6,nhwc:w={1},{2}x1x3x3,nchw:y=s32,2x{2}x4x6,nhwc:pad=1x1:"
                        "stride=2x1:groups={2}:zp={3}",
                        x, w, channels, zero_points));
      }
    }
  }
  for (const char* rest :
       {"2x2:y=u8,2x33x8x6,nhwc:pad=0x1/1x0:dilation=2x1:requant=tensor:residual=0.7,121,1.25,3:zp=7,0,9",
        "5x5:y=f32,2x33x9x6,nhwc:pad=2x2:bias=1:requant=channel:act=relu:mode=conv:zp=255,0,0",
        "1x1:y=u8,2x33x9x6,nhwc:requant=channel:zp=3,0,0"}) {
    const std::string_view text = rest;
    expect_exact(
        fmt::format("fprop:x=u8,2x33x9x6,nhwc:w=s8,33x1x{},nchw{}:groups=33", text.substr(0, 3), text.substr(3)));
  }
  expect_exact("fprop:x=s8,2x24x50,nwc:w=s8,24x1x4,ncw:y=s32,2x24x24,nwc:stride=2:groups=24:zp=-9,0,0");
  expect_exact(
      "fprop:x=u8,1x18x4x5x6,ndhwc:w=s8,18x1x3x3x3,ncdhw:y=s32,1x18x4x5x6,ndhwc:pad=1x1x1:groups=18:zp=50,0,0");
  // Where channels lie apart, or several filters read one.
  expect_exact("fprop:x=u8,1x20x6x6,nchw:w=s8,20x1x3x3,nchw:y=s32,1x20x6x6,nchw:pad=1x1:groups=20:zp=5,0,0");
  expect_exact("fprop:x=u8,1x20x6x6,nhwc:w=s8,40x1x3x3,nchw:y=s32,1x40x6x6,nhwc:pad=1x1:groups=20:zp=5,0,0");
}
TEST(Int8, OneAndThreeDimensions) {
  expect_exact("fprop:x=u8,2x8x50,nwc:w=s8,70x8x5,ncw:y=s32,2x70x46,nwc");
  expect_exact("fprop:x=u8,1x4x5x6x7,ndhwc:w=u8,9x4x2x3x3,ncdhw:y=s32,1x9x4x6x7,ndhwc:pad=0x1x1:zp=1,255,0");
}
TEST(Int8, LongReductionWraps) {
  // 255 * -128 * 9 * 8192 < -2^31: the sum has to wrap as 32 bits do.
  expect_exact("fprop:x=u8,1x8192x3x3,nhwc:w=s8,3x8192x3x3,nchw:y=s32,1x3x1x1,nhwc");
}
TEST(Int8, QuantizedResidual) {
  for (const char* rest : {"u8,2x48x7x5,nhwc:bias=1:requant=channel:residual=0.75,121,1.125,0:zp=3,0,0",
                           "u8,2x48x7x5,nhwc:act=relu:requant=tensor:residual=1.5,0,0.5,130:zp=0,0,17",
                           "s8,2x48x7x5,nhwc:bias=1:requant=channel:residual=0.25,-5,0.375,9:zp=0,2,-128"}) {
    expect_exact(std::string("fprop:x=u8,2x64x7x5,nhwc:w=s8,48x64x1x1,nchw:y=") + rest);
  }
  expect_exact(
      "fprop:x=s8,1x12x9x8,nchw:w=s8,10x6x3x3,nchw:y=s8,1x10x9x8,nchw:pad=1x1:groups=2:requant=channel:"
      "residual=0.5,3,0.25,-7:zp=1,0,5");
}
TEST(Int8, RefusesWhatItDoesNotFuse) {
  const auto problem =
      parse_problem("fprop:x=u8,1x8x4x4,nhwc:w=s8,8x8x1x1,nchw:y=u8,1x8x4x4,nhwc:requant=tensor:gamma=1");
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const auto refusal = refuse(cpu::int8_engine(), *problem, {1, cpu_features()});
  ASSERT_TRUE(refusal.has_value());
  EXPECT_NE(refusal->reason.find("gamma"), std::string::npos) << refusal->reason;
}

}  // namespace
}  // namespace convoy
