#include "engines/cuda/testing/product_cases.h"

#include <fmt/format.h>

#include "device/cuda/nvrtc.h"
#include "engines/cuda/testing/compiled.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda::testing {
namespace {

std::string name_of(const std::string& problem, const ProductTile& tile) {
  return problem + " " + print(Candidate{"", configuration_of(tile)});
}

}  // namespace

void expect_compiles(const ProductEngine& engine, std::span<const char* const> problems, const CompileCases& cases) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  int seen = 0;
  for (const char* text : problems) {
    const ConvProblem problem = problem_of(text);
    for (const int architecture : {80, 90, 100}) {
      const CudaDevice device = device_of(architecture);
      if (refuse(engine, problem, {.cuda = device})) continue;
      for (const ProductTile& tile : engine.tiles(problem, device)) {
        if (++seen % cases.every != 0) continue;
        const int target_sms = seen / cases.every % 3 == 0 ? 66 : 0;
        const PlannedKernels planned = engine.planned(problem, tile, device, target_sms);
        EXPECT_LE(spilled_bytes(planned.kernels.front().request), target_sms > 0 ? 128 : cases.most_spilled)
            << name_of(text, tile) << " sm_" << architecture;
      }
    }
  }
  EXPECT_GE(seen, cases.least);
}

void expect_right_on_the_processor(const ProductEngine& engine, std::span<const char* const> problems, int least) {
  if (const std::string why = generate::no_host_compiler(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  CudaDevice few = device_of(90);
  few.sm_count = 1;  // blocks that go through several tiles
  int seen = 0;
  for (const char* text : problems) {
    const ConvProblem problem = problem_of(text);
    const auto tiles = engine.tiles(problem, few);
    for (std::size_t i = static_cast<std::size_t>(seen % 2); i < tiles.size(); i += 2) {
      PlannedKernels planned = engine.planned(problem, tiles[i], few, 0);
      const convoy::testing::ConvData data(problem, static_cast<std::uint64_t>(++seen), convoy::testing::Fill::normal);
      EXPECT_EQ(walk(planned, problem, data), "") << name_of(text, tiles[i]);
    }
  }
  EXPECT_GE(seen, least);
}

void expect_tiles(const ProductEngine& engine, const char* problem, std::size_t least) {
  const auto tiles = engine.tiles(problem_of(problem), device_of(90));
  EXPECT_GE(tiles.size(), least);
  for (const ProductTile& tile : tiles) {
    const Candidate candidate{engine.info().name, configuration_of(tile)};
    EXPECT_EQ(engine.tile_of(candidate.knobs), tile);
    EXPECT_EQ(*parse_candidate(print(candidate)), candidate);
  }
}

void expect_refusals(const ProductEngine& engine, std::span<const char* const> taken,
                     const std::vector<RefusedCase>& refused) {
  PlanRequest request;
  request.cuda = device_of(90);
  const auto why = [&](const char* text) {
    const auto refusal = refuse(engine, problem_of(text), request);
    return refusal ? refusal->reason : "";
  };
  for (const char* text : taken) EXPECT_EQ(why(text), "") << text;
  for (const RefusedCase& each : refused) {
    if (const std::string reason = why(each.problem); each.why.empty()) {
      EXPECT_NE(reason, "") << each.problem;
    } else {
      EXPECT_EQ(reason, each.why) << each.problem;
    }
  }
  const ConvProblem first = problem_of(taken[0]);
  const auto planned = engine.planned(first, engine.tiles(first, *request.cuda).front(), *request.cuda, 0);
  request.cuda->shared_bytes_per_block = 7;
  EXPECT_EQ(why(taken[0]), planned.kernels.front().shape.dynamic_shared_bytes > 7
                               ? "7 bytes of shared memory a block: this engine needs more"
                               : "");
  request.cuda = device_of(100);
  EXPECT_EQ(why(taken[0]),
            engine.info().min_architecture == 90 ? "device=cuda:0, sm_100: this engine needs sm_90a" : "");
}

std::string pointwise_text(convoy::testing::Random& kind, convoy::testing::Random& random, const char* type,
                           const PointwiseSizes& sizes) {
  const char* const layout = sizes.dims == 1 ? "nwc" : sizes.dims == 2 ? "nhwc" : "ndhwc";
  std::string x, y, filter, stride;
  for (int i = 0; i < sizes.dims; ++i) {
    const std::int64_t step = random.integer(1, sizes.most_stride), size = random.integer(1, sizes.most_pixels);
    x += fmt::format("x{}", sizes.dgrad ? size * step : (size - 1) * step + random.integer(1, step));
    y += fmt::format("x{}", size);
    filter += fmt::format("x{}", sizes.dgrad ? step : 1);
    stride += fmt::format("{}{}", i == 0 ? "" : "x", step);
  }
  std::string text =
      fmt::format("{9}:x={0},{1}x{2}{3},{4}:w={0},{5}x{2}{6},{4}:y={0},{1}x{5}{7},{4}:stride={8}", type, sizes.n,
                  sizes.x_channels, x, layout, sizes.y_channels, filter, y, stride, sizes.dgrad ? "dgrad" : "fprop");
  constexpr const char* kActivations[] = {"",          ":act=relu",    ":act=clip,0,6", ":act=swish,1",
                                          ":act=gelu", ":act=sigmoid", ":act=prelu"};
  if (kind.integer(0, 1) != 0) text += ":bias=1";
  if (kind.integer(0, 2) == 0) text += ":gamma=0.5";
  if (kind.integer(0, 4) == 0) text += ":alpha=1.5:beta=0.5";
  return text + kActivations[kind.integer(0, 6)];
}

}  // namespace convoy::cuda::testing
