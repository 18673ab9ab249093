// Signals of 8 taps or more, f32 wgrad of planar ones with any, one filter a channel: a thread has neighbouring
// positions of a channel, from rows in shared memory (depthwise_signal.cu, .._wgrad.cu; channels last
// depthwise_signal_nhwc.cu, ..).
#include <algorithm>
#include <bit>
#include <cmath>

#include "engines/cuda/depthwise/lanes.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostTaps = 96;          // that a thread of wgrad keeps sums of
constexpr std::int64_t kStraight = 128;         // taps, of code without a loop
constexpr std::int64_t kManyOutputs = 4 << 20;  // more than keep a device's threads busy

// Fitted to the layers with long filters of problems/speech1d.txt.
constexpr FamilyCosts kCosts{{1.23, 27, 6, 0, 4.4, 60, 0, 4.7, 290, 1, 0.45, 0},
                             {1.37, 30, 6, 40, 0, 3.2, 1.2, 4.7, 400, 1, 0.06, 6}};
constexpr FamilyCosts kNhwcCosts{{1.3, 30, 0, 0, 230, 60, 0.94, 4.1, 27, 0.76, 0.09, 3.6},
                                 {1.23, 30, 1.2, 0, 0.5, 8.8, 0.37, 4.8, 61, 0.86, 0.33, 6}};

// The axis that isn't trivial.
const DepthwiseAxis& signal_axis(const DepthwiseShape& shape) {
  const DepthwiseAxis& h = shape.axes[1];
  return h.in > 1 || h.out > 1 || h.taps > 1 ? h : shape.axes[2];
}

// Threads lie along channels.
bool signal_channels_last(const DepthwiseShape& shape) {
  return shape.in_strides[1] == 1 && shape.out_strides[1] == 1 && shape.multiplier == 1 && shape.out_channels > 4;
}

struct Rows {
  std::int64_t in_positions = 1;  // that a block copies of a channel
  std::int64_t out_positions = 1;
  std::int64_t segments = 1;     // blocks beside one another along the signal
  std::int64_t item_phases = 1;  // rows of tiles in a plane
  std::int64_t group_taps = 1;   // taps of a block
  std::int64_t stage_bytes = 0, weight_bytes = 0;
  bool sparse = false;
};

struct Blocks : DepthwiseBlocks {
  std::int64_t stages = 1;        // images in shared memory at once
  std::int64_t round = 1;         // taps of straight code
  std::int64_t image_splits = 1;  // shares of the batch
};

struct Signal {
  static constexpr const char* word = "signal";
  static constexpr std::array<DepthwiseKnob, 3> knobs = {
      {{"channels", "of a block"}, {"positions", "of a tile"}, {"tiles", "of a block"}}};
  std::int64_t channels, positions, tiles;

  static std::vector<Signal> configurations(const DepthwiseShape& shape, const CudaDevice& device);
  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const;
  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const;

  Rows rows(const DepthwiseShape& shape) const;
  Blocks blocks(const DepthwiseShape& shape, const CudaDevice& device) const;
};

