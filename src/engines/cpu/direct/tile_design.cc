#include <algorithm>
#include <numeric>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/direct/tile_cost.h"
#include "engines/cpu/direct/tile_plan.h"

namespace convoy::cpu {
namespace {

constexpr const char* kPositions = "positions";
constexpr const char* kChannelVectors = "channel_vectors";

std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

TileSize size_of(const TileShape& shape) { return {shape.halves * shape.pixels, shape.vectors}; }

const TileShape* find_shape(const TileKernels& kernels, int halves, int pixels, int vectors, int group) {
  for (int i = 0; i < kernels.shape_count; ++i) {
    const TileShape& s = kernels.shapes[i];
    if (s.halves == halves && s.pixels == pixels && s.vectors == vectors && s.group == group) return &s;
  }
  return nullptr;
}

// Length of a phase's sums: blocks of channels are read whole.
std::int64_t reduction_of(const TileDesign& design, std::int64_t taps) {
  const ForwardConv& conv = design.conv;
  const bool whole_blocks = !design.planar_in && !design.channels_last_in && design.grouped == 0 && conv.groups == 1;
  const std::int64_t channels = design.grouped > 0 ? design.grouped : conv.in_channels;
  return taps * (whole_blocks ? round_up(channels, conv.in.block) : channels);
}

struct Tap {
  std::int64_t x, w;  // where it reads
};

// How a phase's sums run through channels and taps: each of these sets steps and run, and gives the offsets of the
// elements' weights; -1 where there is none.
struct ReductionOrder {
  const TileDesign& design;
  const std::vector<Tap>& outer;  // (d, h) taps
  const std::vector<Tap>& inner;  // w taps
  std::int64_t channels;
  std::int64_t channel_stride;  // of a plane
  TilePhase& phase;

  // The taps of a row are one run where they are evenly spaced.
  std::vector<std::int64_t> planar() const {
    std::vector<std::int64_t> offsets;
    bool even = !inner.empty();
    const std::int64_t gap = inner.size() > 1 ? inner[1].x - inner[0].x : 1;
    for (std::size_t i = 1; i < inner.size(); ++i) even = even && inner[i].x - inner[i - 1].x == gap;
    phase.run = even ? static_cast<std::int64_t>(inner.size()) : 1;
    phase.run_stride = even ? gap : 1;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (const Tap& o : outer) {
        for (std::size_t i = 0; i < inner.size(); ++i) {
          if (!even || i == 0) phase.steps.push_back(c * channel_stride + o.x + inner[i].x);
          offsets.push_back(c * design.conv.w_in + o.w + inner[i].w);
        }
      }
    }
    return offsets;
  }

  // Grouped: a vector of a blocked tensor lies within a block, like one of a channels-last tensor in a position.
  std::vector<std::int64_t> channels_last() const {
    std::vector<std::int64_t> offsets;
    phase.run = channels;
    std::int64_t tap = 0;
    for (const Tap& o : outer) {
      for (const Tap& i : inner) {
        phase.steps.push_back(phase.input == TileInput::gathered ? tap * phase.gathered_channels : o.x + i.x);
        for (std::int64_t c = 0; c < channels; ++c) offsets.push_back(c * design.conv.w_in + o.w + i.w);
        ++tap;
      }
    }
    if (design.grouped == 0) join_steps();
    return offsets;
  }

  // A group may begin inside a block: then runs are short enough never to cross one, and each group has its offsets.
  std::vector<std::int64_t> blocked() const {
    std::vector<std::int64_t> offsets;
    const ForwardConv& conv = design.conv;
    const std::int64_t block = conv.in.block;
    phase.run = conv.groups == 1 ? block : std::gcd(channels, block);
    phase.group_steps = conv.groups > 1 && channels % block != 0;
    const std::int64_t padded = conv.groups == 1 ? round_up(channels, block) : channels;
    for (std::int64_t g = 0; g < (phase.group_steps ? conv.groups : 1); ++g) {
      for (std::int64_t c = 0; c < padded; c += phase.run) {
        const std::int64_t at = (phase.group_steps ? g * channels : 0) + c;
        for (const Tap& o : outer) {
          for (const Tap& i : inner) {
            phase.steps.push_back(at / block * channel_stride + at % block + o.x + i.x);
            if (g > 0) continue;
            for (std::int64_t r = c; r < c + phase.run; ++r) {
              offsets.push_back(r < channels ? r * conv.w_in + o.w + i.w : -1);
            }
          }
        }
      }
    }
    return offsets;
  }

