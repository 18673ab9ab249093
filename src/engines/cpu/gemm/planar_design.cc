#include <algorithm>
#include <numeric>

#include "engines/cpu/gemm/planar_plan.h"

namespace convoy::cpu {
namespace {

constexpr const char* kChannels = "channels";
constexpr const char* kPositionVectors = "position_vectors";

PlanarTile size_of(const PlanarKernel& kernel) { return {kernel.channels, kernel.vectors}; }

// Cycles for one element of the sum, as tile_design.cc counts them: FMA ports, load ports, latency, positions from L2.
double planar_cycles(const PlanarKernel& k, int vector_bytes) {
  const double fma = k.channels * k.vectors / 2.0;
  const double loads = (k.channels + k.vectors + 1) / 2.0;
  return std::max({fma, loads, 4.0, k.vectors * vector_bytes / 40.0}) + 0.3;
}

// The kernel that takes `channels` (all of them, in one panel) over `vectors` vectors of positions most cheaply.
const PlanarKernel* best_tail(const PlanarKernels& kernels, std::int64_t channels, std::int64_t vectors, double& cost) {
  const PlanarKernel* best = nullptr;
  for (int i = 0; i < kernels.count; ++i) {
    const PlanarKernel& k = kernels.kernels[i];
    if (k.channels < channels) continue;
    const double cycles = static_cast<double>(ceil_div(vectors, k.vectors)) * planar_cycles(k, kernels.vector_bytes());
    if (best == nullptr || cycles < cost) {
      best = &k;
      cost = cycles;
    }
  }
  return best;
}

void choose_panels(PlanarDesign& design, PlanarPhase& phase, const PlanarRequest& request, std::int64_t vectors) {
  const PlanarKernels& kernels = *design.kernels;
  const std::int64_t k = design.conv.out_channels;
  const PlanarKernel* best = nullptr;
  const PlanarKernel* best_rest = nullptr;
  double best_cost = 0;
  for (int i = 0; i < kernels.count; ++i) {
    const PlanarKernel& kernel = kernels.kernels[i];
    const std::int64_t full = k / kernel.channels;
    const std::int64_t rest = k % kernel.channels;
    double cost =
        static_cast<double>(full * ceil_div(vectors, kernel.vectors)) * planar_cycles(kernel, kernels.vector_bytes());
    const PlanarKernel* tail = &kernel;
    if (rest > 0) {
      double tail_cost = 0;
      tail = best_tail(kernels, rest, vectors, tail_cost);
      cost += tail_cost;
    }
    if (full == 0 && tail != &kernel) continue;
    if (request.tile == size_of(kernel)) cost = -1;
    if (best == nullptr || cost < best_cost) {
      best = &kernel;
      best_rest = tail;
      best_cost = cost;
    }
  }
  for (std::int64_t g = 0; g < design.conv.groups; ++g) {
    for (std::int64_t at = 0; at < k; at += best->channels) {
      const std::int64_t channels = std::min<std::int64_t>(best->channels, k - at);
      phase.panels.push_back({g, at, channels, channels == best->channels ? best : best_rest, 0});
    }
  }
}

void make_chunks(const PlanarDesign& design, PlanarPhase& phase, std::int64_t reduction, double bytes) {
  const auto count = static_cast<std::int64_t>(phase.panels.size());
  if (count == 0) return;
  const double panel =
      static_cast<double>(reduction) * phase.panels[0].kernel->channels * design.kernels->element_bytes;
  phase.chunks = chunk_panels(count, design.conv.groups, panel, bytes);
}

// Slices, buffer sizes and blocks for at most `bytes` of buffer.
void make_blocks(PlanarDesign& design, PlanarPhase& phase, double bytes, const Cut& cut) {
  const std::int64_t most_positions = cut.most_positions;
  const ForwardConv& conv = design.conv;
  phase.channels = most_groups(phase.chunks) * conv.in_channels;
  const Axis& d = phase.axis[0];
  const Axis& h = phase.axis[1];
  const Axis& w = phase.axis[2];
  phase.slices.clear();
  const auto residues = [](const Axis& axis) {
    std::vector<std::int64_t> used;
    for (const AxisTap& tap : axis.taps) {
      const std::int64_t r = (tap.offset - axis.min_offset()) % axis.in_step;
      if (std::find(used.begin(), used.end(), r) == used.end()) used.push_back(r);
    }
    return used;
  };
  for (const AxisTap& tap : d.taps) {
    for (std::int64_t row : residues(h)) {
      for (std::int64_t column : residues(w)) {
        phase.slices.push_back({tap.offset, h.min_offset() + row, w.min_offset() + column});
      }
    }
  }
  const std::int64_t more_rows = (h.max_offset() - h.min_offset()) / h.in_step;
  const std::int64_t more_cols = (w.max_offset() - w.min_offset()) / w.in_step;
  const double planes = std::max<double>(1, static_cast<double>(phase.channels) * phase.slices.size());
  const std::int64_t lanes = design.kernels->lanes, element_bytes = design.kernels->element_bytes;
  std::int64_t cols = std::max<std::int64_t>(w.count, 1);
  double row_bytes = planes * static_cast<double>(cols + more_cols) * element_bytes;
  auto rows = static_cast<std::int64_t>(std::min(bytes / row_bytes, 1e9)) - more_rows;
  rows = std::min(rows, std::max<std::int64_t>(1, most_positions / cols));
  if (rows < 1 || (h.count == 1 && most_positions < cols)) {
    // Not even one row fits, or it is a single long one: parts of a row.
    rows = 1;
    const auto fit =
        static_cast<std::int64_t>(std::min(bytes / (planes * element_bytes * (1.0 + more_rows)), 1e9)) - more_cols;
    const std::int64_t least = 6 * lanes;
    cols = std::min(cols, std::max(std::min(fit, most_positions) / least * least, least));
  }
  rows = std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(h.count, 1));
  phase.images = conv.batch * d.count;
  const std::int64_t multiple = cut.multiple / std::gcd(cut.multiple, std::max<std::int64_t>(phase.images, 1));
  const Blocks row_blocks = equal_blocks(h.count, rows, 1, multiple);
  phase.block_rows = row_blocks.size;
  phase.row_blocks = row_blocks.count;
  const Blocks col_blocks = equal_blocks(w.count, cols, std::min(lanes, cols), h.count == 1 ? multiple : 1);
  phase.block_cols = cols = std::min(col_blocks.size, cols);
  phase.col_blocks = ceil_div(w.count, cols);
  phase.slice_rows = phase.block_rows + more_rows;
  phase.pitch = cols + more_cols;
  const double floats = planes * static_cast<double>(phase.slice_rows) * static_cast<double>(phase.pitch);
  if (floats * element_bytes > kMostBufferBytes) {
    design.too_large = true;
    return;
  }
  phase.slice = phase.slice_rows * phase.pitch;
  phase.plane = phase.slice * static_cast<std::int64_t>(phase.slices.size());
  if (phase.plane * element_bytes % 4096 == 0)
    phase.plane += 16;  // channels a multiple of 4096 bytes apart would share L1 sets
  phase.buffer = phase.channels * phase.plane + kMaxPlanarVectors * lanes;
}

// Cycles of a phase's tiles, with the general epilogue where rows are apart, and of filling the buffers.
double phase_cycles(const PlanarDesign& design, const PlanarPhase& phase, std::int64_t reduction) {
  const std::int64_t lanes = design.kernels->lanes;
  const double blocks = static_cast<double>(phase.images) * phase.row_blocks * phase.col_blocks;
  const std::int64_t reach = phase.pitch - phase.block_cols;
  const std::int64_t vectors = ceil_div(phase.block_rows * phase.pitch - reach, lanes);
  double cycles = 0;
  for (const PlanarPanel& panel : phase.panels) {
    const PlanarKernel& k = *panel.kernel;
    const double store = phase.axis[2].out_step > 1 ? 60 : reach > 0 || panel.channels < k.channels ? 16 : 3;
    const double tile = planar_cycles(k, design.kernels->vector_bytes()) * static_cast<double>(reduction) + 40 +
                        store * k.channels * k.vectors;
    cycles += blocks * static_cast<double>(ceil_div(vectors, k.vectors)) * tile;
  }
  const double rows = blocks * static_cast<double>(phase.channels) * phase.slices.size() * phase.slice_rows;
  const double per_float = phase.axis[2].in_step > 1 ? 1.0 : 0.125;
  // One block's buffer serves all chunks of a group.
  const double fills = blocks == 1 && design.conv.groups == 1 ? 1 : static_cast<double>(phase.chunks.size());
  return cycles + fills * rows * (20 + per_float * static_cast<double>(phase.pitch));
}

void design_phase(PlanarDesign& design, const Phase& source, const PlanarRequest& request) {
  PlanarPhase phase;
  for (int i = 0; i < 3; ++i) phase.axis[i] = source.axis[i];
  const ForwardConv& conv = design.conv;
  const std::int64_t reduction = source.taps() * conv.in_channels;
  const std::int64_t l2 = request.cpu->l2_bytes > 0 ? request.cpu->l2_bytes : kDefaultL2;
  const std::int64_t lanes = design.kernels->lanes;
  // Positions of one image and depth, the dropped ones between rows included.
  const std::int64_t reach = (phase.axis[2].max_offset() - phase.axis[2].min_offset()) / phase.axis[2].in_step;
  const std::int64_t plane = phase.axis[1].count * (phase.axis[2].count + reach) - reach;
  choose_panels(design, phase, request, std::max<std::int64_t>(1, ceil_div(plane, lanes)));
  const double positions =
      static_cast<double>(conv.batch) * phase.axis[0].count * phase.axis[1].count * phase.axis[2].count;
  const double weights = static_cast<double>(reduction) * conv.out_channels * conv.groups;
  const double inputs = positions * conv.in_channels * conv.groups;
  cut_equally(phase, Cut{l2 / 2.0}, request.threads, positions, 4 * lanes, weights > inputs, [&](const Cut& cut) {
    make_chunks(design, phase, reduction, cut.chunk_bytes);
    make_blocks(design, phase, l2 / 4.0, cut);
  });
  for (PlanarPanel& panel : phase.panels) {
    panel.weights = design.packed_floats;
    design.packed_floats += ceil_div(reduction * panel.kernel->channels, 16) * 16;
  }
  design.scratch_floats = std::max(design.scratch_floats, ceil_div(phase.buffer, 16) * 16);
  design.cycles += phase_cycles(design, phase, reduction);
  design.phases.push_back(std::move(phase));
}

void order_reduction(const ForwardConv& conv, PlanarPhase& phase) {
  struct Tap {
    std::int64_t x, w;
  };
  std::vector<Tap> taps;
  const Axis* axis = phase.axis;
  for (const AxisTap& d : axis[0].taps) {
    for (const AxisTap& h : axis[1].taps) {
      for (const AxisTap& w : axis[2].taps) {
        const std::int64_t row = h.offset - axis[1].min_offset();
        const std::int64_t column = w.offset - axis[2].min_offset();
        const PlanarSlice wanted{d.offset, axis[1].min_offset() + row % axis[1].in_step,
                                 axis[2].min_offset() + column % axis[2].in_step};
        std::int64_t slice = 0;
        while (phase.slices[slice].depth != wanted.depth || phase.slices[slice].row != wanted.row ||
               phase.slices[slice].column != wanted.column) {
          ++slice;
        }
        taps.push_back({slice * phase.slice + row / axis[1].in_step * phase.pitch + column / axis[2].in_step,
                        conv.w_origin + d.filter * conv.w_spatial[0] + h.filter * conv.w_spatial[1] +
                            w.filter * conv.w_spatial[2]});
      }
    }
  }
  std::vector<std::int64_t> offsets;
  for (std::int64_t c = 0; c < conv.in_channels; ++c) {
    for (const Tap& tap : taps) {
      phase.steps.push_back(c * phase.plane + tap.x);
      offsets.push_back(c * conv.w_in + tap.w);
    }
  }
  phase.elements = by_offset(offsets);
}

}  // namespace