// kernels/signal_axis.cuh, signal_rows.cuh and signal_channels.cuh on the host.
Rows Signal::rows(const DepthwiseShape& shape) const {
  const DepthwiseAxis& axis = signal_axis(shape);
  const bool channels_last = signal_channels_last(shape);
  Rows rows;
  rows.sparse = !channels_last && wgrad(shape) && axis.dilation > 1 && axis.taps <= 4 && axis.stride == 1;
  rows.group_taps = axis.taps;
  if (wgrad(shape) && axis.taps > kMostTaps) {
    rows.group_taps = round_up(even_shares(axis.taps, kMostTaps), 16);
  }
  const std::int64_t phase_taps = ceil_div(rows.group_taps, axis.stride);
  const bool whole = shape.transposed || rows.sparse;
  const std::int64_t in_phases = whole ? 1 : axis.stride * axis.dilation;
  const std::int64_t out_phases = shape.transposed ? axis.stride : whole ? 1 : axis.dilation;
  rows.item_phases = whole ? 1 : axis.dilation;
  const std::int64_t in_base = shape.transposed ? floor_div(axis.pad, axis.stride) - (phase_taps - 1) : -axis.pad;
  const std::int64_t out_base = shape.transposed ? floor_div(axis.pad, axis.stride) * axis.stride - axis.pad : 0;
  const std::int64_t lead = in_phases == 1 ? in_base - floor_div(in_base, 4) * 4 : 0;
  const std::int64_t segment = tiles * positions;
  const std::int64_t in = lead + segment + (rows.sparse ? (axis.taps - 1) * axis.dilation : phase_taps - 1);
  rows.in_positions = in * in_phases;
  rows.out_positions = segment * out_phases;
  rows.segments = ceil_div(ceil_div(axis.out - out_base, out_phases), segment);
  if (channels_last) {
    const std::int64_t row = channels * shape.element_bytes();
    rows.stage_bytes = row * (rows.in_positions + (wgrad(shape) ? rows.out_positions : 0));
    if (!wgrad(shape)) rows.weight_bytes = 4 * channels * axis.stride * phase_taps;
    return rows;
  }
  const auto plane = [&](std::int64_t length, std::int64_t phases) {
    return 4 * phases * ceil_div(length, positions) * (positions + 4);
  };
  const std::int64_t in_bytes = plane(in, in_phases);
  const std::int64_t out_bytes = plane(segment, out_phases);
  rows.stage_bytes = channels * (wgrad(shape) ? in_bytes + out_bytes : std::max(in_bytes, out_bytes));
  if (!wgrad(shape)) rows.weight_bytes = 4 * channels * ((axis.stride * round_up(phase_taps, 4)) | 4);
  return rows;
}

Blocks Signal::blocks(const DepthwiseShape& shape, const CudaDevice& device) const {
  const DepthwiseAxis& axis = signal_axis(shape);
  const Rows rows = this->rows(shape);
  Blocks blocks;
  const bool channels_last = signal_channels_last(shape);
  blocks.threads = round_up(tiles * rows.item_phases * channels, std::max<std::int64_t>(32, channels));
  const std::int64_t tile = positions;
  const std::int64_t wanted = wgrad(shape)       ? rows.group_taps + tile + (tile > 16 ? 20 : 32)
                              : shape.transposed ? (axis.stride + 1) * tile + 32
                                                 : 2 * tile + 32;
  const std::int64_t registers = round_up(std::clamp<std::int64_t>(wanted, 48, 248), 8);
  const std::int64_t most = std::max<std::int64_t>(
      1, std::min({kRegistersPerSm / (registers * blocks.threads), 2048 / blocks.threads, std::int64_t{32}}));
  // The next image is copied ahead where there is room for it; 16-bit rows of one channel pass through registers.
  const std::int64_t shared = std::min<std::int64_t>(device.shared_bytes_per_sm, kSharedPerSm);
  const auto bytes = [&](std::int64_t stages) {
    // wgrad hands over sums through the same memory, a tap at least.
    return std::max(stages * rows.stage_bytes + rows.weight_bytes, wgrad(shape) ? 4 * (blocks.threads + 1) : 0);
  };
  const bool copies = shape.element_bytes() == 4 || channels_last;
  blocks.stages = copies && most * (bytes(2) + 1024) <= shared ? 2 : 1;
  blocks.shared_bytes = bytes(blocks.stages);
  blocks.blocks_per_sm = std::clamp<std::int64_t>(shared / (blocks.shared_bytes + 1024), 1, most);
  blocks.round = ceil_div(axis.taps, axis.stride) > kStraight ? 96 : axis.taps;
  const std::int64_t columns =
      ceil_div(shape.out_channels, channels) * rows.segments * ceil_div(axis.taps, rows.group_taps);
  blocks.image_splits = std::clamp<std::int64_t>(sms_of(device) * blocks.blocks_per_sm / columns, 1, shape.batch);
  blocks.image_splits = even_shares(shape.batch, blocks.image_splits);
  blocks.balance = balance_of(shape.batch, blocks.image_splits);
  blocks.grid = columns * blocks.image_splits;
  blocks.splits = blocks.image_splits * rows.segments;  // shares of wgrad's sums
  return blocks;
}

