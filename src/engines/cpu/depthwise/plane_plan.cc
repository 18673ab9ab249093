#include <algorithm>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/depthwise/plans.h"

namespace convoy::cpu {
namespace {

constexpr std::int64_t kRound =
    128;  // floats; a multiple of what DepthwiseKernels::plane_sum takes, whatever the lanes

// One thread's buffers, for a band of output rows of one plane (counted in j, the same for all phases of the height).
struct BandLayout {
  Reach reach[3];
  std::int64_t row_step = 1;  // of the source: rows and columns are split by residue of their position by the step
  std::int64_t column_step = 1;
  std::int64_t columns = 0;       // source columns copied
  std::int64_t pitch = 0;         // of a row of one residue of columns
  std::int64_t band_rows = 0;     // j
  std::int64_t source_rows = 0;   // copied for a full band
  std::int64_t residue_rows = 0;  // of one residue
  std::int64_t plane = 0;         // floats of one source plane
  std::int64_t planes = 0;        // depth taps times source channels
  std::int64_t sums = 0;          // floats of a phase's sums
  std::int64_t dense = 0;         // floats of the interleaved sums; 0 where there is one phase
  std::int64_t slack = 0;         // floats after the last plane that plane_sum may read
  std::int64_t total() const { return planes * plane + slack + sums + dense; }
};

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

std::int64_t most_taps(const std::vector<DepthwisePhase>& phases) {
  std::int64_t taps = 0;
  for (const DepthwisePhase& phase : phases) taps = std::max(taps, phase.taps);
  return taps;
}

BandLayout band_layout(const DepthwiseShape& shape, std::int64_t band_rows) {
  BandLayout band;
  for (int i = 0; i < 3; ++i) band.reach[i] = reach_of(shape.phases[i]);
  const DepthwisePhase& height = shape.phases[1][0];  // the first phase has the most positions
  const DepthwisePhase& width = shape.phases[2][0];
  band.row_step = height.src_step;
  band.column_step = width.src_step;
  band.columns = (width.count - 1) * width.src_step + band.reach[2].high - band.reach[2].low + 1;
  band.pitch = (band.columns + width.src_step - 1) / width.src_step;
  band.band_rows = band_rows;
  band.source_rows = (band_rows - 1) * height.src_step + band.reach[1].high - band.reach[1].low + 1;
  band.residue_rows = (band.source_rows + height.src_step - 1) / height.src_step;
  band.plane = band.row_step * band.residue_rows * band.column_step * band.pitch;
  band.planes = std::max<std::int64_t>(most_taps(shape.phases[0]), 1) * shape.sources;
  band.sums = round_up(band_rows * band.pitch, kRound);
  band.slack = band.sums + kRound;
  if (height.out_step > 1 || width.out_step > 1) {
    band.dense = round_up(band_rows * height.out_step * shape.out_size[2], 16);
  }
  return band;
}

// The same in doubles, so that absurd dilations and sizes can't overflow.
double least_bytes(const DepthwiseShape& shape, double element_bytes) {
  const auto extent = [&](int i) {
    const Reach reach = reach_of(shape.phases[i]);
    return static_cast<double>(reach.high) - static_cast<double>(reach.low) + 1;
  };
  const DepthwisePhase& width = shape.phases[2][0];
  const double columns = static_cast<double>(width.count) * width.src_step + extent(2);
  const double rows = extent(1) + static_cast<double>(shape.phases[1][0].src_step);
  const double planes = static_cast<double>(most_taps(shape.phases[0]) + 1) * static_cast<double>(shape.sources);
  return element_bytes *
         (rows * (columns + width.src_step) * planes +
          static_cast<double>(shape.out_size[2]) * static_cast<double>(shape.phases[1][0].out_step) + 4096);
}

// Of tensors of Real, float or double.
template <class Real>
class PlanePlan final : public PackedPlan {
 public:
  PlanePlan(const ConvProblem& problem, Candidate candidate, const PlanRequest& request,
            const DepthwiseKernels<Real>& kernels, DepthwiseShape shape, const BandLayout& band)
      : PackedPlan(problem, std::move(candidate), request.threads,
                   shape.geometry.filters * shape.geometry.taps * sizeof(Real),
                   request.threads * thread_floats(shape, band) * sizeof(Real)),
        kernels_(kernels),
        shape_(std::move(shape)),
        band_(band),
        same_taps_(shape_.forward && shape_.geometry.filter[0] == 1 && shape_.geometry.pre[0] == 0 &&
                   shape_.geometry.post[0] == 0) {}