 private:
  // Steps that continue where the last one ended become one longer run.
  void join_steps() const {
    const auto count = static_cast<std::int64_t>(phase.steps.size());
    std::int64_t joined = 1;
    while (joined < count && phase.steps[joined] - phase.steps[joined - 1] == channels) ++joined;
    if (joined == 1 || count % joined != 0) return;
    for (std::int64_t s = 0; s < count; ++s) {
      if (s % joined != 0 && phase.steps[s] - phase.steps[s - 1] != channels) return;
    }
    std::vector<std::int64_t> firsts;
    for (std::int64_t s = 0; s < count; s += joined) firsts.push_back(phase.steps[s]);
    phase.steps = std::move(firsts);
    phase.run *= joined;
  }
};

// Sets elements, steps and run, for the input mode chosen.
void order_reduction(const TileDesign& design, TilePhase& phase) {
  const ForwardConv& conv = design.conv;
  const bool copied = phase.input == TileInput::padded;
  std::int64_t strides[3];  // of a spatial axis in what the kernel reads
  for (int i = 0; i < 3; ++i) strides[i] = conv.in.spatial[i];
  if (copied) {
    strides[0] = phase.slab;
    strides[1] = phase.row;
    strides[2] = phase.pixel;
  }
  std::vector<Tap> outer, inner;
  for (const AxisTap& d : phase.axis[0].taps) {
    for (const AxisTap& h : phase.axis[1].taps) {
      const std::int64_t from_d = copied ? d.offset - phase.axis[0].min_offset() : d.offset;
      const std::int64_t from_h = copied ? h.offset - phase.axis[1].min_offset() : h.offset;
      outer.push_back({from_d * strides[0] + from_h * strides[1],
                       conv.w_origin + d.filter * conv.w_spatial[0] + h.filter * conv.w_spatial[1]});
    }
  }
  for (const AxisTap& w : phase.axis[2].taps) {
    const std::int64_t from_w = copied ? w.offset - phase.axis[2].min_offset() : w.offset;
    inner.push_back({from_w * strides[2], w.filter * conv.w_spatial[2]});
  }
  phase.steps.clear();
  phase.group_steps = false;
  phase.run_stride = 1;
  const ReductionOrder order{design,
                             outer,
                             inner,
                             design.grouped > 0 ? design.grouped : conv.in_channels,
                             copied ? phase.plane : conv.in.channel,
                             phase};
  phase.elements = by_offset(design.planar_in                                ? order.planar()
                             : design.channels_last_in || design.grouped > 0 ? order.channels_last()
                                                                             : order.blocked());
  phase.step_count = phase.run > 0 ? phase.reduction / phase.run : 0;
}

void choose_shape(const TileDesign& design, TilePhase& phase, const TileRequest& request) {
  const TileKernels& kernels = *design.kernels;
  const TileShape* best = nullptr;
  double best_cycles = 0;
  for (int i = 0; i < kernels.shape_count; ++i) {
    const TileShape& shape = kernels.shapes[i];
    if (shape.group != design.grouped) continue;
    // In place, a part of a row shorter than a half is moved back to overlap its neighbour: the row must be that long.
    if (phase.input == TileInput::in_place && shape.pixels > phase.axis[2].count) continue;
    const bool wanted = request.tile == size_of(shape);
    const double cycles = wanted ? 0 : shape_cycles(design.conv, phase, shape, kernels);
    if (best == nullptr || cycles < best_cycles) {
      best = &shape;
      best_cycles = cycles;
    }
  }
  phase.halves = best->halves;
  phase.pixels = best->pixels;
  const std::int64_t width = static_cast<std::int64_t>(best->vectors) * kernels.lanes;
  for (std::int64_t g = 0; g < design.conv.groups; ++g) {
    for (std::int64_t k = 0; k < design.conv.out_channels; k += width) {
      const std::int64_t channels = std::min(width, design.conv.out_channels - k);
      const int vectors = static_cast<int>(ceil_div(channels, kernels.lanes));
      phase.panels.push_back(
          {g, k, channels, find_shape(kernels, best->halves, best->pixels, vectors, best->group), 0});
    }
  }
}

void make_chunks(const TileDesign& design, TilePhase& phase, double bytes) {
  const auto count = static_cast<std::int64_t>(phase.panels.size());
  if (count == 0) return;
  const TileKernels& kernels = *design.kernels;
  const double panel =
      static_cast<double>(phase.reduction) * phase.panels[0].shape->vectors * kernels.lanes * kernels.element_bytes;
  phase.chunks = chunk_panels(count, design.conv.groups, panel, bytes);
}

// Positions a block has, from the input bytes it may hold; sets block and buffer sizes.
void make_blocks(TileDesign& design, TilePhase& phase, double bytes, const Cut& cut) {
  const std::int64_t most_positions = cut.most_positions;
  const ForwardConv& conv = design.conv;
  const std::int64_t channels = most_groups(phase.chunks) * conv.in_channels;
  const std::int64_t tile = phase.halves * phase.pixels;
  const Axis& h = phase.axis[1];
  const Axis& w = phase.axis[2];
  const int element_bytes = design.kernels->element_bytes;
  const double limit = std::max(bytes / element_bytes, 1.0);
  if (phase.input == TileInput::gathered) {
    const std::int64_t total = conv.batch * phase.axis[0].count * h.count * w.count;
    phase.gathered_channels = channels;
    phase.pixel = round_up(channels * phase.axis[0].taps.size() * h.taps.size() * w.taps.size(), 16);
    if (static_cast<double>(phase.pixel) * tile * element_bytes > kMostBufferBytes) design.too_large = true;
    if (phase.pixel * element_bytes % 4096 == 0)
      phase.pixel += 16;  // rows a multiple of 4096 bytes apart would share L1 sets
    std::int64_t cols = static_cast<std::int64_t>(limit / static_cast<double>(std::max<std::int64_t>(phase.pixel, 1)));
    cols = std::max(std::min(cols, most_positions) / tile * tile, tile);
    phase.images = total > 0 ? 1 : 0;
    phase.block_rows = phase.row_blocks = 1;
    const Blocks blocks = equal_blocks(total, cols, tile, cut.multiple);
    phase.block_cols = blocks.size;
    phase.col_blocks = blocks.count;
    phase.buffer = round_up(phase.block_cols, tile) * phase.pixel;
    phase.tiles = ceil_div(phase.block_cols, tile);
    return;
  }
  phase.images = conv.batch * phase.axis[0].count;
  const double pixel_floats = static_cast<double>(std::max<std::int64_t>(channels, 1)) * w.in_step;
  const double row_floats = pixel_floats * static_cast<double>(w.count) * h.in_step;
  std::int64_t rows = static_cast<std::int64_t>(std::min(limit / row_floats, 1e9));
  rows = std::min(rows, std::max<std::int64_t>(1, most_positions / std::max<std::int64_t>(1, w.count)));
  std::int64_t cols = w.count;
  if (rows < 1 || (h.count == 1 && most_positions < w.count)) {
    rows = 1;
    cols = static_cast<std::int64_t>(std::min(limit / (pixel_floats * h.in_step), 1e9));
    cols = std::max(std::min(cols, most_positions) / tile * tile, tile);
  }
  rows = std::clamp<std::int64_t>(rows, 1, std::max<std::int64_t>(h.count, 1));
  const std::int64_t multiple = cut.multiple / std::gcd(cut.multiple, std::max<std::int64_t>(phase.images, 1));
  const Blocks row_blocks = equal_blocks(h.count, rows, 1, multiple);
  phase.block_rows = row_blocks.size;
  phase.row_blocks = row_blocks.count;
  const std::int64_t whole = std::max<std::int64_t>(w.count, 1);
  const Blocks col_blocks = equal_blocks(w.count, std::clamp<std::int64_t>(cols, 1, whole), std::min(tile, whole),
                                         h.count == 1 ? multiple : 1);
  phase.block_cols = std::min(col_blocks.size, whole);
  phase.col_blocks = col_blocks.count;
  phase.tiles = ceil_div(phase.block_rows * ceil_div(phase.block_cols, phase.pixels), phase.halves);
  phase.buffer = 0;
  if (phase.input != TileInput::padded) return;
  const std::int64_t span[3] = {phase.axis[0].max_offset() - phase.axis[0].min_offset() + 1,
                                h.max_offset() - h.min_offset() + 1, w.max_offset() - w.min_offset() + 1};
  const std::int64_t width = (round_up(phase.block_cols, phase.pixels) - 1) * w.in_step + span[2];
  const std::int64_t height = (phase.block_rows - 1) * h.in_step + span[1];
  if (design.planar_in) {
    phase.pixel = 1;
    phase.planes = channels;
  } else if (design.channels_last_in) {
    phase.pixel = channels;
    phase.planes = 1;
  } else {
    phase.pixel = conv.in.block;
    // A chunk of groups may begin inside a block.
    phase.planes = channels / conv.in.block + 2;
  }
  const double floats = static_cast<double>(width) * height * span[0] * phase.pixel * phase.planes;
  if (floats * element_bytes > kMostBufferBytes) {
    design.too_large = true;
    return;
  }
  phase.row = width * phase.pixel;
  phase.slab = height * phase.row;
  phase.plane = span[0] * phase.slab;
  phase.buffer = phase.planes * phase.plane;
}

void design_phase(TileDesign& design, const Phase& source, const TileRequest& request) {
  TilePhase phase;
  const ForwardConv& conv = design.conv;
  bool padding = false;
  for (int i = 0; i < 3; ++i) {
    phase.axis[i] = source.axis[i];
    padding = padding || phase.axis[i].reads_padding();
  }
  const bool one_tap = source.taps() == 1;
  if (source.taps() > 0 && request.gathered && (padding || !one_tap)) {
    phase.input = TileInput::gathered;
  } else if (source.taps() > 0 && padding) {
    phase.input = TileInput::padded;
  }
  phase.reduction = reduction_of(design, source.taps());
  choose_shape(design, phase, request);
  const std::int64_t l2 = request.cpu->l2_bytes > 0 ? request.cpu->l2_bytes : kDefaultL2;
  const double positions =
      static_cast<double>(conv.batch) * phase.axis[0].count * phase.axis[1].count * phase.axis[2].count;
  const double weights = static_cast<double>(phase.reduction) * conv.out_channels * conv.groups;
  const double activations = positions * (conv.in_channels + conv.out_channels) * conv.groups;
  // Sharing positions, each thread reads all weights; sharing channels, each reads all of the input, and writes what
  // the next step, whose threads share positions, finds in the other core's cache: a step over 450 KB took 13 us where
  // its own core had written them, 42 where the other had.
  cut_equally(phase, Cut{l2 / 2.0}, request.threads, positions, phase.halves * phase.pixels, weights > activations,
              [&](const Cut& cut) {
                make_chunks(design, phase, cut.chunk_bytes);
                make_blocks(design, phase, l2 / 4.0, cut);
              });
  if (phase.input == TileInput::gathered) {
    phase.x_pixel = phase.pixel;
  } else if (phase.axis[2].count > 1 && !design.too_large) {  // otherwise it is of no use, and may not fit 64 bits
    phase.x_pixel = phase.axis[2].in_step * (phase.input == TileInput::padded ? phase.pixel : conv.in.spatial[2]);
  }
  for (TilePanel& panel : phase.panels) {
    panel.weights = design.packed_floats;
    design.packed_floats += phase.reduction * panel.shape->vectors * design.kernels->lanes;
    design.packed_floats = round_up(design.packed_floats, 16);
  }
  // The buffer, then per tile 2 x offsets, the positions' out offsets, its halves and whether it is whole (8 bytes
  // each).
  const std::int64_t per_tile = 2 * (2 + kMaxTilePixels + 2);
  design.scratch_floats =
      std::max(design.scratch_floats, round_up(phase.buffer, 16) + round_up(phase.tiles * per_tile, 16));
  if (!phase.panels.empty() && positions > 0 && !design.too_large) {
    design.cycles += shape_cycles(conv, phase, *phase.panels[0].shape, *design.kernels);
    design.cycles += copy_cycles(design, phase);
  }
  design.phases.push_back(std::move(phase));
}

}  // namespace

