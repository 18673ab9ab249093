// cpu.bf16 against the oracle: AVX512_BF16 and AMX's tiles, the shapes that take special paths.
#include "engines/cpu/bf16/bf16.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "convoy/host_tensor.h"
#include "core/float_formats.h"
#include "engines/cpu/bf16/gemm.h"
#include "engines/reference/reference.h"

namespace convoy {
namespace {

HostTensor random_tensor(const TensorDesc& desc, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> values;
  auto tensor = *HostTensor::allocate(desc);
  for (std::int64_t i = 0; i < desc.elements(); ++i) store_from_double(desc.type, tensor.data.get(), i, values(random));
  return tensor;
}

// What AMX's tiles would have, where there are none: whole steps together, of groups of rows equally far apart.
void multiply_as_amx_does(const void* const* a, int row_count, const cpu::Panel& panel, float* c) {
  constexpr int kGroup = 16, kSteps = 16, kColumns = 32;
  const auto* weights = static_cast<const std::uint16_t*>(panel.weights);
  for (int r = 0; r < row_count; ++r) {
    const void* const* group = a + r / kGroup * kGroup;
    const auto* first = static_cast<const std::uint8_t*>(group[0]);
    const std::uint8_t* row = first + r % kGroup * (static_cast<const std::uint8_t*>(group[1]) - first);
    for (int n = 0; n < kColumns; ++n) {
      float sum = panel.more ? c[r * kColumns + n] : 0;
      for (std::int64_t i = 0; i < panel.steps; ++i) {
        std::uint16_t x[2];
        std::memcpy(x, row + panel.at[i / kSteps * kSteps] + i % kSteps * 4, sizeof(x));
        for (int b = 0; b < 2; ++b) sum += bf16_to_f32(x[b]) * bf16_to_f32(weights[(i * kColumns + n) * 2 + b]);
      }
      c[r * kColumns + n] = sum;
    }
  }
}

const cpu::bf16::Kernel& emulated_kernel() {
  static const cpu::bf16::Kernel kernel = [] {
    cpu::bf16::Kernel made = cpu::bf16::amx_kernel;
    made.multiply = multiply_as_amx_does;
    made.release = [] {};
    return made;
  }();
  return kernel;
}

// By name.
std::vector<std::pair<std::string, const cpu::bf16::Kernel*>> kernels() {
  const CpuFeatures& cpu = cpu_features();
  std::vector<std::pair<std::string, const cpu::bf16::Kernel*>> all;
  if (cpu.isa < Isa::avx512 || !cpu.avx512_bf16) return all;
  all.emplace_back("AVX512_BF16", &cpu::bf16::avx512_kernel);
  all.emplace_back("emulated AMX", &emulated_kernel());
  if (cpu.amx_bf16 && amx_permitted()) all.emplace_back("AMX", &cpu::bf16::amx_kernel);
  return all;
}

class Bf16 : public testing::Test {
 protected:
  void SetUp() override {
    if (kernels().empty()) GTEST_SKIP() << "no AVX512_BF16";
  }
};

void expect_close(const std::string& text) {
  SCOPED_TRACE(text);
  auto parsed = parse_problem(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ConvProblem& problem = *parsed;
  const HostTensor x = random_tensor(problem.x, 1), w = random_tensor(problem.w, 2), z = random_tensor(problem.y, 3);
  const HostTensor prior = random_tensor(problem.y, 4);
  const auto per_channel = TensorDesc::packed(DataType::f32, {problem.out_channels()});
  const HostTensor bias = random_tensor(per_channel, 5), slopes = random_tensor(per_channel, 6);
  for (const auto& [name, kernel] : kernels()) {
    for (const int threads : {1, 3}) {
      for (const bool constant : {true, false}) {
        SCOPED_TRACE(name + (constant ? ", constant weights, " : ", ") + std::to_string(threads) + " threads");
        const auto plan = cpu::bf16::make_gemm_plan(problem, {"test", {}}, threads, *kernel);
        ASSERT_TRUE(plan->keep(constant ? w.data.get() : nullptr).ok());
        HostTensor out = *HostTensor::allocate(problem.y);
        std::memcpy(out.data.get(), prior.data.get(), static_cast<std::size_t>(problem.y.bytes()));
        const std::size_t bytes = plan->workspace_bytes();
        const auto workspace = allocate_aligned(bytes);
        if (bytes > 0) std::memset(workspace.get(), 0xff, bytes);  // no numbers
        const auto team = make_cpu_team(threads);
        const bool takes_z = problem.epilogue.takes_z();
        ConvArgs args{.x = x.data.get(),
                      .w = w.data.get(),
                      .out = out.data.get(),
                      .bias = bias.as<float>(),
                      .z = takes_z ? z.data.get() : nullptr,
                      .slopes = slopes.as<float>()};
        ASSERT_TRUE(plan->execute(args, {*team, workspace.get(), bytes}).ok());
        args.out = prior.data.get();
        const auto verified = verify_with_reference(problem, args, out.data.get(), {}, *team);
        EXPECT_TRUE(verified.ok()) << to_string(verified.worst) << " is " << verified.actual << ", not "
                                   << verified.expected;
      }
    }
  }
}

std::string with_types(const char* format, int a = 0, int b = 0) { return fmt::format(fmt::runtime(format), a, b); }

TEST_F(Bf16, PointwiseInPlaceAndGathered) {
  for (const int pixels : {1, 15, 16, 17, 33, 75}) {
    for (const int channels : {64, 24, 3, 160}) {
      expect_close(
          with_types("fprop:x=bf16,1x{1}x{0},nwc:w=bf16,40x{1}x1,ncw:y=bf16,1x40x{0},nwc:bias=1", pixels, channels));
    }
  }
  expect_close("fprop:x=bf16,2x64x9x9,nhwc:w=bf16,33x64x1x1,nchw:y=bf16,2x33x5x5,nhwc:stride=2x2");
}

TEST_F(Bf16, LinesOfWideMaps) {
  for (const char* rest :
       {"1x64x20x28,nhwc:w=bf16,64x64x3x3,nchw:y=bf16,1x64x20x28,nhwc:pad=1x1",
        "2x64x14x29,nhwc:w=bf16,40x64x3x3,nchw:y=bf16,2x40x7x15,nhwc:pad=1x1:stride=2x2",
        "1x3x31x59,nhwc:w=bf16,64x3x7x7,nchw:y=bf16,1x64x16x30,nhwc:pad=3x3:stride=2x2",
        "1x128x12x20,nhwc:w=bf16,32x64x3x3,nchw:y=bf16,1x32x12x20,nhwc:pad=2x2:dilation=2x2:groups=2",
        "1x64x20x20,nhwc:w=bf16,256x64x3x3,nchw:y=bf16,1x256x20x20,nhwc:pad=1x1",  // a block with the most tiles
        "1x24x9x40,nhwc:w=bf16,20x24x3x3,nchw:y=bf16,1x20x9x40,nhwc:pad=1x1",
        "1x64x7x7,nhwc:w=bf16,48x64x3x3,nchw:y=bf16,1x48x7x7,nhwc:pad=1x1:mode=conv"}) {
    expect_close(std::string("fprop:x=bf16,") + rest);
  }
  expect_close("fprop:x=bf16,1x4x5x6x7,ndhwc:w=bf16,9x4x2x3x3,ncdhw:y=bf16,1x9x4x6x7,ndhwc:pad=0x1x1");
}

TEST_F(Bf16, NarrowGroupsAreMerged) {
  expect_close("fprop:x=bf16,1x128x17x20,nhwc:w=bf16,128x4x3x3,nchw:y=bf16,1x128x17x20,nhwc:pad=1x1:groups=32:bias=1");
  expect_close("fprop:x=bf16,2x48x9x16,nhwc:w=bf16,96x8x3x3,nchw:y=bf16,2x96x5x8,nhwc:pad=1x1:stride=2x2:groups=6");
  expect_close("fprop:x=bf16,1x21x9x9,nhwc:w=bf16,14x3x3x3,nchw:y=bf16,1x14x7x7,nhwc:groups=7");
  const auto problem =
      parse_problem("fprop:x=bf16,1x128x56x56,nhwc:w=bf16,128x4x3x3,nchw:y=bf16,1x128x56x56,nhwc:pad=1x1:groups=32");
  EXPECT_EQ(cpu::bf16::work_of(*problem, cpu::bf16::amx_kernel).merged, 8);
}

TEST_F(Bf16, EveryEpilogue) {
  for (const char* rest :
       {"act=relu", "act=clip,0,6:bias=1", "act=leaky_relu,0.1", "act=prelu", "act=swish,1:bias=1", "act=hard_swish",
        "act=gelu", "act=sigmoid", "gamma=1:bias=1:act=relu", "alpha=0.5:beta=2:bias=1", "gamma=0.5:act=swish,1"}) {
    expect_close(std::string("fprop:x=bf16,1x32x5x7,nhwc:w=bf16,45x32x1x1,nchw:y=bf16,1x45x5x7,nhwc:") + rest);
  }
}

// What is no number stays in the pixels that read it: padding of steps is no neighbour's value.
TEST_F(Bf16, InfinitiesReachOnlyWhatReadsThem) {
  const auto problem = *parse_problem("fprop:x=bf16,1x24x40,nwc:w=bf16,16x24x1,ncw:y=bf16,1x16x40,nwc");
  HostTensor x = random_tensor(problem.x, 1);
  const HostTensor w = random_tensor(problem.w, 2);
  for (int c = 0; c < 24; ++c) {
    store_from_double(DataType::bf16, x.data.get(), 20 * 24 + c, std::numeric_limits<double>::infinity());
  }
  for (const auto& [name, kernel] : kernels()) {
    SCOPED_TRACE(name);
    const auto plan = cpu::bf16::make_gemm_plan(problem, {"test", {}}, 1, *kernel);
    HostTensor out = *HostTensor::zeros(problem.y);
    const auto workspace = allocate_aligned(plan->workspace_bytes());
    std::memset(workspace.get(), 0xff, plan->workspace_bytes());
    const auto team = make_cpu_team(1);
    const ConvArgs args{.x = x.data.get(), .w = w.data.get(), .out = out.data.get()};
    ASSERT_TRUE(plan->execute(args, {*team, workspace.get(), plan->workspace_bytes()}).ok());
    for (int pixel = 0; pixel < 40; ++pixel) {
      EXPECT_EQ(std::isfinite(load_as_double(DataType::bf16, out.data.get(), pixel * 16)), pixel != 20) << pixel;
    }
  }
}

TEST(Bf16Engine, SaysWhatIsMissing) {
  const auto problem = *parse_problem("fprop:x=bf16,1x64x7x5,nhwc:w=bf16,48x64x1x1,nchw:y=bf16,1x48x7x5,nhwc");
  CpuFeatures cpu = cpu_features();
  cpu.isa = Isa::avx512;
  cpu.avx512_bf16 = true;
  cpu.amx_bf16 = false;
  const auto no_amx = refuse(cpu::bf16_amx_engine(), problem, {1, cpu});
  ASSERT_TRUE(no_amx);
  EXPECT_EQ(no_amx->code, RefusalCode::instruction_set);
  EXPECT_NE(no_amx->reason.find("needs AMX-BF16"), std::string::npos) << no_amx->reason;
  cpu.avx512_bf16 = false;
  EXPECT_TRUE(refuse(cpu::bf16_engine(), problem, {1, cpu}));
}

}  // namespace
}  // namespace convoy