// Blocks of 64 to 512 threads, a tile of the signal each; beside one another as many as make whole warps of a channel's
// threads, or all of them.
std::vector<Signal> Signal::configurations(const DepthwiseShape& shape, const CudaDevice& device) {
  std::vector<Signal> all;
  if (!signal_fits(shape)) return all;
  const bool channels_last = signal_channels_last(shape);
  const std::int64_t most_shared = std::min<std::int64_t>(device.shared_bytes_per_block, kMostShared);
  std::int64_t phases = 1;
  for (const std::int64_t positions : {32, 16, 8}) {
    const Rows whole = Signal{1, positions, 1}.rows(shape);
    phases = whole.item_phases;
    // Small tiles load more for what they compute, but make more threads; for a few taps there is little to compute.
    const bool few = signal_axis(shape).taps < 8;
    if (few && positions != 8) continue;
    if (positions == 8 && !few && signal_axis(shape).stride == 1 && shape.outputs() > kManyOutputs) continue;
    const auto add = [&](std::int64_t tiles, std::int64_t channels) {
      const std::int64_t threads = tiles * channels * phases;
      if (threads <= 32 || threads > 512) return;
      const Signal signal{channels, positions, tiles};
      const Blocks on = signal.blocks(shape, device);
      if (on.threads <= 512 && on.shared_bytes <= most_shared) all.push_back(signal);
    };
    const std::int64_t segments = whole.segments;
    for (const std::int64_t channels : {1, 2, 4, 8, 16, 32, 64}) {
      if (channels > 1 && channels >= 2 * shape.out_channels) continue;
      // A warp's channels lie in a row of 32, where there are as many.
      if (channels_last && (channels < std::min<std::int64_t>(32, shape.out_channels) || channels < 8)) continue;
      if (channels_last && channels * shape.element_bytes() > 128) continue;
      for (std::int64_t tiles = 1; tiles < 2 * segments; tiles *= 2) add(tiles, channels);
    }
    if (!channels_last && !std::has_single_bit(static_cast<std::uint64_t>(segments))) add(segments, 1);
  }
  // What is predicted to take as long as another is faster in blocks of 256 threads.
  const auto distance = [&](const Signal& signal) {
    return std::abs(std::log2(static_cast<double>(signal.tiles * signal.channels * phases) / 256));
  };
  std::stable_sort(all.begin(), all.end(), [&](const Signal& a, const Signal& b) { return distance(a) < distance(b); });
  return all;
}