namespace {

// Joins groups where whole ones fill a vector and the kernels have their size.
void join_groups(TileDesign& design) {
  ForwardConv& conv = design.conv;
  const std::int64_t lanes = design.kernels->lanes;
  const std::int64_t group = conv.in_channels;
  if (conv.groups == 1 || conv.out_channels != group || conv.groups * group % lanes != 0 || design.planar_in) return;
  if (!design.channels_last_in && conv.in.block % lanes != 0) return;
  for (int i = 0; i < design.kernels->shape_count; ++i) {
    if (design.kernels->shapes[i].group != group) continue;
    design.grouped = group;
    design.group_weights = conv.w_group;
    conv.groups = conv.groups * group / lanes;
    conv.w_group *= lanes / group;
    conv.in_channels = conv.out_channels = lanes;
    return;
  }
}

}  // namespace

TileDesign design_tiles(const ConvProblem& problem, const TileRequest& request) {
  TileDesign design;
  design.conv = forward_view(problem);
  merge_axes(design.conv);
  design.kernels = request.kernels;
  const TensorDesc& in = problem.pass == Pass::fprop ? problem.x : problem.y;
  design.channels_last_in = in.is_packed(Layout::nhwc);
  design.planar_in = !design.channels_last_in && in.channel_block == 1;
  design.channels_last_out = problem.out().is_packed(Layout::nhwc);
  join_groups(design);
  for (const Phase& phase : design.conv.phases) design_phase(design, phase, request);
  return design;
}

