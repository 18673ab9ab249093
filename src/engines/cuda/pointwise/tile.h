// The product that a convolution is, and the tiles that it is cut into.
#pragma once

#include <vector>

#include "convoy/engine.h"
#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda {

// out[m][n] = sum of in[m][k] * w[k][n].
struct PointwiseShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t channels = 0;               // of out
  bool strided = false, scatters = false;  // fprop's rows lie apart; dgrad's columns are taps and channels
  Dims pixels, stride, large;              // D, H, W: of the rows, between them, of the tensor that has the stride
  int in_vector = 1, w_vector = 1, out_vector = 1;  // elements that are copied at once
};
PointwiseShape pointwise_shape(const ConvProblem& problem);

struct PointwiseTile {
  int m = 128, n = 128;  // of out, a block's
  int warps_m = 2, warps_n = 4;
  int blocks = 2;  // that a multiprocessor is to run at once, as far as registers say
  friend bool operator==(const PointwiseTile&, const PointwiseTile&) = default;
};
// Those that there are for the shape, the one that is predicted to be fastest first.
std::vector<PointwiseTile> pointwise_tiles(const PointwiseShape& shape, const ConvProblem& problem,
                                           const CudaDevice& device);
double predicted_seconds(const PointwiseShape& shape, const PointwiseTile& tile, const ConvProblem& problem,
                         const CudaDevice& device);

KnobValues configuration_of(const PointwiseTile& tile);  // columns, rows
PointwiseTile tile_of(const KnobValues& values);

// The kernel's parameter of sizes (kernels/pointwise.cu).
struct PointwiseSizes {
  int m, n, k, steps, blocks_n, channels;
  int pixels[3], stride[3], large[3];
};

struct PointwiseLaunch {
  KernelRequest request;
  PointwiseSizes sizes;
  Launch shape;
};
// What is compiled knows no sizes, so that the layers of a network share it. With `target_sms` (0: all) it does its
// work with any grid, for keep_within(), and knows one size, that of its work.
PointwiseLaunch pointwise_launch(const ConvProblem& problem, const PointwiseShape& shape, const PointwiseTile& tile,
                                 const CudaDevice& device, int target_sms);

}  // namespace convoy::cuda
