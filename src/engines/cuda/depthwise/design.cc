#include "engines/cuda/depthwise/design.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engines/cuda/depthwise/blocks.h"
#include "engines/cuda/depthwise/pixel_bands.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostProducts = 3000;  // of an unrolled patch: more only makes compiling slow
constexpr std::int64_t kMostRegisters = 168;  // wanted of a thread; beyond, too few threads hide latency
constexpr std::int64_t kMostDesigns = 12;
constexpr std::int64_t kManyOutputs = 4 << 20;  // more than keep a device's threads busy

bool unit_strides(const DepthwiseShape& shape) { return shape.axes[1].stride == 1 && shape.axes[2].stride == 1; }

bool fits_rolling(const DepthwiseShape& shape) {
  return unit_strides(shape) && shape.axes[1].dilation == 1 && shape.axes[2].dilation == 1 && !shape.volumetric() &&
         shape.fan_in == 1;
}

bool fits_tensor_cores(const DepthwiseShape& shape) {
  return shape.element_bytes() == 2 && !wgrad(shape) && unit_strides(shape) && !shape.volumetric() &&
         shape.multiplier == 1 && shape.fan_in == 1 && shape.alignment % 16 == 0;
}

// NHWC in whole vectors of 8 channels. Larger windows are faster on `rolling`, rows of three taps on `patch`.
bool fits_mma(const DepthwiseShape& shape) {
  if (!fits_tensor_cores(shape) || !shape.channels_innermost() || shape.out_channels % 8 != 0) return false;
  for (const int dim : {0, 3, 4}) {
    if (shape.in_strides[dim] % 8 != 0 || shape.out_strides[dim] % 8 != 0) return false;
  }
  return plane_taps(shape) > 3 && plane_taps(shape) <= 16 && shape.axes[1].out > 1;
}

// Signals with one filter a channel. With few taps the others are as fast, but for wgrad of taps far apart.
bool fits_signal(const DepthwiseShape& shape) {
  const DepthwiseAxis& axis = signal_axis(shape);
  const DepthwiseAxis& other = &axis == &shape.axes[1] ? shape.axes[2] : shape.axes[1];
  if (shape.volumetric() || other.in > 1 || other.out > 1 || other.taps > 1 || other.pad != 0) return false;
  if (shape.fan_in != 1 || axis.taps > 1024 || axis.stride > 4) return false;
  if (axis.dilation > 1 && axis.stride > 1) return false;
  if (wgrad(shape) && axis.taps > 96 && axis.stride > 1) return false;
  return axis.taps >= 8 || (wgrad(shape) && !signal_channels_last(shape) && shape.element_bytes() == 4);
}

// Where no other kernel was ever faster, whatever is predicted.
bool slower_than_signal(const DepthwiseShape& shape) {
  const DepthwiseAxis& axis = signal_axis(shape);
  if (signal_channels_last(shape)) return axis.taps >= 24 && axis.stride == 1;
  return axis.taps >= 16 || (wgrad(shape) && shape.element_bytes() == 4 && axis.out >= 512);
}

// Blocks of 64 to 512 threads, a tile of the signal each; beside one another as many as make whole warps of a channel's
// threads, or all of them.
std::vector<DepthwiseDesign> signal_designs(const DepthwiseShape& shape) {
  const bool channels_last = signal_channels_last(shape);
  std::vector<DepthwiseDesign> designs;
  for (const std::int64_t columns : {32, 16, 8}) {
    const SignalRows whole = signal_rows(shape, {DepthwiseKernel::signal, 1, columns, 1});
    const std::int64_t tiles = whole.segments;
    // Small tiles load more for what they compute, but make more threads; for a few taps there is little to compute.
    const bool few = signal_axis(shape).taps < 8;
    if (few && columns != 8) continue;
    if (columns == 8 && !few && signal_axis(shape).stride == 1 && shape.outputs() > kManyOutputs) continue;
    const auto add = [&](std::int64_t rows, std::int64_t planes) {
      const std::int64_t threads = rows * planes * whole.item_phases;
      if (threads > 32 && threads <= 512) designs.push_back({DepthwiseKernel::signal, rows, columns, planes});
    };
    for (const std::int64_t planes : {1, 2, 4, 8, 16, 32, 64}) {
      if (planes > 1 && planes >= 2 * shape.out_channels) continue;
      // A warp's channels lie in a row of 32, where there are as many.
      if (channels_last && (planes < std::min<std::int64_t>(32, shape.out_channels) || planes < 8)) continue;
      if (channels_last && planes * shape.element_bytes() > 128) continue;
      for (std::int64_t rows = 1; rows < 2 * tiles; rows *= 2) add(rows, planes);
    }
    if (!channels_last && (tiles & (tiles - 1)) != 0) add(tiles, 1);
  }
  // What is predicted to take as long as another is faster in blocks of 256 threads.
  const std::int64_t phases = signal_rows(shape, {DepthwiseKernel::signal, 1, 8, 1}).item_phases;
  const auto distance = [&](const DepthwiseDesign& design) {
    return std::abs(std::log2(static_cast<double>(design.rows * design.vector * phases) / 256));
  };
  std::stable_sort(designs.begin(), designs.end(),
                   [&](const DepthwiseDesign& a, const DepthwiseDesign& b) { return distance(a) < distance(b); });
  return designs;
}

