#include "engines/cpu/direct/tile_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

// Where an item's block lies: positions [first, first + cols) of rows [row, row + rows), or flattened ones when
// gathered.
struct Block {
  std::int64_t image, depth;
  std::int64_t row, rows;
  std::int64_t first, cols;
};

struct Tile {
  std::int64_t x[2];                        // offset of position 0 of each half
  std::int64_t out_offset[kMaxTilePixels];  // -1: not stored
  std::int64_t halves;                      // that it has: the last one of a block may have one alone
  std::int64_t whole;                       // 1: all their positions are stored
};

// Of tensors of Real, float or double.
template <class Real>
class TilePlan : public PackedPlan {
 public:
  TilePlan(const ConvProblem& problem, Candidate candidate, int threads, TileDesign design)
      : PackedPlan(problem, std::move(candidate), threads, design.packed_floats * sizeof(Real),
                   static_cast<std::size_t>(threads) * design.scratch_floats * sizeof(Real)),
        design_(std::move(design)) {}

 private:
  std::vector<std::string> run_stages() const override {
    const bool copies = std::any_of(design_.phases.begin(), design_.phases.end(),
                                    [](const TilePhase& phase) { return phase.input != TileInput::in_place; });
    return {copies ? "copy a block of input + products" : "products"};
  }
  void pack(const void* weights, void* packed, ThreadTeam* team) const override;
  void pack_grouped(const TilePanel& panel, std::span<const PackedElement> elements, const Real* weights,
                    Real* rows) const;
  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override;

  std::int64_t group_offset(const TilePhase& phase, const PanelChunk& chunk, std::int64_t group) const;
  void run_item(const PhaseJob<Real>& job, const TilePhase& phase, const PanelChunk& chunk, PhaseItem item,
                Real* scratch) const;
  Block block_of(const TilePhase& phase, std::int64_t index) const;
  void copy_rows(const TilePhase& phase, const PanelChunk& chunk, const Block& block, const Real* in,
                 Real* buffer) const;
  void gather(const TilePhase& phase, const PanelChunk& chunk, const Block& block, const Real* in, Real* buffer) const;
  std::int64_t make_tiles(const TilePhase& phase, const Block& block, Tile* tiles) const;
  std::int64_t out_offset(const TilePhase& phase, std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) const;
  void zero_channel_padding(const TilePhase& phase, const Tile* tiles, std::int64_t count, Real* out) const;

  TileDesign design_;
};

template <class Real>
void TilePlan<Real>::pack(const void* weights, void* packed, ThreadTeam* team) const {
  const ForwardConv& conv = design_.conv;
  const auto* from = static_cast<const Real*>(weights);
  auto* to = static_cast<Real*>(packed);
  pack_panels(design_.phases, team, [&](const TilePanel& panel, std::span<const PackedElement> elements) {
    const Real* const base = from + panel.group * conv.w_group + panel.first * conv.w_out;
    const std::int64_t width = static_cast<std::int64_t>(panel.shape->vectors) * design_.kernels->lanes;
    if (design_.grouped > 0) {
      pack_grouped(panel, elements, base, to + panel.weights);
    } else {
      pack_elements(elements, base, conv.w_out, panel.channels, width, to + panel.weights);
    }
  });
}

// A panel of joined groups, which fill its one vector.
template <class Real>
void TilePlan<Real>::pack_grouped(const TilePanel& panel, std::span<const PackedElement> elements, const Real* weights,
                                  Real* rows) const {
  const std::int64_t width = static_cast<std::int64_t>(panel.shape->vectors) * design_.kernels->lanes;
  for (const PackedElement& element : elements) {
    Real* const row = rows + element.row * width;
    for (std::int64_t k = 0; k < width; ++k) {
      const bool there = k < panel.channels && element.offset >= 0;
      row[k] = there ? weights[element.offset + k / design_.grouped * design_.group_weights +
                               k % design_.grouped * design_.conv.w_out]
                     : Real{0};
    }
  }
}

