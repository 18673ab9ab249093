#include "engines/cuda/testing/product_cases.h"

#include "engines/cuda/testing/compiled.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"

namespace convoy::cuda::testing {
namespace {

std::string name_of(const std::string& problem, const ProductTile& tile) {
  return problem + " " + print(Candidate{"", configuration_of(tile)});
}

}  // namespace

int expect_compiles(const ProductEngine& engine, std::span<const char* const> problems, int every,
                    std::int64_t most_spilled) {
  int seen = 0;
  for (const char* text : problems) {
    const ConvProblem problem = problem_of(text);
    for (const int architecture : {80, 90, 100}) {
      const CudaDevice device = device_of(architecture);
      for (const ProductTile& tile : engine.tiles(problem, device)) {
        if (++seen % every != 0) continue;
        const int target_sms = seen / every % 3 == 0 ? 66 : 0;
        const PlannedKernels planned = engine.planned(problem, tile, device, target_sms);
        EXPECT_LE(spilled_bytes(planned.kernels.front().request), target_sms > 0 ? 128 : most_spilled)
            << name_of(text, tile) << " sm_" << architecture;
      }
    }
  }
  return seen;
}

int expect_right_on_the_processor(const ProductEngine& engine, std::span<const char* const> problems) {
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
  return seen;
}

}  // namespace convoy::cuda::testing
