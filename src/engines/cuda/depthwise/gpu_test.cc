// Random depthwise problems on the GPU against the oracle there, and the oracle there against the CPU's. Without a GPU
// the tests say so. CONVOY_TEST_FULL=1: 5,000 problems.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "core/notes.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/depthwise/design.h"
#include "engines/cuda/depthwise/problems.h"
#include "engines/cuda/reference/reference.h"
#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/reference/reference.h"
#include "engines/testing/problem_generator.h"

namespace convoy::cuda {
namespace {

using convoy::testing::ConvData;
using convoy::testing::Fill;
using convoy::testing::ProblemOptions;
using convoy::testing::Random;
using testing::full;

// With a bias in f32, or as PyTorch has it.
std::string epilogue_of(Random& random, const std::string& type) {
  return fmt::format(":alpha=2:beta=0.5:bias={}:act=relu", type != "f32" && random.chance(0.5) ? "out" : "1");
}

using GpuTest = testing::OnAGpu;

struct Case {
  ConvProblem problem;
  KnobValues knobs;
  Fill fill = Fill::normal;
  std::uint64_t seed = 0;
  Result<std::unique_ptr<ConvPlan>> plan = Error{};
};

// Compiling takes most of the time: the plans of a batch are made side by side.
void plan_all(const Engine& engine, std::vector<Case>& cases, const PlanRequest& request) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < cases.size(); at = next++) {
        cases[at].plan = engine.plan(cases[at].problem, cases[at].knobs, request);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class RandomOnAGpu : public testing::CompilesElsewhere {
 protected:
  // With one configuration each.
  void check_configurations(std::vector<Case>& cases) {
    plan_all(depthwise_engine(), cases, request_);
    for (Case& each : cases) {
      const std::string text = print(each.problem) + " " + print(Candidate{"", each.knobs});
      if (only_compiles_) {
        EXPECT_EQ(compiled(each.problem, each.plan), "") << text;
        continue;
      }
      ASSERT_TRUE(each.plan.ok()) << text << ": " << each.plan.error().message;
      ASSERT_EQ((*each.plan)->candidate().knobs, each.knobs) << text;
      const ConvData data(each.problem, each.seed, each.fill);
      EXPECT_EQ(testing::run_on_device(**each.plan, each.problem, data, *request_.cuda, false).failure, "") << text;
    }
  }

  void check_problems(ProblemOptions options, std::int64_t count, std::uint64_t seed);
};

// Adds the problem with a configuration of the family that can run, ranked or not, where there is one.
void add_case(std::vector<Case>& cases, Random& random, std::string_view word, const ConvProblem& problem,
              const CudaDevice& device) {
  const DepthwiseShape shape = depthwise_shape(problem);
  const DepthwiseFamily* const family =
      *std::ranges::find(depthwise_families(), word, [](const DepthwiseFamily* each) { return each->word; });
  const auto all = family->configurations(shape, device);
  if (all.empty()) return;
  const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(all.size()) - 1));
  cases.push_back(
      {problem, configuration_of({family, all[at]}), Fill::normal, static_cast<std::uint64_t>(cases.size())});
}