template <class Real>
Block TilePlan<Real>::block_of(const TilePhase& phase, std::int64_t index) const {
  Block block{};
  const std::int64_t col = index % phase.col_blocks;
  index /= phase.col_blocks;
  const std::int64_t row = index % phase.row_blocks;
  index /= phase.row_blocks;
  block.depth = index % phase.axis[0].count;
  block.image = index / phase.axis[0].count;
  std::int64_t cols = phase.axis[2].count;
  if (phase.input == TileInput::gathered) {
    block.depth = block.image = 0;
    cols = design_.conv.batch * phase.axis[0].count * phase.axis[1].count * phase.axis[2].count;
  }
  block.row = row * phase.block_rows;
  block.rows = std::min(phase.block_rows, phase.axis[1].count - block.row);
  block.first = col * phase.block_cols;
  block.cols = std::min(phase.block_cols, cols - block.first);
  return block;
}

template <class Real>
std::int64_t TilePlan<Real>::out_offset(const TilePhase& phase, std::int64_t n, std::int64_t d, std::int64_t h,
                                        std::int64_t w) const {
  const ActivationView& out = design_.conv.out;
  return n * out.batch + (phase.axis[0].out_start + d * phase.axis[0].out_step) * out.spatial[0] +
         (phase.axis[1].out_start + h * phase.axis[1].out_step) * out.spatial[1] +
         (phase.axis[2].out_start + w * phase.axis[2].out_step) * out.spatial[2];
}

// Tiles of a block, halves in row order. A half that would pass the end of its row starts early instead when x is read
// in place (its first positions belong to its neighbour and are not stored); the copied forms have room behind each
// row.
template <class Real>
std::int64_t TilePlan<Real>::make_tiles(const TilePhase& phase, const Block& block, Tile* tiles) const {
  const ForwardConv& conv = design_.conv;
  std::int64_t count = 0;
  int half = 0;
  // A half that stores positions [skip, skip + valid), those from x on; returns where their offsets go.
  const auto next_half = [&](std::int64_t x, std::int64_t skip, std::int64_t valid) {
    if (half == phase.halves) {
      ++count;
      half = 0;
    }
    Tile& tile = tiles[count];
    if (half == 0) tile.whole = 1;
    tile.x[half] = x;
    std::int64_t* const offsets = tile.out_offset + phase.pixels * half++;
    tile.halves = half;
    if (valid < phase.pixels) {
      tile.whole = 0;
      std::fill(offsets, offsets + phase.pixels, -1);
    }
    return offsets + skip;
  };
  const auto finished = [&] { return half == 0 ? count : count + 1; };
  if (phase.input == TileInput::gathered) {
    for (std::int64_t q = 0; q < block.cols; q += phase.pixels) {
      const std::int64_t valid = std::min<std::int64_t>(phase.pixels, block.cols - q);
      std::int64_t* offsets = next_half(q * phase.pixel, 0, valid);
      for (std::int64_t i = 0; i < valid; ++i) {
        std::int64_t at = block.first + q + i;
        const std::int64_t w = at % phase.axis[2].count;
        at /= phase.axis[2].count;
        const std::int64_t h = at % phase.axis[1].count;
        at /= phase.axis[1].count;
        offsets[i] = out_offset(phase, at / phase.axis[0].count, at % phase.axis[0].count, h, w);
      }
    }
    return finished();
  }
  const bool padded = phase.input == TileInput::padded;
  const std::int64_t out_step = phase.axis[2].out_step * conv.out.spatial[2];
  for (std::int64_t h = 0; h < block.rows; ++h) {
    const std::int64_t row = out_offset(phase, block.image, block.depth, block.row + h, 0);
    const std::int64_t in_row = padded ? h * phase.axis[1].in_step * phase.row
                                       : block.image * conv.in.batch +
                                             block.depth * phase.axis[0].in_step * conv.in.spatial[0] +
                                             (block.row + h) * phase.axis[1].in_step * conv.in.spatial[1];
    for (std::int64_t w = 0; w < block.cols; w += phase.pixels) {
      const std::int64_t at = block.first + w;
      const std::int64_t first = padded ? at : std::min(at, phase.axis[2].count - phase.pixels);
      const std::int64_t skip = at - first;
      const std::int64_t valid = std::min(phase.pixels - skip, block.cols - w);
      std::int64_t* offsets = next_half(in_row + (padded ? w : first) * phase.x_pixel, skip, valid);
      for (std::int64_t i = 0; i < valid; ++i) offsets[i] = row + (at + i) * out_step;
    }
  }
  return finished();
}

