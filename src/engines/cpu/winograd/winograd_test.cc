#include "engines/cpu/winograd/winograd.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engines/cpu/common/testing/float_check.h"
#include "engines/cpu/winograd/blocking.h"
#include "engines/cpu/winograd/transforms.h"
#include "engines/cpu/winograd/winograd_kernels.h"

namespace convoy::cpu {
namespace {

void right(const std::string& text) {
  expect_right(winograd_engine(), text);
  expect_right(winograd_engine(), in_f64(text));
}

std::string square(const char* pass, int n, int c, int k, int height, int width, int pad, const char* layout,
                   const std::string& more = "") {
  return fmt::format("{0}:x=f32,{1}x{2}x{4}x{5},{9}:w=f32,{3}x{2}x3x3,nchw:y=f32,{1}x{3}x{6}x{7},{9}:pad={8}x{8}{10}",
                     pass, n, c, k, height, width, height + 2 * pad - 2, width + 2 * pad - 2, pad, layout, more);
}

constexpr const char* kLayouts[] = {"nhwc", "nchw8c", "nchw16c"};

TEST(Winograd, ChannelsAndEdges) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : kLayouts) {
      right(square(pass, 1, 16, 32, 8, 8, 1, layout));
      right(square(pass, 2, 19, 37, 13, 10, 1, layout));
      right(square(pass, 1, 3, 5, 9, 15, 0, layout));
      right(square(pass, 1, 33, 49, 11, 7, 2, layout));
    }
  }
}

TEST(Winograd, MapsSmallerThanATile) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : kLayouts) {
      right(square(pass, 1, 9, 17, 1, 1, 1, layout));
      right(square(pass, 1, 8, 8, 3, 3, 0, layout));
      right(square(pass, 3, 20, 4, 2, 5, 1, layout));
      right(square(pass, 1, 4, 4, 2, 2, 4, layout));  // more padding than the filter needs
    }
  }
}

TEST(Winograd, OneDimension) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : {"nwc", "ncw8c", "ncw16c"}) {
      right(fmt::format("{0}:x=f32,2x21x50,{1}:w=f32,35x21x3,ncw:y=f32,2x35x50,{1}:pad=1", pass, layout));
      right(fmt::format("{0}:x=f32,1x8x3,{1}:w=f32,8x8x3,ncw:y=f32,1x8x1,{1}", pass, layout));
    }
    right(fmt::format("{}:x=f32,1x12x7x19,nhwc:w=f32,20x12x1x3,nchw:y=f32,1x20x9x19,nhwc:pad=1x1", pass));
  }
}

TEST(Winograd, ThreeDimensions) {
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const char* layout : {"ndhwc", "ncdhw8c", "ncdhw16c"}) {
      right(
          fmt::format("{0}:x=f32,1x18x4x9x6,{1}:w=f32,20x18x3x3x3,ncdhw:y=f32,1x20x4x9x6,{1}:pad=1x1x1", pass, layout));
      right(fmt::format("{0}:x=f32,2x5x3x6x6,{1}:w=f32,7x5x2x3x3,ncdhw:y=f32,2x7x3x6x6,{1}:pad=1x1x1/0x1x1", pass,
                        layout));
    }
  }
}

TEST(Winograd, GroupsModesAndLayoutPairs) {
  for (const char* pass : {"fprop", "dgrad"}) {
    right(square(pass, 1, 11, 9, 7, 7, 1, "nhwc", ":mode=conv"));
    right(fmt::format("{}:x=f32,1x32x9x9,nhwc:w=f32,48x16x3x3,nhwc:y=f32,1x48x9x9,nhwc:pad=1x1:groups=2", pass));
    right(fmt::format("{}:x=f32,1x27x9x9,nhwc:w=f32,33x9x3x3,nchw:y=f32,1x33x9x9,nhwc:pad=1x1:groups=3", pass));
    right(fmt::format("{}:x=f32,1x32x9x9,nchw16c:w=f32,64x16x3x3,nchw:y=f32,1x64x9x9,nchw16c:pad=1x1:groups=2", pass));
    for (const auto& [x, y] :
         {std::pair{"nhwc", "nchw16c"}, {"nchw16c", "nhwc"}, {"nchw8c", "nchw16c"}, {"nhwc", "nchw8c"}}) {
      right(fmt::format("{}:x=f32,1x19x9x9,{}:w=f32,21x19x3x3,nchw:y=f32,1x21x9x9,{}:pad=1x1", pass, x, y));
    }
  }
}