void RandomOnAGpu::check_problems(ProblemOptions options, std::int64_t count, std::uint64_t seed) {
  const Engine& engine = depthwise_engine();
  constexpr std::size_t kBatch = 64;
  Random random(seed);
  convoy::testing::Acceptance acceptance;
  double worst = 0;
  int failures = 0;
  for (std::int64_t done = 0; done < count && failures < 20;) {
    std::vector<Case> cases;
    for (; cases.size() < kBatch && done < count; ++done) {
      const Fill fill = random.pick({Fill::normal, Fill::normal, Fill::spikes, Fill::small_integers, Fill::special});
      options.exact = fill == Fill::small_integers;
      auto problem = convoy::testing::random_problem_for(random, engine, request_, options, acceptance);
      ASSERT_TRUE(problem.has_value());
      Case made{*problem, {}, fill, static_cast<std::uint64_t>(random.integer(0, 1 << 30))};
      const std::vector<KnobValues> listed = engine.configurations(*problem, request_).listed;
      if (!listed.empty()) {
        made.knobs = listed[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(listed.size()) - 1))];
      }
      // It may make a NaN of special values that the oracle has not.
      const auto notes = engine.notes(*problem, made.knobs, request_);
      if (std::find(notes.begin(), notes.end(), note::multiplies_padding) != notes.end() && fill == Fill::special) {
        made.fill = Fill::normal;
      }
      cases.push_back(std::move(made));
    }
    plan_all(engine, cases, request_);
    for (Case& each : cases) {
      const Candidate candidate{engine.info().name, each.knobs};
      if (only_compiles_) {
        EXPECT_EQ(compiled(each.problem, each.plan), "") << print(each.problem) << " " << print(candidate);
        continue;
      }
      if (!each.plan.ok()) {
        ADD_FAILURE() << print(each.problem) << " " << print(candidate) << ": " << each.plan.error().message;
        ++failures;
        continue;
      }
      const ConvData data(each.problem, each.seed, each.fill);
      const auto outcome =
          testing::run_on_device(**each.plan, each.problem, data, *request_.cuda, each.fill == Fill::small_integers);
      if (!outcome.failure.empty()) {
        ADD_FAILURE() << print(each.problem) << " " << print(candidate) << " fill=" << name_of(each.fill)
                      << " seed=" << each.seed << ": " << outcome.failure;
        ++failures;
      }
      worst = std::max(worst, outcome.max_error);
    }
  }
  std::printf("%s: %lld problems, largest error %.3f of the tolerance\n", engine.info().name.c_str(),
              static_cast<long long>(count), worst);
}

// In parts, for machines that are lent for minutes: --gtest_filter=*Part/3, or GTEST_TOTAL_SHARDS.
constexpr int kParts = 10;
class GpuTestPart : public RandomOnAGpu, public ::testing::WithParamInterface<int> {};