// A tile is a thread's for one image; what blocks copy beside their own segment is copied again.
double Signal::seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
  const Rows rows = this->rows(shape);
  Blocks on = blocks(shape, device);
  const DepthwiseAxis& axis = signal_axis(shape);
  const bool channels_last = signal_channels_last(shape);
  const auto tile = static_cast<double>(positions);
  const auto taps = static_cast<double>(rows.group_taps);
  // Elements that a copy moves at once.
  const std::int64_t wide = 16 / shape.element_bytes();
  const bool fours = !channels_last && shape.in_order && axis.in % 4 == 0 && axis.out % 4 == 0;
  const bool in_fours = fours && (shape.transposed || (axis.stride == 1 && axis.dilation == 1));
  const bool out_fours = fours && !shape.transposed && axis.dilation == 1;
  const double in_piece = channels_last ? static_cast<double>(wide) : in_fours ? 4 : 1;
  const double out_piece = channels_last ? (wgrad(shape) ? static_cast<double>(wide) : 1) : out_fours ? 4 : 1;
  const auto per_thread = static_cast<double>(channels) / static_cast<double>(on.threads);
  Work work;
  work.products = taps * tile;
  work.loads = static_cast<double>(rows.in_positions) * per_thread / in_piece;
  work.stores = static_cast<double>(rows.out_positions) * per_thread / out_piece;
  if (shape.element_bytes() == 2) work.converts = channels_last ? 2 * taps + tile : work.loads + work.stores;
  work.weights = wgrad(shape) ? 0
                              : static_cast<double>(axis.taps * channels) /
                                    static_cast<double>(on.threads * ceil_div(shape.batch, on.image_splits));
  // Windows, taps or gradients, and what is copied.
  work.shared = tile + taps +
                (channels_last  ? taps
                 : wgrad(shape) ? tile
                                : taps / 4 + 2 * tile) +
                static_cast<double>(rows.in_positions + rows.out_positions) * per_thread;
  const std::int64_t blocks_of_image = on.grid / on.image_splits;
  work.threads_tiles = static_cast<double>(blocks_of_image) * static_cast<double>(on.threads * shape.batch);
  // Parts of planar rows take a third longer to write, for a reason that isn't known.
  if (!wgrad(shape) && !channels_last && rows.segments > 1) on.balance *= 0.75;
  return fitted_seconds(shape, work, (channels_last ? kNhwcCosts : kCosts).of(shape), on, device);
}

DepthwiseKernel Signal::kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
  const Rows rows = this->rows(shape);
  const Blocks on = blocks(shape, device);
  const bool channels_last = signal_channels_last(shape);
  const char* const sources[2][2] = {{"depthwise_signal.cu", "depthwise_signal_wgrad.cu"},
                                     {"depthwise_signal_nhwc.cu", "depthwise_signal_nhwc_wgrad.cu"}};
  DepthwiseKernel kernel(sources[channels_last ? 1 : 0][wgrad(shape) ? 1 : 0], shape, on);
  kernel.constants.set("TILES", tiles).set("TILE", positions).set("PLANES", channels);
  kernel.constants.set("STAGES", on.stages).set("SPARSE", rows.sparse).set("GROUP_TAPS", rows.group_taps);
  kernel.constants.set("ROUND", on.round).set("SPLITS", on.image_splits);
  kernel.constants.set("ALIGNMENT", std::min<std::int64_t>(16, shape.alignment));
  kernel.taps_first = channels_last;
  return kernel;
}

}  // namespace

// With few taps the others are as fast, but for wgrad of taps far apart.
bool signal_fits(const DepthwiseShape& shape) {
  const DepthwiseAxis& axis = signal_axis(shape);
  const DepthwiseAxis& other = &axis == &shape.axes[1] ? shape.axes[2] : shape.axes[1];
  if (!shape.adds_up() || shape.volumetric() || other.in > 1 || other.out > 1 || other.taps > 1 || other.pad != 0)
    return false;
  if (shape.fan_in != 1 || axis.taps > 1024 || axis.stride > 4) return false;
  if (axis.dilation > 1 && axis.stride > 1) return false;
  if (wgrad(shape) && axis.taps > 96 && axis.stride > 1) return false;
  return axis.taps >= 8 || (wgrad(shape) && !signal_channels_last(shape) && shape.element_bytes() == 4);
}

bool signal_is_fastest(const DepthwiseShape& shape) {
  if (!signal_fits(shape)) return false;
  const DepthwiseAxis& axis = signal_axis(shape);
  if (signal_channels_last(shape)) return axis.taps >= 24 && axis.stride == 1;
  const bool far_apart = axis.taps < 8 && axis.dilation > 1;
  return axis.taps >= 16 ||
         (wgrad(shape) && shape.element_bytes() == 4 && axis.out >= 512 && (axis.taps >= 8 || far_apart));
}

extern constinit const DepthwiseFamily signal_family = family_of<Signal>();

}  // namespace convoy::cuda
