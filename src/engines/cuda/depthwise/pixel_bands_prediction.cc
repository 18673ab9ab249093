#include <algorithm>
#include <cmath>

#include "engines/cuda/depthwise/pixel_bands.h"

namespace convoy::cuda {
namespace {

constexpr double kClock = 1.98e9;

// Fitted, by least squares of logarithms, to what an H200 took for 128 images of bf16 layers, NHWC and NWC, several
// tiles each. Cycles of a processor's quarter where not said otherwise.
constexpr double kProduct = 7.6;           // m16n8k16
constexpr double kLoad = 2, kResult = 10;  // of four matrices; of a product's sums
constexpr double kCopy = 67;               // 32 times 16 bytes to shared memory, scattered as pixels' channels are
constexpr double kTranspose = 8, kStore = 8;
constexpr double kLatency = 2.3;                      // of a warp's instructions, when it is alone
constexpr double kUnit = 3400;                        // weights, first rows
constexpr double kRequests = 82e9;                    // a second that the L2 cache serves: one of each pixel of a block
constexpr double kMemory = 2.9e12;                    // bytes a second
constexpr double kUnhidden = 0.08;                    // share of the shorter time that is not hidden
constexpr double kForward = 6.2e-6, kWgrad = 8.3e-6;  // launches

// What a warp does in a step, in cycles.
double step_cycles(const DepthwiseShape& shape, const DepthwiseDesign& design, const Bands& b, std::int64_t threads) {
  const std::int64_t pieces = design.vector / 8, warps = threads / 32;
  const std::int64_t channels = bands_channels(design), unroll = bands_unroll(design);
  const std::int64_t rows = b.rows_in * unroll;
  const std::int64_t pairs = ceil_div(b.window_chunks, 2);
  const std::int64_t columns = std::min(b.row_chunks * 8, shape.axes[2].in);
  double products = static_cast<double>(channels * shape.axes[1].taps * b.blocks_n * b.groups * unroll);
  products *= wgrad(shape) ? static_cast<double>(pairs) : static_cast<double>(b.window_chunks) / 2;
  auto loads = static_cast<double>(channels * rows * pairs * b.groups);
  auto copies = static_cast<double>(ceil_div(b.instances * columns * pieces, threads) * rows);
  auto transposed = static_cast<double>(ceil_div(rows * b.instances * b.row_chunks * pieces, 4 * warps));
  double results = 0, stores = 0;
  if (wgrad(shape)) {
    loads += static_cast<double>(ceil_div(channels, 2) * unroll * b.groups);
    copies += static_cast<double>(ceil_div(b.instances * b.blocks_w * 8 * pieces, threads) * unroll);
    transposed += static_cast<double>(ceil_div(unroll * b.instances * b.blocks_w * pieces, 4 * warps));
  } else {
    results = static_cast<double>(channels * b.rows_out * unroll * b.blocks_n * b.groups);
    stores = static_cast<double>(ceil_div(16 * b.groups * pieces, 4 * warps) * b.rows_out * unroll * b.blocks_n);
  }
  return kProduct * products + kLoad * loads + kResult * results + kCopy * copies + kTranspose * transposed +
         kStore * stores;
}

}  // namespace

double bands_seconds(const DepthwiseShape& from, const DepthwiseDesign& design, const DepthwiseBlocks& blocks,
                     double sms) {
  const DepthwiseShape shape = bands_shape(from);
  const Bands b = bands_of(shape, design);
  const DepthwiseAxis& h = shape.axes[1];
  std::int64_t skipped = 0;  // rows that a band which is the whole image leaves out
  if (b.bands == 1 && !shape.transposed) {
    skipped = wgrad(shape) ? std::max<std::int64_t>(0, b.ahead - h.pad / h.stride)
                           : std::clamp<std::int64_t>(h.pad / h.stride, 0, b.ahead);
  }
  const auto steps = static_cast<double>(ceil_div(b.band_units + b.ahead - skipped, bands_unroll(design)));
  const std::int64_t slices = ceil_div(shape.out_channels, design.vector);
  const bool persistent = blocks.splits < b.places;
  const auto places = static_cast<double>(persistent ? ceil_div(b.places, blocks.splits) : 1);
  const double units = static_cast<double>(slices * blocks.splits) / sms;  // of a processor
  const double warp = step_cycles(shape, design, b, blocks.threads);
  const auto together = static_cast<double>(blocks.blocks_per_sm);
  const auto wave = [&](double resident) {
    const double step = std::max(resident * static_cast<double>(blocks.threads) / 128 * warp, kLatency * warp);
    return places * steps * step + kUnit;
  };
  const double full = std::floor(units / together + 1e-9);
  const double rest = std::ceil(units - 1e-9) - full * together;
  const double computed = (full * wave(together) + (rest > 0 ? wave(rest) : 0)) / kClock;

  const double elements = static_cast<double>(shape.outputs()) + static_cast<double>(shape.batch * shape.in_channels) *
                                                                     static_cast<double>(h.in * shape.axes[2].in);
  const auto request = static_cast<double>(std::min(design.vector, shape.out_channels) * 2);
  const double moved = elements * 2 / std::min(kMemory, kRequests * request);
  return (wgrad(shape) ? kWgrad : kForward) + std::max(computed, moved) + kUnhidden * std::min(computed, moved);
}

}  // namespace convoy::cuda