 private:
  std::vector<std::string> run_stages() const override { return {"copy a band of rows + products"}; }

  static std::int64_t tap_capacity(const DepthwiseShape& shape) { return shape.sources * shape.geometry.taps; }
  // The band's buffers, the taps' offsets (64 bits) and weights.
  static std::int64_t thread_floats(const DepthwiseShape& shape, const BandLayout& band) {
    return round_up(band.total(), 16) + round_up(3 * tap_capacity(shape), 16);
  }

  // [k][tap].
  void pack(const void* weights, void* packed, ThreadTeam*) const override {
    const auto* w = static_cast<const Real*>(weights);
    auto* to = static_cast<Real*>(packed);
    const WeightView& view = shape_.geometry.w;
    const std::int64_t* filter = shape_.geometry.filter;
    for (std::int64_t k = 0; k < shape_.geometry.filters; ++k) {
      for (std::int64_t d = 0; d < filter[0]; ++d) {
        for (std::int64_t r = 0; r < filter[1]; ++r) {
          for (std::int64_t s = 0; s < filter[2]; ++s) {
            *to++ = w[view.origin + k * view.out + d * view.spatial[0] + r * view.spatial[1] + s * view.spatial[2]];
          }
        }
      }
    }
  }

  struct Scratch {
    Real* planes;
    Real* sums;
    Real* dense;
    std::int64_t* offsets;
    Real* weights;
  };
  Scratch scratch_of(void* scratch, int thread) const {
    auto* base = static_cast<Real*>(scratch) + thread * thread_floats(shape_, band_);
    Scratch s{};
    s.planes = base;
    s.sums = base + band_.planes * band_.plane + band_.slack;
    s.dense = s.sums + band_.sums;
    s.offsets = reinterpret_cast<std::int64_t*>(base + round_up(band_.total(), 16));
    s.weights = reinterpret_cast<Real*>(s.offsets + tap_capacity(shape_));
    return s;
  }

  struct Item {
    std::int64_t n, channel, depth, first_j, rows;  // rows: of j
  };

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const EpilogueArgsOf<Real> epilogue = make_epilogue<Real>(problem(), args);
    const auto* src = static_cast<const Real*>(shape_.forward ? args.x : args.y);
    auto* out = static_cast<Real*>(args.out);
    const auto* z = epilogue.gamma != 0 ? static_cast<const Real*>(args.z) : out;
    const std::int64_t j_rows = shape_.phases[1][0].count;
    const std::int64_t bands = (j_rows + band_.band_rows - 1) / band_.band_rows;
    const std::int64_t items = shape_.geometry.batch * shape_.channels * shape_.out_size[0] * bands;
    parallel_ranges(team, items, [&](std::int64_t begin, std::int64_t end, int thread) {
      const Scratch buffers = scratch_of(scratch, thread);
      if (same_taps_) {
        const DepthwisePhase& depth = shape_.phases[0][0];
        list_taps({}, depth, {0, depth.taps}, shape_.phases[1][0], shape_.phases[2][0],
                  static_cast<const Real*>(packed), buffers);
      }
      for (std::int64_t i = begin; i < end; ++i) {
        Item item{};
        item.first_j = i % bands * band_.band_rows;
        item.rows = std::min(band_.band_rows, j_rows - item.first_j);
        item.depth = i / bands % shape_.out_size[0];
        item.channel = i / bands / shape_.out_size[0] % shape_.channels;
        item.n = i / bands / shape_.out_size[0] / shape_.channels;
        run_band(epilogue, item, src, static_cast<const Real*>(packed), out, z, buffers);
      }
    });
    return {};
  }

