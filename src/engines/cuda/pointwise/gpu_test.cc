// Problems of all kinds on the GPU, every tile, against the oracle there. Without a GPU the test says so.
#include <gtest/gtest.h>

#include "engines/cuda/pointwise/pointwise.h"
#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/cuda/testing/product_cases.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

// Sizes that no tile divides, all vectors, one to three spatial dims.
std::string random_text(Random& kind, Random& random, const char* type) {
  const int dims = static_cast<int>(random.integer(1, 3));
  const bool f32 = kind.integer(0, 2) == 0, dgrad = kind.integer(0, 2) == 0, tf32 = f32 && kind.integer(0, 1) == 0;
  const std::int64_t some = (std::int64_t{f32 ? 1 : 2} << kind.integer(0, 2)) * random.integer(1, 40);
  const std::int64_t any = kind.integer(0, 2) == 0 ? random.integer(1, 90) : 8 * random.integer(1, 30);
  return testing::pointwise_text(kind, random, f32 ? "f32" : type,
                                 {.dims = dims,
                                  .n = random.integer(1, 3),
                                  .x_channels = dgrad ? 2 * any : some,
                                  .y_channels = dgrad ? some : any,
                                  .most_pixels = dims == 1 ? 200 : 12,
                                  .most_stride = 3,
                                  .dgrad = dgrad}) +
         (tf32 ? ":math=tf32" : "");
}

using PointwiseOnAGpu = testing::PartOnAGpu;

TEST_P(PointwiseOnAGpu, EveryTileIsRight) { check_random(pointwise_engine(), 60, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, PointwiseOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
