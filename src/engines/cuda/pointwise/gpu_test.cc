// Problems of all kinds on the GPU, every tile, against the oracle there. Without a GPU the test says so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engines/cuda/pointwise/pointwise.h"
#include "engines/cuda/testing/on_a_gpu.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Random;

// Sizes that no tile divides, all vectors, all epilogues, one to three spatial dims.
std::string random_text(Random& random, const char* type) {
  const int dims = static_cast<int>(random.integer(1, 3));
  const bool forward = random.integer(0, 2) != 0;
  const std::int64_t unit = std::int64_t{2} << random.integer(0, 2);
  const std::int64_t k = unit * random.integer(1, 40),
                     c = random.integer(0, 2) == 0 ? random.integer(1, 90) : 8 * random.integer(1, 30);
  const char* const layout = dims == 1 ? "nwc" : dims == 2 ? "nhwc" : "ndhwc";
  std::string x, y, filter, stride;
  for (int i = 0; i < dims; ++i) {
    const std::int64_t s = random.integer(1, 3), size = random.integer(1, dims == 1 ? 200 : 12);
    x += fmt::format("x{}", forward ? (size - 1) * s + random.integer(1, s) : size * s);
    y += fmt::format("x{}", size);
    filter += fmt::format("x{}", forward ? 1 : s);
    stride += fmt::format("{}{}", i == 0 ? "" : "x", s);
  }
  const std::int64_t n = random.integer(1, 3);
  std::string text =
      forward ? fmt::format("fprop:x={0},{1}x{2}{3},{4}:w={0},{5}x{2}{6},{4}:y={0},{1}x{5}{7},{4}:stride={8}", type, n,
                            k, x, layout, c, filter, y, stride)
              : fmt::format("dgrad:x={0},{1}x{2}{3},{4}:w={0},{5}x{2}{6},{4}:y={0},{1}x{5}{7},{4}:stride={8}", type, n,
                            2 * c, x, layout, k, filter, y, stride);
  constexpr const char* kActivations[] = {"",          ":act=relu",    ":act=clip,0,6", ":act=swish,1",
                                          ":act=gelu", ":act=sigmoid", ":act=prelu"};
  if (random.integer(0, 1) != 0) text += ":bias=1";
  if (random.integer(0, 2) == 0) text += ":gamma=0.5";
  if (random.integer(0, 4) == 0) text += ":alpha=1.5:beta=0.5";
  return text + kActivations[random.integer(0, 6)];
}

using PointwiseOnAGpu = testing::PartOnAGpu;

TEST_P(PointwiseOnAGpu, EveryTileIsRight) { check_random(pointwise_engine(), 60, random_text); }
INSTANTIATE_TEST_SUITE_P(Part, PointwiseOnAGpu, ::testing::Range(0, testing::kParts));

}  // namespace
}  // namespace convoy::cuda