PlanarDesign design_planar(const ConvProblem& problem, const PlanarRequest& request) {
  PlanarDesign design;
  design.conv = forward_view(problem);
  merge_axes(design.conv);
  design.kernels = request.kernels;
  for (const Phase& phase : design.conv.phases) design_phase(design, phase, request);
  return design;
}

void order_reductions(PlanarDesign& design) {
  for (PlanarPhase& phase : design.phases) order_reduction(design.conv, phase);
}

PlanarTile tile_of(const PlanarDesign& design) {
  if (design.phases.empty() || design.phases[0].panels.empty()) return {};
  return size_of(*design.phases[0].panels[0].kernel);
}

std::vector<DeclaredKnob> planar_knobs() { return {{kChannels}, {kPositionVectors}}; }

KnobValues knobs_of(PlanarTile tile) {
  if (tile == PlanarTile{}) return {};
  return {{kChannels, tile.channels}, {kPositionVectors, tile.vectors}};
}

PlanarTile planar_tile_of(const KnobValues& knobs) {
  return {static_cast<int>(knob_or(knobs, kChannels, 0)), static_cast<int>(knob_or(knobs, kPositionVectors, 0))};
}

Configurations planar_configurations(const ConvProblem& problem, const PlanarRequest& request) {
  PlanarRequest automatic = request;
  automatic.tile = {};
  const PlanarDesign design = design_planar(problem, automatic);
  const PlanarTile first = tile_of(design);
  if (first == PlanarTile{}) return {};
  std::vector<KnobValues> listed = {knobs_of(first)};
  for (int i = 0; i < request.kernels->count; ++i) {
    const PlanarKernel& kernel = request.kernels->kernels[i];
    const PlanarTile tile = size_of(kernel);
    if (tile != first && tile.channels <= design.conv.out_channels && tile.channels * tile.vectors >= 8) {
      listed.push_back(knobs_of(tile));
    }
  }
  return listed_configurations(std::move(listed), {{kChannels, {}, "output channels of a register tile"},
                                                   {kPositionVectors, {}, "its vectors of output positions"}});
}

}  // namespace convoy::cpu