TEST(Winograd, Epilogues) {
  for (const char* layout : kLayouts) {
    for (const char* epilogue : {":bias=1:act=relu", ":bias=1:gamma=0.5:act=clip,0,6", ":alpha=2:beta=-0.5:bias=1",
                                 ":bias=1:act=prelu", ":gamma=1:act=hard_swish"}) {
      right(square("fprop", 1, 20, 37, 6, 7, 1, layout, epilogue));
      right(square("dgrad", 1, 37, 20, 6, 7, 1, layout, epilogue));
    }
  }
}

// Enough tiles and channels for several blocks and chunks.
TEST(Winograd, SeveralBlocksAndChunks) {
  right(square("fprop", 1, 64, 160, 40, 44, 1, "nhwc", ":bias=1"));
  right(square("fprop", 5, 96, 80, 7, 7, 1, "nchw16c"));
}

// Outputs of a problem whose tensors are near one, with one value in the middle of what it reads or in one weight, by
// each instruction set and tile.
void expect_unspoilt(const std::string& text, float value, bool in_weights) {
  SCOPED_TRACE(fmt::format("{}, {} in {}", text, value, in_weights ? "w" : "what it reads"));
  const auto problem = parse_problem(text);
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const bool forward = problem->pass == Pass::fprop;
  HostTensor source = uniform_tensor(forward ? problem->x : problem->y, 1);
  HostTensor w = uniform_tensor(problem->w, 2);
  Dims at = in_weights ? problem->w.dims : source.desc.dims;
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = in_weights ? 0 : at[i] / 2;
  if (in_weights) {
    w.as<float>()[problem->w.offset(at.data())] = value;
  } else {
    source.as<float>()[source.desc.offset(at.data())] = value;
  }
  const ConvArgs args{.x = source.data.get(), .w = w.data.get(), .y = source.data.get()};
  const auto team = make_cpu_team(1);
  const Expectation expected(*problem, args, {}, *team);
  for (const CpuFeatures& cpu : f32_processors()) {
    for (const std::int64_t m : {2, 4}) {
      const auto plan = winograd_engine().plan(*problem, {{"m", m}}, {1, cpu, w.data.get()});
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      HostTensor out = *HostTensor::allocate(problem->out());
      const auto workspace = allocate_aligned((*plan)->workspace_bytes());
      std::memset(workspace.get(), 0xff, (*plan)->workspace_bytes());
      ConvArgs run = args;
      run.out = out.data.get();
      ASSERT_TRUE((*plan)->execute(run, {*team, workspace.get(), (*plan)->workspace_bytes()}).ok());
      // 16: what a tile without the value may err by.
      const Verification verified = expected.compare(out.data.get(), Arithmetic::direct);
      EXPECT_LE(verified.max_error, 16) << name_of(cpu.isa) << ", m=" << m << ": element " << to_string(verified.worst)
                                        << " is " << verified.actual << ", not " << verified.expected;
    }
  }
}

