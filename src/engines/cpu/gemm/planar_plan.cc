#include "engines/cpu/gemm/planar_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

struct Block {
  std::int64_t image, depth;
  std::int64_t row, rows;
  std::int64_t column, cols;
};

// Of tensors of Real, float or double.
template <class Real>
class PlanarPlan : public PackedPlan {
 public:
  PlanarPlan(const ConvProblem& problem, Candidate candidate, int threads, PlanarDesign design)
      : PackedPlan(problem, std::move(candidate), threads, design.packed_floats * sizeof(Real),
                   static_cast<std::size_t>(threads) * design.scratch_floats * sizeof(Real)),
        design_(std::move(design)) {}

 private:
  std::vector<std::string> run_stages() const override { return {"copy a block of input + products"}; }
  void pack(const void* weights, void* packed, ThreadTeam* team) const override;
  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override;

  void run_item(const PhaseJob<Real>& job, const PlanarPhase& phase, const PanelChunk& chunk, const Block& block,
                bool filled, Real* buffer) const;
  static Block block_of(const PlanarPhase& phase, std::int64_t index);
  void copy_rows(const PlanarPhase& phase, const PanelChunk& chunk, const Block& block, const Real* in,
                 Real* buffer) const;

  PlanarDesign design_;
};

template <class Real>
void PlanarPlan<Real>::pack(const void* weights, void* packed, ThreadTeam* team) const {
  const ForwardConv& conv = design_.conv;
  const auto* from = static_cast<const Real*>(weights);
  auto* to = static_cast<Real*>(packed);
  pack_panels(design_.phases, team, [&](const PlanarPanel& panel, std::span<const PackedElement> elements) {
    const Real* base = from + panel.group * conv.w_group + panel.first * conv.w_out;
    pack_elements(elements, base, conv.w_out, panel.channels, panel.kernel->channels, to + panel.weights);
  });
}

template <class Real>
Block PlanarPlan<Real>::block_of(const PlanarPhase& phase, std::int64_t index) {
  Block block{};
  block.column = index % phase.col_blocks * phase.block_cols;
  index /= phase.col_blocks;
  block.row = index % phase.row_blocks * phase.block_rows;
  index /= phase.row_blocks;
  block.depth = index % phase.axis[0].count;
  block.image = index / phase.axis[0].count;
  block.rows = std::min(phase.block_rows, phase.axis[1].count - block.row);
  block.cols = std::min(phase.block_cols, phase.axis[2].count - block.column);
  return block;
}

// [channel][slice][row][pitch], see PlanarSlice; padding and the slack behind the last vector are zeros.
template <class Real>
void PlanarPlan<Real>::copy_rows(const PlanarPhase& phase, const PanelChunk& chunk, const Block& block, const Real* in,
                                 Real* buffer) const {
  const ForwardConv& conv = design_.conv;
  const Axis* axis = phase.axis;
  const std::int64_t first = chunk.group_begin * conv.in_channels;
  const std::int64_t channels = (chunk.group_end - chunk.group_begin) * conv.in_channels;
  const std::int64_t step = axis[2].in_step;
  const std::int64_t rows = phase.slice_rows - (phase.block_rows - block.rows);
  const std::int64_t stride = step * conv.in.spatial[2];
  for (std::int64_t c = 0; c < channels; ++c) {
    const Real* image = in + block.image * conv.in.batch + (first + c) * conv.in.channel;
    for (std::size_t s = 0; s < phase.slices.size(); ++s) {
      const PlanarSlice& slice = phase.slices[s];
      Real* to = buffer + c * phase.plane + static_cast<std::int64_t>(s) * phase.slice;
      const std::int64_t d = block.depth * axis[0].in_step + slice.depth;
      const std::int64_t h0 = block.row * axis[1].in_step + slice.row;
      // Column j of the slice is input column w0 + j*step; [left, end) of them exist.
      const std::int64_t w0 = block.column * step + slice.column;
      const std::int64_t left = std::clamp<std::int64_t>(w0 < 0 ? (-w0 + step - 1) / step : 0, 0, phase.pitch);
      const std::int64_t end = std::clamp<std::int64_t>(
          w0 < axis[2].in_size ? (axis[2].in_size - w0 + step - 1) / step : 0, left, phase.pitch);
      for (std::int64_t r = 0; r < rows; ++r, to += phase.pitch) {
        const std::int64_t h = h0 + r * axis[1].in_step;
        if (d < 0 || d >= axis[0].in_size || h < 0 || h >= axis[1].in_size || left == end) {
          std::memset(to, 0, phase.pitch * sizeof(Real));
          continue;
        }
        const Real* source =
            image + d * conv.in.spatial[0] + h * conv.in.spatial[1] + (w0 + left * step) * conv.in.spatial[2];
        for (std::int64_t j = 0; j < left; ++j) to[j] = 0;
        if (stride == 1) {
          std::memcpy(to + left, source, (end - left) * sizeof(Real));
        } else {
          for (std::int64_t j = left; j < end; ++j) to[j] = source[(j - left) * stride];
        }
        for (std::int64_t j = end; j < phase.pitch; ++j) to[j] = 0;
      }
    }
    // What vectors read behind the last row, so that no denormal that lay there slows the sums.
    const std::int64_t used = static_cast<std::int64_t>(phase.slices.size() - 1) * phase.slice + rows * phase.pitch;
    Real* behind = buffer + c * phase.plane + used;
    const std::int64_t slack =
        std::min<std::int64_t>(kMaxPlanarVectors * design_.kernels->lanes, buffer + phase.buffer - behind);
    std::memset(behind, 0, slack * sizeof(Real));
  }
}

