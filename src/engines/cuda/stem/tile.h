// The tiles that a stem's pixels and channels are cut into.
#pragma once

#include <vector>

#include "convoy/engine.h"
#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda {

constexpr std::int64_t kMostStemTerms = 256;  // of a window, all of which a block has in shared memory

struct StemTile {
  int m = 128, n = 64;  // pixels and channels of out, a block's
  int warps_m = 4, warps_n = 2;
  friend bool operator==(const StemTile&, const StemTile&) = default;
};
// The one that is predicted to be fastest first.
std::vector<StemTile> stem_tiles(const ConvProblem& problem, const CudaDevice& device);
double predicted_seconds(const ConvProblem& problem, const StemTile& tile, const CudaDevice& device);

KnobValues configuration_of(const StemTile& tile);  // columns, rows
StemTile stem_tile_of(const KnobValues& values);

std::int64_t stem_terms(const ConvProblem& problem);   // of a window
std::int64_t stem_pixels(const ConvProblem& problem);  // of out

// The kernel's parameter of sizes (kernels/stem.cu).
struct StemSizes {
  long long x_strides[4];
  int m, n, tiles_m, blocks_n, splits;
  int pixels[3], in[3], stride[3], pad[3];
};

struct StemLaunch {
  KernelRequest request;
  StemSizes sizes;
  Launch shape;
};
// With `target_sms` (0: all) the kernel does its work with any grid, for keep_within().
StemLaunch stem_launch(const ConvProblem& problem, const StemTile& tile, const CudaDevice& device, int target_sms);

}  // namespace convoy::cuda