TEST_P(GpuTestPart, DepthwiseIsTheOracles) {
  ProblemOptions options = convoy::testing::options_for(depthwise_engine().info());
  options.max_output = 40;
  const std::int64_t count = (full() ? 5000 : 60) / kParts;
  request_.target_sms = GetParam() % 5 == 4 ? 2 : 0;
  check_problems(options, count, 20261121 + static_cast<std::uint64_t>(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Part, GpuTestPart, ::testing::Range(0, kParts));

// Few random problems are of their kind, and their designs rank last for small ones.
TEST_F(RandomOnAGpu, DepthwiseOnTensorCoresIsTheOracles) {
  Random random(5);
  std::vector<Case> cases;
  while (cases.size() < (full() ? 500 : 40)) {
    const std::string type = random.chance(0.5) ? "bf16" : "f16";
    const std::int64_t r = random.integer(2, 4), s = random.integer(2, 4);
    auto problem = parse_problem(
        fmt::format("fprop:x={0},{1}x{2}x{3}x{4},nhwc:w={0},{2}x1x{5}x{6}:pad={7}x{8}:dilation={9}x{9}:groups={2}{10}",
                    type, random.integer(1, 5), 8 * random.integer(1, 12), random.integer(4, 40), random.integer(4, 40),
                    r, s, random.integer(0, r), random.integer(0, s), random.integer(1, 2),
                    random.chance(0.3) ? epilogue_of(random, type) : ""));
    if (!problem.ok()) continue;  // windows larger than the map
    if (random.chance(0.5) && problem->epilogue.bias == false) problem->pass = Pass::dgrad;
    add_case(cases, random, "mma", *problem, *request_.cuda);
  }
  check_configurations(cases);
}

// The same of packed NCHW: maps and signals, odd and even, all passes.
TEST_F(RandomOnAGpu, DepthwiseBandsOfPlanesAreTheOracles) {
  Random random(6);
  std::vector<Case> cases;
  while (cases.size() < (full() ? 1000 : 150)) {
    const std::string type = random.chance(0.5) ? "bf16" : "f16";
    const bool signal = random.chance(0.3);
    const std::int64_t n = random.integer(1, 20), c = random.integer(1, 20), stride = random.integer(1, 2);
    const std::string epilogue = random.chance(0.2) ? epilogue_of(random, type) : "";
    std::string text;
    if (signal) {
      const std::int64_t s = random.integer(1, 60);
      text =
          fmt::format("fprop:x={0},{1}x{2}x{3},ncw:w={0},{2}x1x{4}:pad={5}:stride={6}:dilation={7}:groups={2}{8}", type,
                      n, c, random.integer(1, 400), s, random.integer(0, s), stride, random.integer(1, 2), epilogue);
    } else {
      const std::int64_t r = random.integer(1, 7), s = random.integer(1, 7);
      text = fmt::format(
          "fprop:x={0},{1}x{2}x{3}x{4},nchw:w={0},{2}x1x{5}x{6}:pad={7}x{8}:stride={9}x{10}:dilation={11}x{12}:groups={"
          "2}{13}",
          type, n, c, random.integer(1, 40), random.integer(1, 40), r, s, random.integer(0, r), random.integer(0, s),
          random.integer(1, 2), stride, random.integer(1, 2), random.integer(1, 2), epilogue);
    }
    auto problem = parse_problem(text);
    if (!problem.ok()) continue;  // windows larger than the map
    if (epilogue.empty()) problem->pass = random.pick({Pass::fprop, Pass::dgrad, Pass::wgrad});
    add_case(cases, random, "plane_bands", *problem, *request_.cuda);
  }
  check_configurations(cases);
}

// Every kind of rows in shared memory: both layouts, phases of strides and dilations, edges inside of tiles.
TEST_F(RandomOnAGpu, DepthwiseOfSignalsIsTheOracles) {
  Random random(11);
  std::vector<Case> cases;
  while (cases.size() < (full() ? 500 : 48)) {
    const bool channels_last = random.chance(0.5);
    const std::int64_t kind = random.integer(0, 3);  // plain, dilated, strided, a few taps far apart
    const std::int64_t taps = kind == 3 ? random.integer(2, 4) : random.pick({9, 16, 33, 51, 75, 90, 140});
    const std::int64_t dilation = kind == 1 ? random.integer(2, 3) : kind == 3 ? random.integer(2, 40) : 1;
    const std::int64_t stride = kind == 2 ? random.integer(2, 4) : 1;
    const std::string type = random.pick({"f32", "f32", "bf16", "f16"});
    const std::int64_t channels = random.integer(1, 40);
    const char* layout = channels_last ? "nwc" : "ncw";
    auto problem = parse_problem(fmt::format(
        "fprop:x={0},{1}x{2}x{3},{4}{5}:w={0},{2}x1x{6}:pad={7}:stride={8}:dilation={9}:groups={2}{10}", type,
        random.integer(1, 5), channels, random.pick({64, 100, 250, 301, 500}), layout,
        random.chance(0.2) ? (type == "f32" ? ",align=4" : ",align=2") : "", taps,
        random.integer(0, taps * dilation / 2), stride, dilation, random.chance(0.3) ? epilogue_of(random, type) : ""));
    if (!problem.ok()) continue;  // filters longer than the signal
    if (problem->epilogue.bias == false) problem->pass = random.pick({Pass::fprop, Pass::dgrad, Pass::wgrad});
    add_case(cases, random, "signal", *problem, *request_.cuda);
  }
  check_configurations(cases);
}

// Signals longer than shared memory holds, in strips: every design, padding on one side, rows that aren't aligned.
TEST_F(RandomOnAGpu, DepthwiseOfLongSignalsIsTheOracles) {
  Random random(13);
  std::vector<Case> cases;
  while (cases.size() < (full() ? 1000 : 100)) {
    const std::string type = random.pick({"f32", "bf16", "f16"});
    const std::int64_t taps = random.integer(2, 7), dilation = random.chance(0.3) ? random.integer(2, 20) : 1;
    const std::int64_t stride = random.chance(0.2) ? 2 : 1, reach = (taps - 1) * dilation;
    auto problem = parse_problem(
        fmt::format("fprop:x={0},{1}x{2}x{3},ncw:w={0},{2}x1x{4}:pad={5}/{6}:stride={7}:dilation={8}:groups={2}{9}",
                    type, random.integer(1, 3), random.integer(1, 5), random.pick({16384, 16387, 24001, 65536}), taps,
                    random.integer(0, reach), random.integer(0, reach), stride, dilation,
                    random.chance(0.3) ? epilogue_of(random, type) : ""));
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    if (problem->epilogue.bias == false) problem->pass = random.pick({Pass::fprop, Pass::dgrad, Pass::wgrad});
    for (const KnobValues& each : depthwise_engine().configurations(*problem, request_).listed) {
      cases.push_back({*problem, each, Fill::normal, static_cast<std::uint64_t>(cases.size())});
    }
  }
  check_configurations(cases);
}

// Windows, strides and dilations of all kinds, bands of an image and signals whose images are the rows.
TEST_F(RandomOnAGpu, DepthwiseBandsOfPixelsAreTheOracles) {
  Random random(8);
  std::vector<Case> cases;
  while (cases.size() < (full() ? 600 : 60)) {
    const bool signal = random.chance(0.3);
    const std::string type = random.chance(0.5) ? "bf16" : "f16";
    const std::int64_t channels = 8 * random.integer(1, 9);
    const std::string pass = random.pick({"fprop", "dgrad", "wgrad"});
    const std::int64_t stride = random.chance(0.4) ? 2 : 1, dilation = random.chance(0.2) ? 2 : 1;
    const std::int64_t batch = random.integer(1, 20);
    std::string text;
    if (signal) {
      const std::int64_t w = random.integer(20, 700), s = random.integer(2, 50);
      text = fmt::format("fprop:x={0},{1}x{2}x{3},nwc:w={0},{2}x1x{4}:pad={5}:stride={6}:dilation={7}:groups={2}", type,
                         batch, channels, w, s, random.integer(0, s), stride, dilation);
    } else {
      const std::int64_t h = random.integer(3, 40), w = random.integer(3, 150), r = random.integer(1, 7);
      const std::int64_t s = random.integer(2, 9);
      text = fmt::format(
          "fprop:x={0},{1}x{2}x{3}x{4},nhwc:w={0},{2}x1x{5}x{6}:pad={7}x{8}:stride={9}x{9}:dilation={10}x{10}:groups={"
          "2}",
          type, batch, channels, h, w, r, s, random.integer(0, r), random.integer(0, s), stride, dilation);
    }
    auto problem = parse_problem(text);
    if (!problem.ok()) continue;  // windows larger than the map
    problem->pass = pass == "fprop" ? Pass::fprop : pass == "dgrad" ? Pass::dgrad : Pass::wgrad;
    if (problem->pass == Pass::fprop && random.chance(0.3)) {
      problem->alpha = 2;
      problem->beta = 0.5;
    }
    add_case(cases, random, "pixel_bands", *problem, *request_.cuda);
  }
  check_configurations(cases);
}

// As many planes to add up as don't fit into shared memory: every tile of it.
TEST_F(RandomOnAGpu, ManyFiltersOfOneChannelAreTheOracles) {
  std::vector<Case> cases;
  for (const char* text :
       {"dgrad:x=f32,5x1x49x22,nchw:w=f32,128x1x2x7,nchw:y=f32,5x128x54x18,nchw:pad=3x1",
        "dgrad:x=f32,3x1x50x19,nchw:w=f32,16x1x3x1,nchw:y=f32,3x16x54x21,nchw:pad=3x1",
        "dgrad:x=bf16,2x3x40x40,nchw:w=bf16,96x1x3x3,nchw:y=bf16,2x96x40x40,nchw:pad=1x1:groups=3"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    for (const KnobValues& each : depthwise_engine().configurations(*problem, request_).listed) {
      cases.push_back({*problem, each, Fill::normal, static_cast<std::uint64_t>(cases.size())});
    }
  }
  ASSERT_FALSE(cases.empty());
  check_configurations(cases);
}

// On one SM, where blocks do the work of many, one after another: a tile of every kernel that the problem is offered.
TEST_F(RandomOnAGpu, KeepingToOneSmIsTheOracles) {
  request_.target_sms = 1;
  std::vector<Case> cases;
  std::set<const DepthwiseFamily*> families;
  for (const ConvProblem& problem : one_sm_problems()) {
    std::set<const DepthwiseFamily*> seen;
    for (const KnobValues& each : depthwise_engine().configurations(problem, request_).listed) {
      if (!seen.insert(design_of(each).family).second) continue;
      cases.push_back({problem, each, Fill::normal, static_cast<std::uint64_t>(cases.size())});
    }
    families.merge(seen);
  }
  // compile_test.cc has the same without a GPU.
  EXPECT_EQ(families.size(), depthwise_families().size()) << "offered on " << request_.cuda->name;
  check_configurations(cases);
}

TEST_F(GpuTest, TheDevicesOracleIsTheProcessors) {
  const Engine& engine = reference_engine();
  ProblemOptions options = convoy::testing::options_for(engine.info());
  options.types.clear();
  using enum DataType;
  options.types = {{f32, f32, f32, f32},   {f64, f64, f64, f64},         {f16, f16, f16, f32}, {bf16, bf16, bf16, f32},
                   {bf16, bf16, f32, f32}, {f8_e4m3, f8_e4m3, f16, f32}, {u8, s8, s8, s32},    {s8, s8, s32, s32},
                   {u8, u8, f32, s32},     {f8_e5m2, f8_e5m2, bf16, f32}};
  options.max_products = 200'000;
  Random random(7);
  convoy::testing::Acceptance acceptance;
  const auto team = make_cpu_team(1);
  double worst = 0;
  for (int i = 0; i < (full() ? 2000 : 100); ++i) {
    const auto problem = convoy::testing::random_problem_for(random, engine, request_, options, acceptance);
    ASSERT_TRUE(problem.has_value());
    request_.target_sms = i % 4 == 3 ? 2 : 0;
    const auto plan = engine.plan(*problem, {}, request_);
    ASSERT_TRUE(plan.ok()) << print(*problem) << ": " << plan.error().message;
    const ConvData data(*problem, static_cast<std::uint64_t>(i), Fill::normal);
    const auto outcome = testing::run_on_device(**plan, *problem, data, *request_.cuda, false);
    ASSERT_TRUE(outcome.failure.empty()) << print(*problem) << ": " << outcome.failure;
    if (problem->out().elements() == 0) continue;
    // A thousandth of the tolerance that engines get: only the order of double sums differs.
    const Verification verdict = verify_with_reference(*problem, data.args(), outcome.out.data(), {}, *team);
    worst = std::max(worst, verdict.max_error);
    ASSERT_TRUE(verdict.ok()) << print(*problem) << ": " << verdict.max_error << " at " << to_string(verdict.worst)
                              << ": " << verdict.actual << " instead of " << verdict.expected;
  }
  std::printf("cuda.reference against the processor's oracle: largest error %.3f of the tolerance\n", worst);
}

TEST_F(GpuTest, TheSameBitsEveryTime) {
  for (const char* text :
       {"wgrad:x=f32,8x24x30x30,nhwc:w=f32,24x1x7x7:y=f32,8x24x30x30,nhwc:pad=3x3:groups=24",
        "wgrad:x=bf16,8x24x30x30:w=bf16,24x1x3x3:y=bf16,8x24x30x30:pad=1x1:groups=24",
        "wgrad:x=f16,8x32x56x56,nhwc:w=f16,32x1x5x5:y=f16,8x32x28x28,nhwc:pad=2x2:stride=2x2:groups=32",
        "wgrad:x=f32,2x8x12x14x9:w=f32,16x1x3x3x3:y=f32,2x16x12x14x9:pad=1x1x1:groups=8",
        "wgrad:x=f32,8x24x300:w=f32,24x1x51:y=f32,8x24x300:pad=25:groups=24",
        "fprop:x=bf16,8x24x30x30,nhwc:w=bf16,24x1x7x7:y=bf16,8x24x30x30,nhwc:pad=3x3:groups=24",
        "fprop:x=f32,8x24x30x30:w=f32,24x1x3x3:y=f32,8x24x30x30:pad=1x1:groups=24",
        "dgrad:x=f32,8x24x31x31,nhwc:w=f32,24x1x3x3:y=f32,8x24x16x16,nhwc:pad=1x1:stride=2x2:groups=24",
        "dgrad:x=f16,8x24x30x30:w=f16,48x1x5x5:y=f16,8x48x30x30:pad=2x2:groups=24"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    const auto plan = depthwise_engine().plan(*problem, {}, request_);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const ConvData data(*problem, 3, Fill::normal);
    const auto first = testing::run_on_device(**plan, *problem, data, *request_.cuda, false);
    EXPECT_EQ(first.failure, "");
    for (int i = 0; i < (full() ? 100 : 5); ++i) {
      EXPECT_EQ(testing::run_on_device(**plan, *problem, data, *request_.cuda, false).out, first.out) << text;
    }
  }
}

// The tensor cores multiply what doesn't belong together by zero, which an infinity doesn't survive.
TEST_F(GpuTest, InfinitiesReachOnlyTheirOutputs) {
  for (const char* text : {"fprop:x=bf16,4x48x14x14,nhwc:w=bf16,48x1x3x3:y=bf16,4x48x14x14,nhwc:pad=1x1:groups=48",
                           "dgrad:x=f16,3x32x15x15,nhwc:w=f16,32x1x3x3:y=f16,3x32x15x15,nhwc:pad=1x1:groups=32",
                           "fprop:x=bf16,4x24x28x28:w=bf16,24x1x7x7:y=bf16,4x24x28x28:pad=3x3:groups=24",
                           "dgrad:x=f16,5x9x7x7:w=f16,9x1x3x3:y=f16,5x9x7x7:pad=1x1:groups=9",
                           "wgrad:x=bf16,4x48x14x14,nhwc:w=bf16,48x1x5x5:y=bf16,4x48x14x14,nhwc:pad=2x2:groups=48",
                           "wgrad:x=bf16,5x8x14x14:w=bf16,8x1x5x5:y=bf16,5x8x14x14:pad=2x2:groups=8",
                           "fprop:x=bf16,3x8x200,ncw:w=bf16,8x1x33:y=bf16,3x8x200,ncw:pad=16:groups=8",
                           "wgrad:x=f16,3x8x200,ncw:w=f16,8x1x33:y=f16,3x8x200,ncw:pad=16:groups=8"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    const ConvData data(*problem, 5, Fill::normal);
    const bool dgrad = problem->pass == Pass::dgrad;
    void* in = const_cast<void*>(dgrad ? data.args().y : data.args().x);
    const TensorDesc& desc = dgrad ? problem->y : problem->x;
    for (const std::int64_t at : {0, 1234, 4567}) {
      store_from_double(desc.type, in, at % desc.elements(), std::numeric_limits<double>::infinity());
    }
    // Of a gradient's other tensor one at an edge: it meets the zeros beside the first.
    if (problem->pass == Pass::wgrad) {
      store_from_double(problem->y.type, const_cast<void*>(data.args().y), 0, std::numeric_limits<double>::infinity());
    }
    for (const DepthwiseDesign& design : depthwise_designs(depthwise_shape(*problem), *request_.cuda, 0)) {
      // wgrad on multiply-adds multiplies the zeros beside x too (docs/cuda-kernels.md).
      if (problem->pass == Pass::wgrad && !design.family->skips_padding) continue;
      const KnobValues configuration = configuration_of(design);
      const auto plan = depthwise_engine().plan(*problem, configuration, request_);
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      EXPECT_EQ(testing::run_on_device(**plan, *problem, data, *request_.cuda, false).failure, "")
          << text << " " << print(Candidate{"", configuration});
    }
  }
}

// More elements than 31 bits count. Only samples are compared: see DeviceExpectation.
TEST_F(GpuTest, RightAbove2To31Elements) {
  if (!full()) GTEST_SKIP() << "skipped: 9 GiB of the device's memory: CONVOY_TEST_FULL";
  for (const char* text :
       {"fprop:x=bf16,700x64x224x224,nhwc:w=bf16,64x1x3x3:y=bf16,700x64x224x224,nhwc:pad=1x1:groups=64",
        "dgrad:x=bf16,700x64x224x224:w=bf16,64x1x3x3:y=bf16,700x64x224x224:pad=1x1:groups=64",
        "wgrad:x=bf16,700x64x224x224,nhwc:w=bf16,64x1x3x3:y=bf16,700x64x224x224,nhwc:pad=1x1:groups=64"}) {
    const auto problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    ASSERT_GT(problem->x.elements(), std::int64_t{1} << 31);
    std::string failure = testing::check_large(depthwise_engine(), *problem, request_);
    EXPECT_EQ(failure, "") << text;
  }
}

}  // namespace
}  // namespace convoy::cuda
