#include <algorithm>

#include "engines/cuda/depthwise/blocks.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostTaps = 96;   // that a thread of wgrad keeps sums of
constexpr std::int64_t kStraight = 128;  // taps, of code without a loop
constexpr std::int64_t kSharedBytes = 227 * 1024;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

const DepthwiseAxis& signal_axis(const DepthwiseShape& shape) {
  const DepthwiseAxis& h = shape.axes[1];
  return h.in > 1 || h.out > 1 || h.taps > 1 ? h : shape.axes[2];
}

bool signal_channels_last(const DepthwiseShape& shape) {
  return shape.in_strides[1] == 1 && shape.out_strides[1] == 1 && shape.multiplier == 1 && shape.out_channels > 4;
}

// kernels/signal_axis.cuh, signal_rows.cuh and signal_channels.cuh on the host.
SignalRows signal_rows(const DepthwiseShape& shape, const DepthwiseDesign& design) {
  const DepthwiseAxis& axis = signal_axis(shape);
  const bool channels_last = signal_channels_last(shape);
  SignalRows rows;
  rows.sparse = !channels_last && wgrad(shape) && axis.dilation > 1 && axis.taps <= 4 && axis.stride == 1;
  rows.group_taps = axis.taps;
  if (wgrad(shape) && axis.taps > kMostTaps) {
    rows.group_taps = round_up(ceil_div(axis.taps, ceil_div(axis.taps, kMostTaps)), 16);
  }
  const std::int64_t phase_taps = ceil_div(rows.group_taps, axis.stride);
  const bool whole = shape.transposed || rows.sparse;
  const std::int64_t in_phases = whole ? 1 : axis.stride * axis.dilation;
  const std::int64_t out_phases = shape.transposed ? axis.stride : whole ? 1 : axis.dilation;
  rows.item_phases = whole ? 1 : axis.dilation;
  const std::int64_t in_base = shape.transposed ? floor_div(axis.pad, axis.stride) - (phase_taps - 1) : -axis.pad;
  const std::int64_t out_base = shape.transposed ? floor_div(axis.pad, axis.stride) * axis.stride - axis.pad : 0;
  const std::int64_t lead = in_phases == 1 ? in_base - floor_div(in_base, 4) * 4 : 0;
  const std::int64_t segment = design.rows * design.columns;
  const std::int64_t in = lead + segment + (rows.sparse ? (axis.taps - 1) * axis.dilation : phase_taps - 1);
  rows.in_positions = in * in_phases;
  rows.out_positions = segment * out_phases;
  rows.segments = ceil_div(ceil_div(axis.out - out_base, out_phases), segment);
  if (channels_last) {
    const std::int64_t row = design.vector * shape.element_bytes();
    rows.stage_bytes = row * (rows.in_positions + (wgrad(shape) ? rows.out_positions : 0));
    if (!wgrad(shape)) rows.weight_bytes = 4 * design.vector * axis.stride * phase_taps;
    return rows;
  }
  const auto plane = [&](std::int64_t positions, std::int64_t phases) {
    return 4 * phases * ceil_div(positions, design.columns) * (design.columns + 4);
  };
  const std::int64_t in_bytes = plane(in, in_phases);
  const std::int64_t out_bytes = plane(segment, out_phases);
  rows.stage_bytes = design.vector * (wgrad(shape) ? in_bytes + out_bytes : std::max(in_bytes, out_bytes));
  if (!wgrad(shape)) rows.weight_bytes = 4 * design.vector * ((axis.stride * round_up(phase_taps, 4)) | 4);
  return rows;
}

void place_signal(const DepthwiseShape& shape, const DepthwiseDesign& design, const CudaDevice& device,
                  std::int64_t sms, DepthwiseBlocks& blocks) {
  const DepthwiseAxis& axis = signal_axis(shape);
  const SignalRows rows = signal_rows(shape, design);
  const bool channels_last = signal_channels_last(shape);
  blocks.planes = design.vector;
  blocks.segments = rows.segments;
  blocks.threads = round_up(design.rows * rows.item_phases * design.vector, std::max<std::int64_t>(32, design.vector));
  const std::int64_t tile = design.columns;
  const std::int64_t wanted = wgrad(shape)       ? rows.group_taps + tile + (tile > 16 ? 20 : 32)
                              : shape.transposed ? (axis.stride + 1) * tile + 32
                                                 : 2 * tile + 32;
  const std::int64_t registers = round_up(std::clamp<std::int64_t>(wanted, 48, 248), 8);
  const std::int64_t most = std::max<std::int64_t>(
      1, std::min({kRegistersPerSm / (registers * blocks.threads), 2048 / blocks.threads, std::int64_t{32}}));
  // The next image is copied ahead where there is room for it; 16-bit rows of one channel pass through registers.
  const std::int64_t shared = std::min<std::int64_t>(device.shared_bytes_per_sm, kSharedBytes);
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
      ceil_div(shape.out_channels, design.vector) * rows.segments * ceil_div(axis.taps, rows.group_taps);
  blocks.image_splits = std::clamp<std::int64_t>(sms * blocks.blocks_per_sm / columns, 1, shape.batch);
  blocks.image_splits = ceil_div(shape.batch, ceil_div(shape.batch, blocks.image_splits));
  blocks.balance = balance_of(shape.batch, blocks.image_splits);
  blocks.grid = columns * blocks.image_splits;
  blocks.tap_group = rows.group_taps;
  blocks.sparse = rows.sparse;
  blocks.splits = blocks.image_splits * rows.segments;  // shares of wgrad's sums
}

}  // namespace convoy::cuda