void order_reductions(TileDesign& design) {
  for (TilePhase& phase : design.phases) order_reduction(design, phase);
}

TileSize tile_of(const TileDesign& design) {
  if (design.phases.empty() || design.phases[0].panels.empty()) return {};
  const TilePhase& phase = design.phases[0];
  return {phase.halves * phase.pixels, phase.panels[0].shape->vectors};
}

std::vector<DeclaredKnob> tile_knobs() { return {{kPositions}, {kChannelVectors}}; }

KnobValues knobs_of(TileSize tile) {
  if (tile == TileSize{}) return {};
  return {{kChannelVectors, tile.vectors}, {kPositions, tile.positions}};
}

TileSize tile_of(const KnobValues& knobs) {
  return {static_cast<int>(knob_or(knobs, kPositions, 0)), static_cast<int>(knob_or(knobs, kChannelVectors, 0))};
}

Configurations tile_configurations(const ConvProblem& problem, const TileRequest& request) {
  TileRequest automatic = request;
  automatic.tile = {};
  const TileDesign design = design_tiles(problem, automatic);
  const TileSize first = tile_of(design);
  if (first == TileSize{}) return {};
  std::vector<KnobValues> listed = {knobs_of(first)};
  const TilePhase& phase = design.phases[0];
  const std::int64_t vectors = ceil_div(design.conv.out_channels, request.kernels->lanes);
  for (int i = 0; i < request.kernels->shape_count; ++i) {
    const TileShape& shape = request.kernels->shapes[i];
    const TileSize tile = size_of(shape);
    if (shape.group != design.grouped) continue;
    const bool possible = phase.input != TileInput::in_place || shape.pixels <= phase.axis[2].count;
    if (tile != first && possible && tile.vectors <= vectors && tile.positions * tile.vectors >= 8) {
      listed.push_back(knobs_of(tile));
    }
  }
  return listed_configurations(std::move(listed), {{kPositions, {}, "output positions of a register tile"},
                                                   {kChannelVectors, {}, "its vectors of output channels"}});
}

}  // namespace convoy::cpu
