// Every specialisation of the lists in problems/ compiles, without a GPU, and the tuned ones spill nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <regex>
#include <set>
#include <thread>

#include "base/environment.h"
#include "core/problem_list.h"
#include "core/suggestions.h"
#include "device/cuda/nvrtc.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/depthwise/design.h"
#include "engines/cuda/depthwise/problems.h"
#include "engines/cuda/depthwise/tile_axis.h"
#include "engines/cuda/testing/compiled.h"
#include "engines/cuda/testing/described.h"

namespace convoy::cuda {
namespace {

using testing::device_of;

std::vector<ConvProblem> listed_depthwise() {
  std::vector<ConvProblem> problems;
  for (const auto& file : std::filesystem::directory_iterator(CONVOY_PROBLEMS)) {
    if (file.path().extension() != ".txt") continue;
    const auto list = read_problem_list(file.path());
    EXPECT_TRUE(list.ok());
    for (const ListedProblem& listed : *list) {
      if (listed.problem.is_depthwise()) problems.push_back(listed.problem);
    }
  }
  return problems;
}

// What the test on one SM relies on: a kernel that isn't among the twelve designs of its problems was never tried
// there.
TEST(DepthwiseKernels, OneSmProblemsAreOfferedAllOfThem) {
  for (const int architecture : {80, 90, 100}) {
    std::set<std::string> families, of_wgrad;
    for (const ConvProblem& problem : one_sm_problems()) {
      for (const DepthwiseDesign& design : depthwise_designs(depthwise_shape(problem), device_of(architecture), 1)) {
        (problem.pass == Pass::wgrad ? of_wgrad : families).insert(design.family->word);
      }
    }
    EXPECT_EQ(families.size(), depthwise_families().size()) << architecture;
    EXPECT_GE(of_wgrad.size(), 6U) << architecture << ": " << fmt::format("{}", fmt::join(of_wgrad, " "));
  }
}

TEST(DepthwiseKernels, CompileWithoutSpills) {
  if (!std::filesystem::exists(CONVOY_PROBLEMS)) GTEST_SKIP() << "skipped: no source tree here";
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  const bool full = environment(Variable::test_full).has_value();
  struct Case {
    ConvProblem problem;
    int architecture;
    int target_sms;  // every third keeps to some, with blocks that do the work of several
  };
  std::vector<Case> cases;
  std::size_t i = 0;
  for (const ConvProblem& listed : listed_depthwise()) {
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
      for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
        for (const Pass pass : {Pass::fprop, Pass::dgrad, Pass::wgrad}) {
          for (const int architecture : {80, 90, 100}) {
            // The sample: every 199th, which is prime to the loops' lengths.
            if (full || ++i % 199 == 0) {
              ConvProblem problem = variant(listed, 128, type, layout, pass);
              if (pass == Pass::fprop) {
                problem.epilogue.bias = true;
                problem.epilogue.narrow_bias = type != DataType::f32 && cases.size() % 2 == 0;
              }
              cases.push_back({problem, architecture, cases.size() % 3 == 2 ? 66 : 0});
            }
          }
        }
      }
    }
  }
  ASSERT_GE(cases.size(), 10U);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<std::thread> threads;
  const auto work = [&] {
    for (std::size_t at = next++; at < cases.size(); at = next++) {
      const auto& [problem, architecture, target_sms] = cases[at];
      const CudaDevice device = device_of(architecture);
      const DepthwiseShape shape = depthwise_shape(problem);
      const DepthwiseDesign design = depthwise_designs(shape, device, target_sms).front();
      for (const KernelLaunch& launch : depthwise_launches(problem, shape, design, device, target_sms).kernels) {
        const std::int64_t spilled = testing::spilled_bytes(launch.request);
        const std::lock_guard lock(mutex);
        // The loop over work takes registers, of which the blocks that run at once leave none.
        EXPECT_LE(spilled, target_sms > 0 ? 128 : 0)
            << print(problem) << " " << print(Candidate{"", configuration_of(design)}) << " sm_" << architecture
            << " target_sms=" << target_sms;
      }
    }
  };
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

// Batches that take one configuration share its kernel.
TEST(DepthwiseKernels, OfPatchesAndRollingStripsKnowNoBatch) {
  for (const DepthwiseFamily* family : depthwise_families()) {
    if (family->word != std::string_view("patch") && family->word != std::string_view("rolling")) continue;
    const auto of_batch = [&](int batch, const DepthwiseFamily::Values& values) {
      const auto problem =
          parse_problem(fmt::format("fprop:x=f16,{}x32x28x28,nhwc:w=f16,32x1x5x5:pad=2x2:groups=32", batch));
      return depthwise_launches(*problem, depthwise_shape(*problem), {family, values}, device_of(90), 0);
    };
    const auto problem = parse_problem("fprop:x=f16,8x32x28x28,nhwc:w=f16,32x1x5x5:pad=2x2:groups=32");
    const auto all = family->configurations(depthwise_shape(*problem), device_of(90));
    ASSERT_FALSE(all.empty()) << family->word;
    const PlannedKernels eight = of_batch(8, all[0]), more = of_batch(32, all[0]);
    EXPECT_EQ(eight.kernels[0].request.constants, more.kernels[0].request.constants) << family->word;
    EXPECT_NE(eight.sizes, more.sizes);
  }
}

TEST(DepthwiseDesigns, AConfigurationSaysAllOfADesign) {
  for (const char* text :
       {"{kernel=general}", "{channels=8,columns=14,kernel=patch,rows=4}", "{columns=7,kernel=rolling,rows=500}",
        "{columns=1,kernel=planes,rows=14}", "{channels=32,columns=16,kernel=mma,rows=16}",
        "{channels=4,images=16,kernel=plane_bands,rows=56}",
        "{channels=32,kernel=pixel_bands,rows=500,unroll=2,warp_channels=4}",
        "{channels=1,kernel=signal,positions=16,tiles=250}"}) {
    const auto candidate = parse_candidate(std::string("cuda.depthwise") + text);
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    EXPECT_EQ(configuration_of(design_of(candidate->knobs)), candidate->knobs) << text;
  }
  EXPECT_EQ(design_of({}), DepthwiseDesign{});
}

// One of each kind: phases of a stride, of its dgrad and of a dilation, more taps than a thread keeps or straight code
// has, taps far apart, rows that aren't aligned.
TEST(DepthwiseDesigns, LongFiltersOfSignalsAreTakenBySignal) {
  const CudaDevice device = device_of(90);
  for (const char* text : {"fprop:x=f32,32x256x500:w=f32,256x1x75:pad=37:groups=256",
                           "fprop:x=f32,32x256x500,nwc:w=f32,256x1x51:y=f32,32x256x500,nwc:pad=25:groups=256",
                           "dgrad:x=f32,32x64x1000:w=f32,64x1x33:y=f32,32x64x500:pad=16:stride=2:groups=64",
                           "fprop:x=f32,32x256x1000,nwc:w=f32,256x1x33:y=f32,32x256x500,nwc:pad=16:stride=2:groups=256",
                           "wgrad:x=f32,32x256x500:w=f32,256x1x87:y=f32,32x256x500:pad=86:dilation=2:groups=256",
                           "wgrad:x=f32,32x256x500,nwc:w=f32,256x1x300:y=f32,32x256x201,nwc:groups=256",
                           "fprop:x=f32,32x256x501:w=f32,256x1x300:pad=150:groups=256"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
    const DepthwiseShape shape = depthwise_shape(*problem);
    const auto designs = depthwise_designs(shape, device, 0);
    EXPECT_STREQ(designs.front().family->word, "signal") << text;
    if (const auto api = nvrtc(); !api.ok()) continue;
    for (const int architecture : {80, 90}) {
      const auto launches = depthwise_launches(*problem, shape, designs.front(), device_of(architecture), 0);
      EXPECT_EQ(testing::spilled_bytes(launches.kernels.front().request), 0) << text << " sm_" << architecture;
    }
  }
}

// Rows of tiles of a block of planes.
std::int64_t strip_tiles(const KernelLaunch& launch) {
  std::smatch tiles;
  const std::string& constants = launch.request.constants;
  EXPECT_TRUE(std::regex_search(constants, tiles, std::regex("STRIP_TILES = ([0-9]+);"))) << constants;
  return tiles.empty() ? 0 : std::stoll(tiles[1]);
}

// A causal signal of any length: no row of it has to fit into shared memory.
TEST(DepthwiseDesigns, LongSignalsLieInStrips) {
  const CudaDevice device = device_of(90);
  for (const char* text : {"fprop:x=bf16,1x2048x65536:w=bf16,2048x1x4:y=bf16,1x2048x65536:pad=3/0:groups=2048",
                           "dgrad:x=f32,8x2048x8192:w=f32,2048x1x4:y=f32,8x2048x8192:pad=3/0:groups=2048",
                           "wgrad:x=f32,1x2048x65536:w=f32,2048x1x4:y=f32,1x2048x65536:pad=3/0:groups=2048",
                           "wgrad:x=bf16,1x64x65536:w=bf16,64x1x2:y=bf16,1x64x65537:pad=1/1:groups=64",
                           "fprop:x=f16,2x8x70001:w=f16,8x1x7:pad=18/0:dilation=3:groups=8",
                           "dgrad:x=f32,2x8x70001:w=f32,8x1x5:pad=4/0:stride=2:groups=8"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
    const DepthwiseShape shape = depthwise_shape(*problem);
    int planes = 0;
    for (const DepthwiseDesign& design : depthwise_designs(shape, device, 0)) {
      if (design.family->word != std::string_view("planes")) continue;
      const KernelLaunch launch = depthwise_launches(*problem, shape, design, device, 0).kernels.front();
      EXPECT_LT(strip_tiles(launch), tiling_of(shape, knob_or(configuration_of(design), "rows", 0), 1).h.tiles())
          << text;
      EXPECT_LE(4 * launch.shape.dynamic_shared_bytes, device.shared_bytes_per_sm) << text;
      if (planes++ > 0 || !nvrtc().ok()) continue;
      EXPECT_EQ(testing::spilled_bytes(launch.request), 0) << text;
    }
    EXPECT_GT(planes, 0) << text;
  }
}

TEST(DepthwiseDesigns, AStridedViewAndAnOddChannelGoOneByOne) {
  const CudaDevice device = device_of(90);
  const auto vectors = [&](const char* text) {
    const auto problem = parse_problem(text);
    EXPECT_TRUE(problem.ok()) << problem.error().message;
    std::int64_t most = 0;
    for (const DepthwiseDesign& design : depthwise_designs(depthwise_shape(*problem), device, 0)) {
      most = std::max(most, knob_or(configuration_of(design), "channels", 1));
    }
    return most;
  };
  EXPECT_GT(vectors("fprop:x=bf16,8x32x28x28,nhwc:w=bf16,32x1x3x3:pad=1x1:groups=32"), 1);
  EXPECT_EQ(vectors("fprop:x=bf16,8x33x28x28,nhwc:w=bf16,33x1x3x3:pad=1x1:groups=33"), 1);
  EXPECT_EQ(vectors("fprop:x=bf16,8x32x28x28,nhwc,align=2:w=bf16,32x1x3x3:pad=1x1:groups=32"), 1);
  EXPECT_EQ(
      vectors(
          "fprop:x=bf16,8x32x28x28,strides=27440x1x980x35:w=bf16,32x1x3x3:y=bf16,8x32x28x28,nhwc:pad=1x1:groups=32"),
      1);
}

// dgrad adds up a channel's filters: a strip of one plane is not enough for it.
TEST(DepthwiseDesigns, PlanesThatAreAddedUpLieInSharedMemoryWhole) {
  const CudaDevice device = device_of(90);
  for (const char* text : {"dgrad:x=f32,5x1x49x22,nchw:w=f32,128x1x2x7,nchw:y=f32,5x128x54x18,nchw:pad=3x1",
                           "dgrad:x=f32,3x1x50x19,nchw:w=f32,16x1x3x1,nchw:y=f32,3x16x54x21,nchw:pad=3x1",
                           "dgrad:x=f32,3x4x20x19,nchw:w=f32,16x1x3x3,nchw:y=f32,3x16x20x19,nchw:pad=1x1:groups=4"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    const DepthwiseShape shape = depthwise_shape(*problem);
    const auto designs = depthwise_designs(shape, device, 0);
    ASSERT_FALSE(designs.empty()) << text;
    for (const DepthwiseDesign& design : designs) {
      if (design.family->word != std::string_view("planes")) continue;
      const KernelLaunch launch = depthwise_launches(*problem, shape, design, device, 0).kernels.front();
      const KnobValues values = configuration_of(design);
      EXPECT_GE(strip_tiles(launch), tiling_of(shape, knob_or(values, "rows", 0), 1).h.tiles())
          << text << print(Candidate{"", values});
    }
  }
}

TEST(DepthwiseEngine, RefusesWithAReason) {
  PlanRequest request;
  request.cuda = device_of(90);
  const auto reason = [&](const char* text) {
    const auto problem = parse_problem(text);
    EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().message;
    const auto refusal = refuse(depthwise_engine(), *problem, request);
    return refusal ? refusal->reason : std::string("taken");
  };
  EXPECT_EQ(reason("fprop:x=f32,1x8x5x5:w=f32,8x1x3x3:groups=8"), "taken");
  EXPECT_EQ(reason("fprop:x=f32,1x8x5x5:w=f32,8x2x3x3:groups=4"),
            "groups=4: this engine needs as many groups as x has channels, 8");
  EXPECT_NE(reason("fprop:x=f32,1x8x5x5,nchw8c:w=f32,8x1x3x3:groups=8").find("blocks of 8"), std::string::npos);
  EXPECT_NE(reason("fprop:x=f64,1x8x5x5:w=f64,8x1x3x3:groups=8"), "taken");
  request.cuda->architecture = 75;
  EXPECT_NE(reason("fprop:x=f32,1x8x5x5:w=f32,8x1x3x3:groups=8"), "taken");
}

// Measured selection tries these: the heuristic's first design of this gradient takes 68 us on an H200, its fourth 53.
TEST(DepthwiseEngine, DesignsThatMayBeAsFastAreSuggested) {
  const auto problem = parse_problem(
      "wgrad:x=bf16,64x96x112x112,nhwc:w=bf16,96x1x3x3,nhwc:y=bf16,64x96x56x56,nhwc:pad=1x1:stride=2x2:groups=96");
  ASSERT_TRUE(problem.ok());
  PlanRequest request;
  request.cuda = device_of(90);
  const Configurations configurations = depthwise_engine().configurations(*problem, request);
  const auto suggested = suggestions_of(depthwise_engine(), *problem, request);
  ASSERT_EQ(suggested.size(), 4U);
  for (std::size_t i = 0; i < suggested.size(); ++i) {
    EXPECT_EQ(suggested[i], configurations.listed[i]);
  }
}

}  // namespace
}  // namespace convoy::cuda