TEST(Winograd, SpecialValuesStayInTheirWindows) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
  for (const char* pass : {"fprop", "dgrad"}) {
    for (const float value : {std::nanf(""), infinity, -infinity, largest, 1e38F, 1e30F, -1e10F, 1e5F, 1e-40F}) {
      for (const bool in_weights : {false, true}) {
        for (const char* layout : kLayouts)
          expect_unspoilt(square(pass, 2, 19, 20, 11, 13, 1, layout), value, in_weights);
        expect_unspoilt(square(pass, 1, 8, 16, 9, 9, 0, "nhwc"), value, in_weights);
        expect_unspoilt(fmt::format("{}:x=f32,1x8x30,nwc:w=f32,9x8x3,ncw:y=f32,1x9x30,nwc:pad=1", pass), value,
                        in_weights);
        expect_unspoilt(
            fmt::format("{}:x=f32,1x8x4x9x6,ndhwc:w=f32,7x8x3x3x3,ncdhw:y=f32,1x7x4x9x6,ndhwc:pad=1x1x1", pass), value,
            in_weights);
        expect_unspoilt(
            fmt::format("{}:x=f32,1x32x9x9,nhwc:w=f32,48x16x3x3,nhwc:y=f32,1x48x9x9,nhwc:pad=1x1:groups=2", pass),
            value, in_weights);
      }
    }
  }
}

// Values that are large everywhere are no reason.
TEST(Winograd, OnlyUnevenTilesAreComputedDirectly) {
  const auto problem = parse_problem(square("fprop", 1, 64, 64, 64, 64, 1, "nhwc"));
  const HostTensor x = uniform_tensor(problem->x, 1), w = uniform_tensor(problem->w, 2);
  const auto plan = winograd_engine().plan(*problem, {}, {1, cpu_features(), w.data.get()});
  ASSERT_TRUE(plan.ok());
  const auto run = [&](double scale) {
    HostTensor in = *HostTensor::allocate(problem->x), out = *HostTensor::allocate(problem->y);
    for (std::int64_t i = 0; i < problem->x.elements(); ++i)
      in.as<float>()[i] = static_cast<float>(scale) * x.as<float>()[i];
    const auto workspace = allocate_aligned((*plan)->workspace_bytes());
    const auto team = make_cpu_team(1);
    ConvArgs args{.x = in.data.get(), .out = out.data.get()};
    EXPECT_TRUE((*plan)->execute(args, {*team, workspace.get(), (*plan)->workspace_bytes()}).ok());
    for (std::int64_t i = 0; i < problem->y.elements(); ++i) out.as<float>()[i] /= static_cast<float>(scale);
    return out;
  };
  const HostTensor one = run(1), large = run(0x1p50);
  EXPECT_EQ(std::memcmp(one.data.get(), large.data.get(), static_cast<std::size_t>(problem->y.bytes())), 0);
}

TEST(Winograd, RefusesOtherFiltersAndSmallGroups) {
  const Engine& engine = winograd_engine();
  expect_refused(engine, "fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x5x5,nchw", RefusalCode::filter, "8x8x5x5");
  expect_refused(engine, "fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x3x1,nchw", RefusalCode::filter, "8x8x3x1");
  expect_refused(engine, "fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x3x3,nchw:stride=2x2", RefusalCode::stride, "stride");
  expect_refused(engine, "fprop:x=f32,1x8x8x8,nhwc:w=f32,8x8x3x3,nchw:dilation=2x2", RefusalCode::dilation, "dilation");
  expect_refused(engine, "fprop:x=f32,1x32x8x8,nhwc:w=f32,32x4x3x3,nchw:groups=8", RefusalCode::groups, "groups=8");
  expect_refused(engine, "fprop:x=f32,1x24x8x8,nchw8c:w=f32,24x12x3x3,nchw:groups=2", RefusalCode::groups,
                 "multiple of 8");
}