// The input rows a block reads, padding as zeros: [plane][depth][row][position][channels or block].
template <class Real>
void TilePlan<Real>::copy_rows(const TilePhase& phase, const PanelChunk& chunk, const Block& block, const Real* in,
                               Real* buffer) const {
  const ActivationView& view = design_.conv.in;
  const std::int64_t first_channel = chunk.group_begin * design_.conv.in_channels;
  const std::int64_t end_channel = chunk.group_end * design_.conv.in_channels;
  std::int64_t plane_begin = 0, planes = 1, width = 1;  // width: floats a position has in a plane
  const Real* from = in + block.image * view.batch;
  if (design_.channels_last_in) {
    width = end_channel - first_channel;
    from += first_channel;
  } else {
    plane_begin = first_channel / view.block;
    planes = (end_channel + view.block - 1) / view.block - plane_begin;
    width = view.block;
  }
  const Axis* axis = phase.axis;
  const std::int64_t d0 = block.depth * axis[0].in_step + axis[0].min_offset();
  const std::int64_t h0 = block.row * axis[1].in_step + axis[1].min_offset();
  const std::int64_t w0 = block.first * axis[2].in_step + axis[2].min_offset();
  const std::int64_t depths = phase.plane / phase.slab;
  const std::int64_t rows = (block.rows - 1) * axis[1].in_step + axis[1].max_offset() - axis[1].min_offset() + 1;
  const std::int64_t cols = phase.row / phase.pixel;
  const std::int64_t left = std::clamp<std::int64_t>(-w0, 0, cols);
  const std::int64_t valid = std::clamp<std::int64_t>(axis[2].in_size - (w0 + left), 0, cols - left);
  const std::size_t row_bytes = phase.row * sizeof(Real);
  for (std::int64_t p = 0; p < planes; ++p) {
    for (std::int64_t d = 0; d < depths; ++d) {
      for (std::int64_t h = 0; h < rows; ++h) {
        Real* to = buffer + p * phase.plane + d * phase.slab + h * phase.row;
        const bool inside = d0 + d >= 0 && d0 + d < axis[0].in_size && h0 + h >= 0 && h0 + h < axis[1].in_size;
        if (!inside || valid == 0) {
          std::memset(to, 0, row_bytes);
          continue;
        }
        const Real* source = from + (plane_begin + p) * (design_.channels_last_in ? 0 : view.channel) +
                             (d0 + d) * view.spatial[0] + (h0 + h) * view.spatial[1] + (w0 + left) * view.spatial[2];
        std::memset(to, 0, left * phase.pixel * sizeof(Real));
        Real* row = to + left * phase.pixel;
        if (width == phase.pixel && width == view.spatial[2]) {
          std::memcpy(row, source, valid * width * sizeof(Real));
        } else {
          for (std::int64_t w = 0; w < valid; ++w) {
            std::memcpy(row + w * phase.pixel, source + w * view.spatial[2], width * sizeof(Real));
          }
        }
        std::memset(row + valid * phase.pixel, 0, (cols - left - valid) * phase.pixel * sizeof(Real));
      }
    }
  }
}

// Rows of the im2col matrix: for each position its taps' channels one after another.
template <class Real>
void TilePlan<Real>::gather(const TilePhase& phase, const PanelChunk& chunk, const Block& block, const Real* in,
                            Real* buffer) const {
  const ForwardConv& conv = design_.conv;
  const Axis* axis = phase.axis;
  const std::int64_t first_channel = chunk.group_begin * conv.in_channels;
  const std::int64_t channels = (chunk.group_end - chunk.group_begin) * conv.in_channels;
  const std::int64_t taps = static_cast<std::int64_t>(axis[0].taps.size() * axis[1].taps.size() * axis[2].taps.size());
  const std::int64_t tap_floats = phase.gathered_channels;
  const std::size_t bytes = channels * sizeof(Real);
  for (std::int64_t q = 0; q < block.cols; ++q) {
    std::int64_t at = block.first + q;
    const std::int64_t w = at % axis[2].count * axis[2].in_step;
    at /= axis[2].count;
    const std::int64_t h = at % axis[1].count * axis[1].in_step;
    at /= axis[1].count;
    const std::int64_t d = at % axis[0].count * axis[0].in_step;
    const Real* image = in + at / axis[0].count * conv.in.batch + first_channel;
    Real* to = buffer + q * phase.pixel;
    for (const AxisTap& tap_d : axis[0].taps) {
      const std::int64_t in_d = d + tap_d.offset;
      for (const AxisTap& tap_h : axis[1].taps) {
        const std::int64_t in_h = h + tap_h.offset;
        const bool row_inside = in_d >= 0 && in_d < axis[0].in_size && in_h >= 0 && in_h < axis[1].in_size;
        const Real* row = image + in_d * conv.in.spatial[0] + in_h * conv.in.spatial[1];
        for (const AxisTap& tap_w : axis[2].taps) {
          const std::int64_t in_w = w + tap_w.offset;
          if (row_inside && in_w >= 0 && in_w < axis[2].in_size) {
            std::memcpy(to, row + in_w * conv.in.spatial[2], bytes);
          } else {
            std::memset(to, 0, bytes);
          }
          to += tap_floats;
        }
      }
    }
  }
  // Positions behind the last one are multiplied too (and not stored): keep denormals that lay there out of it.
  const std::int64_t tile = phase.halves * phase.pixels;
  const std::int64_t end = (block.cols + tile - 1) / tile * tile;
  for (std::int64_t q = block.cols; q < end; ++q) {
    std::memset(buffer + q * phase.pixel, 0, taps * tap_floats * sizeof(Real));
  }
}