  void run_band(const EpilogueArgsOf<Real>& epilogue, const Item& item, const Real* src, const Real* packed, Real* out,
                const Real* z, const Scratch& buffers) const {
    const DepthwisePhase& depth = shape_.phases[0][item.depth % shape_.phases[0][0].out_step];
    const std::int64_t depth_j = item.depth / depth.out_step;
    const TapRange depth_taps = taps_inside(depth, depth_j);
    for (std::int64_t source = 0; source < shape_.sources; ++source) {
      for (std::int64_t d = 0; d < depth_taps.count; ++d) {
        const std::int64_t position =
            depth.src_step * depth_j + depth.delta + (depth_taps.first + d) * depth.delta_step;
        copy_plane(item, src + source_plane(item, source) + position * shape_.source.spatial[0],
                   buffers.planes + (source * depth_taps.count + d) * band_.plane);
      }
    }
    const std::int64_t at =
        item.n * shape_.out.batch + item.channel * shape_.out.channel + item.depth * shape_.out.spatial[0];
    const std::int64_t row_step = shape_.phases[1][0].out_step;
    for (const DepthwisePhase& height : shape_.phases[1]) {
      const std::int64_t rows = std::min(item.rows, height.count - item.first_j);
      if (rows <= 0) continue;
      for (const DepthwisePhase& width : shape_.phases[2]) {
        const Real* weights = buffers.weights;
        std::int64_t taps = shape_.geometry.taps;
        if (same_taps_) {
          weights = packed + item.channel * taps;
        } else {
          taps = list_taps(item, depth, depth_taps, height, width, packed, buffers);
        }
        kernels_.plane_sum(buffers.planes, buffers.offsets, weights, taps, buffers.sums,
                           round_up(rows * band_.pitch, kRound));
        if (band_.dense == 0) {
          const std::int64_t offset = at + item.first_j * shape_.out.spatial[1];
          kernels_.plane_finish(buffers.sums, band_.pitch, rows, width.count, epilogue, item.channel, out + offset,
                                z + offset, shape_.out.spatial[1]);
          continue;
        }
        for (std::int64_t j = 0; j < rows; ++j) {
          const Real* sums = buffers.sums + j * band_.pitch;
          Real* dense = buffers.dense + (j * row_step + height.out_offset) * shape_.out_size[2] + width.out_offset;
          for (std::int64_t i = 0; i < width.count; ++i) dense[i * width.out_step] = sums[i];
        }
      }
    }
    if (band_.dense == 0) return;
    const std::int64_t first = item.first_j * row_step;
    const std::int64_t last = std::min((item.first_j + item.rows) * row_step, shape_.out_size[1]);
    const std::int64_t offset = at + first * shape_.out.spatial[1];
    kernels_.plane_finish(buffers.dense, shape_.out_size[2], last - first, shape_.out_size[2], epilogue, item.channel,
                          out + offset, z + offset, shape_.out.spatial[1]);
  }

  std::int64_t source_plane(const Item& item, std::int64_t source) const {
    const std::int64_t channel =
        shape_.forward ? item.channel / shape_.multiplier : item.channel * shape_.multiplier + source;
    return item.n * shape_.source.batch + channel * shape_.source.channel;
  }

  // Of source row i of the band: [row residue][column residue][row][column], so that the next output row of every tap
  // is a pitch further.
  std::int64_t row_at(std::int64_t i) const {
    return (i % band_.row_step * band_.column_step * band_.residue_rows + i / band_.row_step) * band_.pitch;
  }