// F(m,3) on integers: the transforms in double reproduce the sums of a 1D convolution.
TEST(Winograd, FilterTransformMatchesItsDefinition) {
  if (f32_processors().back().isa < Isa::avx2) GTEST_SKIP() << "skipped: no AVX2";
  const WinogradKernels& kernels = avx2_f64::winograd_kernels;
  double g[3 * 4] = {}, of_lanes[6 * 4], largest[3 * 4] = {}, u[6];
  ASSERT_EQ(kernels.lanes, 4);
  const double filter[3] = {2, -3, 5};
  for (int t = 0; t < 3; ++t) g[t * 4 + 1] = filter[t];
  const WinogradFiltersOf<double> transform{g, 1, of_lanes, 4, 4, largest};
  kernels.filters_4[false](&transform);
  for (int p = 0; p < 6; ++p) u[p] = of_lanes[p * 4 + 1];
  for (int t = 0; t < 3; ++t) EXPECT_EQ(largest[t * 4 + 1], std::abs(filter[t]));
  // U_j = g(p_j) / prod (p_j - p_l), from the polynomial g(x) = 2 - 3x + 5x^2.
  const double points[5] = {0, kPointA, -kPointA, kPointB, -kPointB};
  for (int j = 0; j < 5; ++j) {
    double denominator = 1;
    for (int l = 0; l < 5; ++l) {
      if (l != j) denominator *= points[j] - points[l];
    }
    EXPECT_NEAR(u[j], (2 - 3 * points[j] + 5 * points[j] * points[j]) / denominator, 1e-12);
  }
  EXPECT_EQ(u[5], 5);
}

TEST(Winograd, BlockingCoversTheTilesAndFitsTheKernel) {
  for (std::int64_t tiles : {1, 4, 16, 49, 196, 3136, 100000}) {
    for (std::int64_t channels : {3, 64, 512}) {
      for (int threads : {1, 2, 7}) {
        const WinogradSize size{36, tiles, 1, channels, 1, channels, (channels + 15) / 16, 16, 4, 14, threads, 2 << 20};
        const WinogradBlocking b = choose_blocking(size);
        EXPECT_GT(b.seconds, 0);
        EXPECT_GE(b.block_tiles, 1);
        EXPECT_LE(b.block_tiles, tiles);
        EXPECT_GE(b.row_tile, 1);
        EXPECT_LE(b.row_tile, 14);
        EXPECT_TRUE(b.chunk_vectors == size.vectors || b.chunk_vectors % 2 == 0);
      }
    }
  }
}

// The model must know that small maps with many channels are bound by the weights.
// GoogLeNet's 288 filters: a chunk of 16 vectors left 2 for the other thread, as slow as one thread.
TEST(Winograd, TwoThreadsGetAboutAsMuchToDo) {
  for (const int m : {2, 4}) {
    for (const std::int64_t filters : {48, 80, 96, 144, 208, 224, 288, 320, 512}) {
      const std::int64_t points = (m + 2) * (m + 2), tiles = m == 2 ? 49 : 16, vectors = filters / 16;
      const WinogradSize size{points, tiles, 1, 144, 1, 144, vectors, 16, 4, 14, 2, 1 << 20};
      const WinogradBlocking b = choose_blocking(size);
      const std::int64_t all = b.split_chunks ? vectors : tiles,
                         part = b.split_chunks ? b.chunk_vectors : b.block_tiles;
      const std::int64_t parts = (all + part - 1) / part, most = std::min((parts + 1) / 2 * part, all);
      EXPECT_LE(most, (all + 1) / 2 + 1) << filters << " filters, m=" << m;
    }
  }
}

TEST(Winograd, PredictionFollowsTheWeights) {
  const auto gflops = [](const std::string& text) {
    const auto problem = parse_problem(text);
    const float weights = 0;
    const PlanRequest request{1, f32_processors().back(), &weights};
    return flops(*problem) / winograd_engine().predict_seconds(*problem, {}, request) * 1e-9;
  };
  EXPECT_GT(gflops(square("fprop", 1, 64, 64, 56, 56, 1, "nhwc")),
            1.5 * gflops(square("fprop", 1, 512, 512, 7, 7, 1, "nhwc")));
}

}  // namespace
}  // namespace convoy::cpu
