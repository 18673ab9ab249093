// NHWC and any strides, stride and dilation 1, 16 taps or more: a thread walks down a strip of one channel
// (depthwise_nhwc_rolling.cu, .._wgrad.cu).
#include <algorithm>
#include <cmath>

#include "engines/cuda/depthwise/lanes.h"

namespace convoy::cuda {
namespace {

constexpr FamilyCosts kCosts{{0.9, 0, 3.7, 11, 360, 23, 0, 4.3, 56, 0.3, 0.39, 0},
                             {1.35, 0, 0, 18, 570, 0, 0, 4.8, 117, 0.3, 0.19, 4.2}};

bool fits(const DepthwiseShape& shape) {
  for (const DepthwiseAxis& axis : {shape.axes[1], shape.axes[2]}) {
    if (axis.stride != 1 || axis.dilation != 1) return false;
  }
  return !shape.volumetric() && shape.fan_in == 1 && plane_taps(shape) >= 16 && !planar(shape) && shape.adds_up() &&
         !signal_fits(shape);
}

struct Rolling {
  static constexpr const char* word = "rolling";
  static constexpr std::array<DepthwiseKnob, 2> knobs = {
      {{"columns", "of a thread's strip"}, {"rows", "of a thread's strip"}}};
  std::int64_t columns, rows;

  static std::vector<Rolling> configurations(const DepthwiseShape& shape, const CudaDevice&) {
    std::vector<Rolling> all;
    if (!fits(shape)) return all;
    // Narrower strips than the image allows read too much beside what they use.
    for (const std::int64_t columns : {1, 2, 4, 7, 8}) {
      if (columns > 1 && columns / 2 >= shape.axes[2].out) continue;
      if (columns < 7 && columns * 2 <= shape.axes[2].out && shape.axes[2].out > 1) continue;
      for (const std::int64_t rows : {14, 28, 56, 112, 250, 500}) {
        if (rows > 14 && rows / 2 >= shape.axes[1].out) continue;
        const Rolling strip{columns, rows};
        if (plane_taps(shape) * columns <= 1200 && strip.registers(shape) <= 200) all.push_back(strip);
      }
    }
    return all;
  }

  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Tiling t = tiling_of(shape, rows, columns);
    const auto strip = static_cast<double>(std::min(rows, shape.axes[1].out));
    const double walked =
        std::min(static_cast<double>(shape.axes[1].in), strip + static_cast<double>(shape.axes[1].taps - 1));
    LaneWork lane;
    lane.products = walked * static_cast<double>(columns * plane_taps(shape));
    lane.inputs = walked * static_cast<double>(t.w.span());
    lane.outputs = strip * static_cast<double>(columns);
    lane.tiles = std::ceil(static_cast<double>(shape.axes[1].out) / strip) * static_cast<double>(t.w.tiles());
    Work work = work_of(shape, lane, 1);
    if (!wgrad(shape)) work.waits = walked;
    return fitted_seconds(shape, work, kCosts.of(shape), blocks(shape, device), device);
  }

  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
    const ChannelBlocks on = blocks(shape, device);
    DepthwiseKernel kernel(wgrad(shape) ? "depthwise_nhwc_rolling_wgrad.cu" : "depthwise_nhwc_rolling.cu", shape, on,
                           wgrad(shape));
    kernel.constants.set("STRIP_ROWS", rows).set("TILE_W", columns).set("UNROLL", 1);
    kernel.constants.set("CHANNEL_THREADS", on.channel_threads);
    if (wgrad(shape)) kernel.constants.set("SPLITS", on.splits);
    return kernel;
  }

 private:
  // That a thread's arrays take at once, as the compiler's reports show.
  std::int64_t registers(const DepthwiseShape& shape) const {
    const std::int64_t taps = plane_taps(shape), span = tiling_of(shape, rows, columns).w.span();
    return shape.axes[1].taps * columns + taps + span / 2 + (wgrad(shape) ? span + 2 * columns : 2 * span) + taps / 8 +
           (columns == 1 ? 36 : 24);
  }

  // Small blocks, so that none of its threads' many registers lie idle.
  ChannelBlocks blocks(const DepthwiseShape& shape, const CudaDevice& device) const {
    return blocks_along_channels(shape, device, 128, registers(shape), 1,
                                 ceil_div(shape.axes[1].out, rows) * tiling_of(shape, rows, columns).w.tiles());
  }
};

}  // namespace

extern constinit const DepthwiseFamily rolling_family = family_of<Rolling>();

}  // namespace convoy::cuda