template <class Real>
void TilePlan<Real>::zero_channel_padding(const TilePhase& phase, const Tile* tiles, std::int64_t count,
                                          Real* out) const {
  const ForwardConv& conv = design_.conv;
  const std::int64_t channels = conv.groups * conv.out_channels;
  const std::int64_t block = conv.out.block;
  const std::int64_t valid = channels % block;
  for (std::int64_t t = 0; t < count; ++t) {
    for (int p = 0; p < tiles[t].halves * phase.pixels; ++p) {
      if (tiles[t].out_offset[p] < 0) continue;
      Real* at = out + tiles[t].out_offset[p] + channels / block * conv.out.channel;
      std::fill(at + valid, at + block, Real{0});
    }
  }
}

// x of a group, from what the kernel reads.
template <class Real>
std::int64_t TilePlan<Real>::group_offset(const TilePhase& phase, const PanelChunk& chunk, std::int64_t group) const {
  const ForwardConv& conv = design_.conv;
  const bool copied = phase.input != TileInput::in_place;
  const std::int64_t channel = group * conv.in_channels;
  const std::int64_t first = copied ? chunk.group_begin * conv.in_channels : 0;  // that was copied
  if (design_.channels_last_in) return channel - first;
  const std::int64_t plane = copied ? phase.plane : conv.in.channel;
  const std::int64_t at = phase.group_steps ? 0 : channel / conv.in.block * plane + channel % conv.in.block;
  return at - first / conv.in.block * plane;
}