template <class Real>
void PlanarPlan<Real>::run_item(const PhaseJob<Real>& job, const PlanarPhase& phase, const PanelChunk& chunk,
                                const Block& block, bool filled, Real* buffer) const {
  const ForwardConv& conv = design_.conv;
  const Axis* axis = phase.axis;
  if (!filled && !phase.steps.empty()) copy_rows(phase, chunk, block, job.in, buffer);
  PlanarArgsOf<Real> args{};
  args.steps = phase.steps.data();
  args.count = static_cast<std::int64_t>(phase.steps.size());
  args.out_step = axis[2].out_step * conv.out.spatial[2];
  args.out_channel = conv.out.channel;
  args.out = job.out;
  args.z = job.z;
  args.epilogue = &job.epilogue;
  const std::int64_t plane_start =
      block.image * conv.out.batch + (axis[0].out_start + block.depth * axis[0].out_step) * conv.out.spatial[0];
  // Rows that follow one another without gaps, in the buffer and in out, are one long row.
  const std::int64_t row_distance = axis[1].out_step * conv.out.spatial[1];
  const bool joined = phase.pitch == block.cols && row_distance == block.cols * args.out_step;
  const std::int64_t count = (block.rows - 1) * phase.pitch + block.cols;
  // A segment needs a row's worth of positions, so a tile has at most one for each and one more.
  PlanarSegment segments[kMaxPlanarVectors * 16 + 1];
  args.segments = segments;
  // Tiles outside, panels inside: the positions of a tile stay in L1 while the weights stream from L2.
  std::int64_t widths[kMaxPlanarVectors + 1] = {};
  for (std::int64_t i = chunk.panel_begin; i < chunk.panel_end; ++i) widths[phase.panels[i].kernel->vectors] = 1;
  for (int vectors = 1; vectors <= kMaxPlanarVectors; ++vectors) {
    if (widths[vectors] == 0) continue;
    const std::int64_t width = static_cast<std::int64_t>(vectors) * design_.kernels->lanes;
    for (std::int64_t q = 0; q < count; q += width) {
      const std::int64_t end = std::min(count, q + width);
      args.segment_count = 0;
      for (std::int64_t at = q; at < end;) {
        const std::int64_t row = joined ? 0 : at / phase.pitch;
        const std::int64_t column = at - row * phase.pitch;
        const std::int64_t row_end = joined ? count : row * phase.pitch + block.cols;
        if (at < row_end) {
          const std::int64_t out =
              plane_start + (axis[1].out_start + (block.row + row) * axis[1].out_step) * conv.out.spatial[1] +
              (axis[2].out_start + (block.column + column) * axis[2].out_step) * conv.out.spatial[2];
          segments[args.segment_count++] = {at - q, std::min(end, row_end) - at, out};
        }
        at = joined ? count : (row + 1) * phase.pitch;
      }
      if (args.segment_count == 0) continue;
      for (std::int64_t i = chunk.panel_begin; i < chunk.panel_end; ++i) {
        const PlanarPanel& panel = phase.panels[i];
        if (panel.kernel->vectors != vectors) continue;
        args.x = buffer + (panel.group - chunk.group_begin) * conv.in_channels * phase.plane + q;
        args.w = job.packed + panel.weights;
        args.channels = panel.channels;
        args.channel = panel.group * conv.out_channels + panel.first;
        panel.kernel->run(&args);
      }
    }
  }
}

template <class Real>
Result<void> PlanarPlan<Real>::run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const {
  const PhaseJob<Real> job = make_phase_job<Real>(problem(), args, packed);
  run_items(design_.phases, team, [&](const PlanarPhase& phase, const PanelChunk& chunk, PhaseItem item, int thread) {
    Real* const buffer = static_cast<Real*>(scratch) + thread * design_.scratch_floats;
    run_item(job, phase, chunk, block_of(phase, item.block), item.filled, buffer);
  });
  return {};
}

}  // namespace

const PlanarKernels* planar_kernels_for(DataType type, Isa isa) {
  static const IsaRow<PlanarKernels> f32[] = {{Isa::avx2, &avx2::planar_kernels},
                                              {Isa::avx512, &avx512::planar_kernels}};
  static const IsaRow<PlanarKernels> f64[] = {{Isa::avx2, &avx2_f64::planar_kernels},
                                              {Isa::avx512, &avx512_f64::planar_kernels}};
  return type == DataType::f64 ? best_row<PlanarKernels>(f64, isa) : best_row<PlanarKernels>(f32, isa);
}

Result<std::unique_ptr<ConvPlan>> make_planar_plan(const ConvProblem& problem, const std::string& engine,
                                                   const PlanarRequest& request, const void* constant_weights) {
  PlanarDesign design = design_planar(problem, request);
  order_reductions(design);
  Candidate candidate{engine, knobs_of(tile_of(design))};
  const int threads = std::max(1, request.threads);
  if (problem.x.type == DataType::f64) {
    return kept_plan<PlanarPlan<double>>(constant_weights, problem, std::move(candidate), threads, std::move(design));
  }
  return kept_plan<PlanarPlan<float>>(constant_weights, problem, std::move(candidate), threads, std::move(design));
}

double tile_seconds(const ConvProblem& problem, const PlanarDesign& design) {
  return predict_seconds(problem, design.cycles, design.kernels->lanes);
}

}  // namespace convoy::cpu
