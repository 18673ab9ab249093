// NHWC, and any strides one channel at a time: a thread has a patch of one to eight channels (depthwise_nhwc.cu; wgrad:
// a filter, over such patches).
#include <algorithm>
#include <cmath>

#include "engines/cuda/depthwise/lanes.h"

namespace convoy::cuda {
namespace {

constexpr FamilyCosts kCosts{{0.76, 6.4, 0.62, 3.7, 0.02, 9.3, 0.02, 4.9, 55, 0.1, 0.46, 2.7},
                             {1.24, 0.15, 3.95, 0.02, 70, 0.02, 0.02, 4.4, 25, 0.25, 0.61, 3.2}};

// Neighbouring threads have neighbouring channels. Where those don't lie together each element is an access of its own,
// of which a multiprocessor reads and writes so many a second: between layouts 3x3 of 192 channels of 32x28x28 in f32
// took 30 us reading nchw and 82 writing it (an H200).
constexpr double kReadsApart = 2.1e9, kWritesApart = 0.53e9;

constexpr std::int64_t kFewThreads = 256;  // of a multiprocessor: what runs at once with ...
constexpr std::int64_t kMostAlone = 224;   // ... registers

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

struct Patch {
  static constexpr const char* word = "patch";
  static constexpr std::array<DepthwiseKnob, 3> knobs = {
      {{"channels", "of a thread"}, {"columns", "of a thread's patch"}, {"rows", "of a thread's patch"}}};
  std::int64_t channels, columns, rows;

  static std::vector<Patch> configurations(const DepthwiseShape& shape, const CudaDevice&) {
    std::vector<Patch> all;
    if (planar(shape) || !shape.adds_up() || signal_is_fastest(shape)) return all;
    for (const LaneTile& tile : lane_tiles(shape)) {
      for (const std::int64_t channels : {1, 2, 4, 8}) {
        const Patch patch{channels, tile.columns, tile.rows};
        if (vector_fits(shape, channels) && patch.runs(shape)) all.push_back(patch);
      }
    }
    return all;
  }

  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
    ChannelBlocks on = blocks(shape, device);
    // Two bytes at a time take a tenth longer.
    if (wgrad(shape) && channels == 1 && shape.element_bytes() == 2) on.balance *= 0.9;
    Work work = work_of(shape, lane_work(shape, {rows, columns}), channels);
    // Threads that load 8 or 16 bytes at a time wait for as much as more of those that load 4.
    work.channels = static_cast<double>(channels);
    if (!wgrad(shape)) {
      work.waits = static_cast<double>(ceil_div(tiling_of(shape, rows, columns).h.span(), prefetch(shape, device) + 1));
    }
    work.in_flight = std::sqrt(static_cast<double>(channels * shape.element_bytes()) / 4);
    return fitted_seconds(shape, work, kCosts.of(shape), on, device) + apart_seconds(shape, device);
  }

  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
    const ChannelBlocks on = blocks(shape, device);
    DepthwiseKernel kernel(wgrad(shape) ? "depthwise_nhwc_wgrad.cu" : "depthwise_nhwc.cu", shape, on, wgrad(shape));
    kernel.constants.set("TILE_H", rows).set("TILE_W", columns).set("VECTOR", channels);
    kernel.constants.set("CHANNEL_THREADS", on.channel_threads).set("PREFETCH", prefetch(shape, device));
    if (wgrad(shape)) kernel.constants.set("SPLITS", on.splits);
    return kernel;
  }

 private:
  static double apart_seconds(const DepthwiseShape& shape, const CudaDevice& device) {
    const double reads = shape.in_strides[1] == 1 || shape.in_channels == 1 ? 0 : 1 / kReadsApart;
    const double others = shape.out_strides[1] == 1 || shape.out_channels == 1 ? 0
                          : wgrad(shape)                                       ? 1 / kReadsApart
                                                                               : 1 / kWritesApart;
    return (reads * static_cast<double>(shape.inputs()) + others * static_cast<double>(shape.outputs())) /
           static_cast<double>(sms_of(device));
  }

  bool runs(const DepthwiseShape& shape) const {
    if (!runs_well(shape, {rows, columns}, channels, registers(shape, 1))) return false;
    // Larger patches leave too few threads for what they save.
    const bool light = plane_taps(shape) < 16 && !shape.transposed && !wgrad(shape);
    return rows * columns * channels <= (light ? 36 : 64) &&
           shape.taps() * shape.fan_in * channels * 4 * 8 <= 44 * 1024;
  }

  // So few threads that each may have most registers.
  bool leaves_room(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Tiling t = tiling_of(shape, rows, columns);
    const std::int64_t tiles = t.h.tiles() * shape.axes[0].out * t.w.tiles() * shape.batch;
    return !wgrad(shape) && tiles * ceil_div(shape.out_channels, channels) <= kFewThreads * sms_of(device);
  }

  // Rows of input that are loaded ahead: where few threads hide no latency, as many as registers hold.
  std::int64_t prefetch(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Tiling t = tiling_of(shape, rows, columns);
    const std::int64_t usual = t.h.span() > 2 && plane_taps(shape) < 16 ? 2 : 1;
    if (!leaves_room(shape, device)) return usual;
    const std::int64_t a_row = registers(shape, 1) - registers(shape, 0);
    const std::int64_t most = (kMostAlone - registers(shape, 0)) / std::max<std::int64_t>(a_row, 1);
    return std::max(usual, std::min(t.h.span() - 1, most));
  }

  // That a thread's arrays take at once, as the compiler's reports show: of the row that is loaded and the row that is
  // used a part is always dead.
  std::int64_t registers(const DepthwiseShape& shape, std::int64_t ahead) const {
    const std::int64_t taps = plane_taps(shape), span = tiling_of(shape, rows, columns).w.span();
    const std::int64_t raw = std::max<std::int64_t>(1, channels * shape.element_bytes() / 4) * span;
    const std::int64_t loaded = span * channels + ahead * raw;
    const std::int64_t others = 8 + (taps < 16 ? 0 : wgrad(shape) ? 8 * channels : shape.transposed ? 8 : 0);
    return rows * columns * channels + taps * channels + (channels == 1 ? (3 * loaded + 3) / 4 : loaded) + others;
  }

  ChannelBlocks blocks(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Tiling t = tiling_of(shape, rows, columns);
    return blocks_along_channels(shape, device, leaves_room(shape, device) ? 128 : 256,
                                 registers(shape, prefetch(shape, device)), channels,
                                 t.h.tiles() * shape.axes[0].out * t.w.tiles());
  }
};

}  // namespace

extern constinit const DepthwiseFamily patch_family = family_of<Patch>();

}  // namespace convoy::cuda