template <class Real>
void TilePlan<Real>::run_item(const PhaseJob<Real>& job, const TilePhase& phase, const PanelChunk& chunk,
                              PhaseItem item, Real* scratch) const {
  const ForwardConv& conv = design_.conv;
  const int lanes = design_.kernels->lanes;
  const Block block = block_of(phase, item.block);
  Real* buffer = scratch;
  auto* tiles = reinterpret_cast<Tile*>(scratch + (phase.buffer + 15) / 16 * 16);
  if (phase.input == TileInput::padded && !item.filled) copy_rows(phase, chunk, block, job.in, buffer);
  if (phase.input == TileInput::gathered && !item.filled) gather(phase, chunk, block, job.in, buffer);
  const std::int64_t tile_count = make_tiles(phase, block, tiles);
  const bool copied = phase.input != TileInput::in_place;
  const Real* x = copied ? buffer : job.in;
  const std::int64_t out_block = design_.channels_last_out ? 0 : conv.out.block;

  alignas(64) Real accumulators[kMaxTilePixels * kMaxTileVectors * 16];
  TileArgsOf<Real> args{};
  args.x_pixel = phase.x_pixel;
  args.step_count = phase.step_count;
  args.run = phase.run;
  args.run_stride = phase.run_stride;
  args.out = job.out;
  args.z = job.z;
  args.epilogue = &job.epilogue;
  TileFinishOf<Real> finish{};
  finish.tile = accumulators;
  finish.block = out_block;
  finish.block_stride = conv.out.channel;
  finish.out = job.out;
  finish.z = job.z;
  finish.epilogue = &job.epilogue;
  for (std::int64_t i = chunk.panel_begin; i < chunk.panel_end; ++i) {
    const TilePanel& panel = phase.panels[i];
    const std::int64_t width = static_cast<std::int64_t>(panel.shape->vectors) * lanes;
    const std::int64_t channel = panel.group * conv.out_channels + panel.first;
    const Real* const group_x = x + group_offset(phase, chunk, panel.group);
    args.steps = phase.steps.data() + (phase.group_steps ? panel.group * phase.step_count : 0);
    args.w = job.packed + panel.weights;
    args.channel = channel;
    std::int64_t vector_offset[kMaxTileVectors];
    bool fast = job.epilogue.fast && panel.channels == width &&
                (out_block == 0 || (out_block % lanes == 0 && channel % lanes == 0));
    for (int v = 0; v < panel.shape->vectors; ++v) {
      const std::int64_t k = channel + static_cast<std::int64_t>(v) * lanes;
      vector_offset[v] = out_block == 0 ? k : k / out_block * conv.out.channel + k % out_block;
    }
    args.vector_offset = vector_offset;
    finish.channel = channel;
    finish.channels = panel.channels;
    finish.width = static_cast<int>(width);
    // The first sweep over a chunk's weights finds them in memory: fetch the next panel while this one computes. Later
    // blocks have their weights, and their first panel fetches the input of the tiles that follow.
    const bool fetch = item.first_of_chunk && i + 1 < chunk.panel_end;
    const bool fetch_input = !fetch && !copied && i == chunk.panel_begin;
    const std::int64_t panel_floats = phase.reduction * width;
    for (std::int64_t t = 0; t < tile_count; ++t) {
      const Tile& tile = tiles[t];
      for (int half = 0; half < tile.halves; ++half) args.x[half] = group_x + tile.x[half];
      args.out_offset = tile.out_offset;
      args.tile = fast && tile.whole != 0 ? nullptr : accumulators;
      const std::int64_t fetched = t * phase.reduction * (64 / static_cast<int>(sizeof(Real)));
      args.prefetch = nullptr;
      if (fetch && fetched < panel_floats) args.prefetch = args.w + panel_floats + fetched;
      if (fetch_input && t + 1 < tile_count) args.prefetch = group_x + tiles[t + 1].x[0];
      (tile.halves == phase.halves ? panel.shape->run : panel.shape->run_one_half)(&args);
      if (args.tile != nullptr) {
        finish.positions = static_cast<int>(tile.halves) * phase.pixels;
        finish.out_offset = tile.out_offset;
        design_.kernels->finish(&finish);
      }
    }
  }
  const bool last = chunk.panel_end == static_cast<std::int64_t>(phase.panels.size());
  if (last && out_block > 1 && conv.groups * conv.out_channels % out_block != 0) {
    zero_channel_padding(phase, tiles, tile_count, job.out);
  }
}

template <class Real>
Result<void> TilePlan<Real>::run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const {
  const PhaseJob<Real> job = make_phase_job<Real>(problem(), args, packed);
  run_items(design_.phases, team, [&](const TilePhase& phase, const PanelChunk& chunk, PhaseItem item, int thread) {
    run_item(job, phase, chunk, item, static_cast<Real*>(scratch) + thread * design_.scratch_floats);
  });
  return {};
}

}  // namespace

const TileKernels* tile_kernels_for(DataType type, Isa isa) {
  static const IsaRow<TileKernels> f32[] = {{Isa::avx2, &avx2::tile_kernels}, {Isa::avx512, &avx512::tile_kernels}};
  static const IsaRow<TileKernels> f64[] = {{Isa::avx2, &avx2_f64::tile_kernels},
                                            {Isa::avx512, &avx512_f64::tile_kernels}};
  return type == DataType::f64 ? best_row<TileKernels>(f64, isa) : best_row<TileKernels>(f32, isa);
}

Result<std::unique_ptr<ConvPlan>> make_tile_plan(const ConvProblem& problem, const std::string& engine,
                                                 const TileRequest& request, const void* constant_weights) {
  TileDesign design = design_tiles(problem, request);
  order_reductions(design);
  Candidate candidate{engine, knobs_of(tile_of(design))};
  const int threads = std::max(1, request.threads);
  if (problem.x.type == DataType::f64) {
    return kept_plan<TilePlan<double>>(constant_weights, problem, std::move(candidate), threads, std::move(design));
  }
  return kept_plan<TilePlan<float>>(constant_weights, problem, std::move(candidate), threads, std::move(design));
}

double tile_seconds(const ConvProblem& problem, const TileDesign& design) {
  return predict_seconds(problem, design.cycles, design.kernels->lanes);
}

}  // namespace convoy::cpu