// NHWC in whole vectors of 8 channels.
bool fits_pixel_bands(const DepthwiseShape& shape) {
  if (shape.element_bytes() != 2 || shape.volumetric() || shape.multiplier > 1 || shape.fan_in > 1) return false;
  if (shape.alignment % 16 != 0 || !shape.channels_innermost() || shape.out_channels % 8 != 0) return false;
  for (const int dim : {0, 3, 4}) {
    if (shape.in_strides[dim] % 8 != 0 || shape.out_strides[dim] % 8 != 0) return false;
  }
  return plane_taps(shape) > 1 && (!shape.transposed || (shape.axes[1].pad >= 0 && shape.axes[2].pad >= 0));
}

bool legal(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device) {
  const std::int64_t most_shared = std::min<std::int64_t>(device.shared_bytes_per_block, 113 * 1024);
  if (design.kernel == DepthwiseKernel::mma) {
    return plane_taps(shape) * design.vector / 8 <= 100 &&
           blocks_of(shape, design, device, 0).shared_bytes <= most_shared;
  }
  if (design.kernel == DepthwiseKernel::signal) {
    const DepthwiseBlocks blocks = blocks_of(shape, design, device, 0);
    return blocks.threads <= 512 && blocks.shared_bytes <= most_shared;
  }
  if (design.kernel == DepthwiseKernel::plane_bands) {
    return blocks_of(shape, design, device, 0).shared_bytes <= most_shared;
  }
  if (design.kernel == DepthwiseKernel::pixel_bands) {
    if (design.rows > 9999) return false;  // nobody tried larger ones
    const DepthwiseBlocks blocks = blocks_of(shape, design, device, 0);
    // Before 9.0 the compiler needs a few registers more.
    const std::int64_t spare = blocks.threads == 512 && device.architecture < 90 ? 8 : 0;
    return bands_registers(bands_shape(shape), design) + spare <=
               std::min<std::int64_t>(232, kRegistersPerSm / blocks.threads) &&
           blocks.shared_bytes <= device.shared_bytes_per_block && blocks.threads <= 512;
  }
  const Tiling t = tiling_of(shape, design);
  const std::int64_t taps = plane_taps(shape);
  if (shape.transposed && (design.rows % shape.axes[1].stride != 0 || design.columns % shape.axes[2].stride != 0)) {
    return false;
  }
  if (design.kernel == DepthwiseKernel::rolling) {
    return shape.axes[1].taps * shape.axes[2].taps * design.columns <= 1200 &&
           registers_wanted(shape, design, 0) <= 200;
  }
  const double products = static_cast<double>(design.rows * design.columns * design.vector) *
                          static_cast<double>(taps) /
                          (shape.transposed ? static_cast<double>(shape.axes[1].stride * shape.axes[2].stride) : 1);
  if (products > kMostProducts || t.h.span() > 64 || t.w.span() > 160) return false;
  if (registers_wanted(shape, design, 1) > kMostRegisters) return false;
  // Larger patches leave too few threads for what they save.
  const bool light = taps < 16 && !shape.transposed;
  const std::int64_t patch = design.rows * design.columns * design.vector;
  if (design.kernel == DepthwiseKernel::patch && patch > (light && !wgrad(shape) ? 36 : 64)) return false;
  // Sums of several large filters leave room for neither pixels nor threads.
  if (wgrad(shape) && taps * design.vector > (design.vector > 1 ? 64 : 128)) return false;
  if (design.kernel == DepthwiseKernel::planes) {
    if (least_plane_bytes(shape, design) > device.shared_bytes_per_block) return false;
    // A strip is rows of one plane: where several are added up, they have to fit whole.
    return shape.fan_in == 1 || blocks_of(shape, design, device, 0).strip_tiles >= t.h.tiles();
  }
  return shape.taps() * shape.fan_in * design.vector * 4 * 8 <= 44 * 1024;
}

