// What is tested of every ProductEngine without a GPU.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/cuda/compiler/product_engine.h"
#include "engines/testing/random.h"

namespace convoy::cuda::testing {

// Each `every`-th tile of the problems, on each architecture that the engine is for, compiles and spills at most so
// many bytes, 128 where it keeps to a part of the device, whose loop over work takes a register or two. At least
// `least` tiles are seen. Skips the test where there is no NVRTC.
struct CompileCases {
  int every = 1;
  std::int64_t most_spilled = 0;
  int least = 0;
};
void expect_compiles(const ProductEngine& engine, std::span<const char* const> problems, const CompileCases& cases);

// Each second tile of the problems gives the right numbers on the processor, its blocks those of one multiprocessor; so
// many at least. Skips the test where there is no compiler.
void expect_right_on_the_processor(const ProductEngine& engine, std::span<const char* const> problems, int least);

// A problem has so many tiles at least on an H100, and each is known by its configuration.
void expect_tiles(const ProductEngine& engine, const char* problem, std::size_t least);

// What an H100 refuses and the words, "" for any, beside `taken`, of which it refuses nothing.
struct RefusedCase {
  const char* problem;
  std::string_view why = {};
};
void expect_refusals(const ProductEngine& engine, std::span<const char* const> taken,
                     const std::vector<RefusedCase>& refused);

// A convolution of one pixel's filter, or of filters that lie side by side: channels last, with any epilogue. Each of
// its 1 to 3 spatial dims has up to `most_pixels` and any stride up to `most_stride`.
struct PointwiseSizes {
  int dims;
  std::int64_t n, x_channels, y_channels, most_pixels;
  std::int64_t most_stride = 1;
  bool dgrad = false;  // its pixels have a filter each: it is as wide as the stride
};
// `kind` draws what is compiled, the epilogue.
std::string pointwise_text(convoy::testing::Random& kind, convoy::testing::Random& random, const char* type,
                           const PointwiseSizes& sizes);

}  // namespace convoy::cuda::testing