  void copy_plane(const Item& item, const Real* src, Real* to) const {
    DepthwisePlaneOf<Real> plane{};
    plane.src = src;
    plane.src_row = shape_.source.spatial[1];
    plane.height = shape_.phases[1][0].src_size;
    plane.width = shape_.phases[2][0].src_size;
    plane.first_row = item.first_j * band_.row_step + band_.reach[1].low;
    plane.rows = (item.rows - 1) * band_.row_step + band_.reach[1].high - band_.reach[1].low + 1;
    plane.first_column = band_.reach[2].low;
    plane.columns = band_.columns;
    plane.row_step = band_.row_step;
    plane.column_step = band_.column_step;
    plane.residue_rows = band_.residue_rows;
    plane.pitch = band_.pitch;
    plane.dst = to;
    kernels_.plane_copy(plane);
  }

  // Offsets and weights of every tap that reaches the band in these phases.
  std::int64_t list_taps(const Item& item, const DepthwisePhase& depth, const TapRange& depth_taps,
                         const DepthwisePhase& height, const DepthwisePhase& width, const Real* packed,
                         const Scratch& buffers) const {
    const ConvGeometry& g = shape_.geometry;
    std::int64_t count = 0;
    for (std::int64_t source = 0; source < shape_.sources; ++source) {
      const std::int64_t k = shape_.forward ? item.channel : item.channel * shape_.multiplier + source;
      for (std::int64_t d = 0; d < depth_taps.count; ++d) {
        const std::int64_t depth_tap = depth.first_tap + (depth_taps.first + d) * depth.tap_step;
        const std::int64_t plane = (source * depth_taps.count + d) * band_.plane;
        for (std::int64_t r = 0; r < height.taps; ++r) {
          const std::int64_t row = height.delta + r * height.delta_step - band_.reach[1].low;
          const Real* w =
              packed +
              ((k * g.filter[0] + depth_tap) * g.filter[1] + height.first_tap + r * height.tap_step) * g.filter[2];
          for (std::int64_t s = 0; s < width.taps; ++s) {
            const std::int64_t column = width.delta + s * width.delta_step - band_.reach[2].low;
            buffers.offsets[count] = plane + row_at(row) +
                                     column % band_.column_step * band_.residue_rows * band_.pitch +
                                     column / band_.column_step;
            buffers.weights[count] = w[width.first_tap + s * width.tap_step];
            ++count;
          }
        }
      }
    }
    return count;
  }

  const DepthwiseKernels<Real>& kernels_;
  const DepthwiseShape shape_;
  const BandLayout band_;
  // Every plane meets all taps at the same distances, in the order of its packed weights: fprop, but for depth.
  const bool same_taps_;
};

}  // namespace

double plane_bytes(const ConvProblem& problem) {
  return least_bytes(depthwise_shape(problem), static_cast<double>(size_of(problem.x.type)));
}

template <class Real>
static Result<std::unique_ptr<ConvPlan>> plane_plan(const ConvProblem& problem, Candidate candidate,
                                                    const PlanRequest& request) {
  const DepthwiseKernels<Real>& kernels = *depthwise_kernels_for<Real>(problem, request.cpu.isa);
  DepthwiseShape shape = depthwise_shape(problem);
  // As many rows as fit in the L1 cache with their sums, at least one.
  const std::int64_t j_rows = std::max<std::int64_t>(shape.phases[1][0].count, 1);
  const std::int64_t budget = std::max<std::int64_t>(request.cpu.l1d_bytes, 32 * 1024) / static_cast<int>(sizeof(Real));
  std::int64_t rows = 1;
  while (rows < j_rows && band_layout(shape, std::min(2 * rows, j_rows)).total() <= budget) {
    rows = std::min(2 * rows, j_rows);
  }
  const BandLayout band = band_layout(shape, rows);
  return kept_plan<PlanePlan<Real>>(request.constant_weights, problem, std::move(candidate), request, kernels,
                                    std::move(shape), band);
}

Result<std::unique_ptr<ConvPlan>> make_plane_plan(const ConvProblem& problem, Candidate candidate,
                                                  const PlanRequest& request) {
  if (problem.x.type == DataType::f64) return plane_plan<double>(problem, std::move(candidate), request);
  return plane_plan<float>(problem, std::move(candidate), request);
}

}  // namespace convoy::cpu