bool vector_fits(const DepthwiseShape& shape, std::int64_t vector) {
  if (vector == 1) return true;
  if (!shape.channels_innermost() || shape.multiplier > 1 || shape.fan_in > 1) return false;
  if (shape.out_channels % vector != 0 || vector * shape.element_bytes() > 16) return false;
  if (shape.alignment % (vector * shape.element_bytes()) != 0) return false;
  for (const int dim : {0, 2, 3, 4}) {
    if (shape.in_strides[dim] % vector != 0 || shape.out_strides[dim] % vector != 0) return false;
  }
  return true;
}

// The kernels index with 32 bits inside a tensor's dims, and wgrad's second stage writes filters in their packed order.
bool fits_tuned(const DepthwiseShape& shape) {
  if (!wgrad(shape)) return true;
  return shape.filters_packed;
}

}  // namespace

std::vector<DepthwiseDesign> depthwise_designs(const DepthwiseShape& shape, const CudaDevice& device, int target_sms) {
  std::vector<DepthwiseDesign> designs;
  const auto add = [&](const DepthwiseDesign& design) {
    if (legal(shape, design, device)) designs.push_back(design);
  };
  const bool signal = fits_tuned(shape) && fits_signal(shape);
  if (fits_tuned(shape) && !(signal && slower_than_signal(shape))) {
    const bool planar = shape.in_order && !shape.volumetric() && shape.alignment % 16 == 0;
    const std::int64_t step_h = shape.transposed ? shape.axes[1].stride : 1;
    const std::int64_t step_w = shape.transposed ? shape.axes[2].stride : 1;
    for (const std::int64_t rows : {1, 2, 4, 7, 8, 14}) {
      if (rows > 1 && rows / 2 >= std::max<std::int64_t>(shape.axes[1].out, step_h)) continue;
      for (const std::int64_t columns : {1, 2, 4, 7, 8, 14}) {
        if (columns > 1 && columns / 2 >= std::max<std::int64_t>(shape.axes[2].out, step_w)) continue;
        if (planar) {
          add({DepthwiseKernel::planes, rows, columns, 1});
          continue;
        }
        for (const std::int64_t vector : {1, 2, 4, 8}) {
          if (vector_fits(shape, vector)) add({DepthwiseKernel::patch, rows, columns, vector});
        }
      }
    }
    if (!planar && fits_rolling(shape) && plane_taps(shape) >= 16 && !signal) {
      // Narrower strips than the image allows read too much beside what they use.
      for (const std::int64_t columns : {1, 2, 4, 7, 8}) {
        if (columns > 1 && columns / 2 >= shape.axes[2].out) continue;
        if (columns < 7 && columns * 2 <= shape.axes[2].out && shape.axes[2].out > 1) continue;
        for (const std::int64_t rows : {14, 28, 56, 112, 250, 500}) {
          if (rows > 14 && rows / 2 >= shape.axes[1].out) continue;
          add({DepthwiseKernel::rolling, rows, columns, 1});
        }
      }
    }
  }
  if (fits_mma(shape)) {
    add({DepthwiseKernel::mma, 8, 16, 16});
    if (shape.axes[1].out > 8) {
      add({DepthwiseKernel::mma, 16, 16, 16});
      if (device.architecture >= 90) {  // before, the compiler spills a few registers
        for (const std::int64_t rows : {8, 16}) add({DepthwiseKernel::mma, rows, 16, 32});
      }
    }
  }
  for (const DepthwiseDesign& design : plane_bands_designs(shape)) add(design);
  if (fits_pixel_bands(shape) && fits_tuned(shape)) {
    const std::int64_t rows = bands_shape(shape).axes[1].out;
    for (const std::int64_t bands : {1, 2, 4, 8, 16, 32, 64}) {
      if (bands > rows) continue;
      for (const auto& [unroll, columns, slice] :
           {std::tuple{1, 2, 16}, {2, 2, 16}, {1, 2, 32}, {2, 2, 32}, {1, 4, 32}, {2, 4, 32}}) {
        add({DepthwiseKernel::pixel_bands, ceil_div(rows, bands), columns, slice, unroll});
      }
    }
  }
  if (signal) {
    for (const DepthwiseDesign& design : signal_designs(shape)) add(design);
  }
  std::vector<std::pair<double, DepthwiseDesign>> ranked;
  for (const DepthwiseDesign& design : designs) {
    ranked.emplace_back(predicted_seconds(shape, design, device, target_sms), design);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  designs.clear();
  for (const auto& [seconds, design] : ranked) {
    if (static_cast<std::int64_t>(designs.size()) < kMostDesigns - 1) designs.push_back(design);
  }
  designs.push_back({});  // general
  return designs;
}

}  // namespace convoy::cuda
