#include "engines/cpu/winograd/plan.h"

#include <algorithm>
#include <cmath>

#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/common/problem.h"

namespace convoy::cpu {

const WinogradKernels* winograd_kernels_for(const ConvProblem& problem, Isa isa) {
  static constexpr IsaRow<WinogradKernels> kF32[] = {{Isa::avx2, &avx2::winograd_kernels},
                                                     {Isa::avx512, &avx512::winograd_kernels}};
  static constexpr IsaRow<WinogradKernels> kF64[] = {{Isa::avx2, &avx2_f64::winograd_kernels},
                                                     {Isa::avx512, &avx512_f64::winograd_kernels}};
  if (problem.x.type == DataType::f64) return best_row<WinogradKernels>(kF64, isa);
  // A vector must not be longer than a block of channels.
  const bool short_blocks = problem.x.channel_block == 8 || problem.y.channel_block == 8;
  return best_row<WinogradKernels>(kF32, short_blocks ? std::min(isa, Isa::avx2) : isa);
}

WinogradShape winograd_shape(const ConvProblem& problem, int m, const PlanRequest& request) {
  WinogradShape shape{};
  shape.geometry = flat_geometry(problem);
  const ConvGeometry& g = shape.geometry;
  shape.forward = problem.pass == Pass::fprop;
  shape.two_d = g.filter[1] == 3;
  shape.m = m;
  shape.channels = shape.forward ? g.group_channels : g.group_filters;
  shape.out_channels = shape.forward ? g.group_filters : g.group_channels;
  shape.source = shape.forward ? g.x : g.y;
  shape.out = shape.forward ? g.y : g.x;
  const std::int64_t* source_size = shape.forward ? g.x_size : g.y_size;
  const std::int64_t* out_size = shape.forward ? g.y_size : g.x_size;
  WinogradTiles& tiles = shape.tiles;
  tiles.depth = out_size[0];
  tiles.rows = shape.two_d ? (out_size[1] + m - 1) / m : out_size[1];
  tiles.columns = (out_size[2] + m - 1) / m;
  tiles.out_height = out_size[1];
  tiles.out_width = out_size[2];
  for (int i = 0; i < 3; ++i) {
    tiles.source_size[i] = source_size[i];
    // dgrad reads y at h + pre - r: at h + pre - (R-1) + r' with the filter turned around.
    tiles.delta[i] = shape.forward ? -g.pre[i] : g.pre[i] - (g.filter[i] - 1);
  }
  const WinogradKernels* kernels = winograd_kernels_for(problem, request.cpu.isa);
  WinogradSize& size = shape.size;
  size.points = shape.two_d ? (m + 2) * (m + 2) : m + 2;
  size.tiles = g.batch * tiles.depth * tiles.rows * tiles.columns;
  size.groups = g.groups;
  size.channels = shape.channels;
  size.depth_taps = g.filter[0];
  size.lanes = kernels->lanes;
  size.element_bytes = kernels->element_bytes;
  const std::int64_t padded_channels = (shape.channels + size.lanes - 1) / size.lanes * size.lanes;
  size.reduction = (g.filter[0] - 1) * padded_channels + shape.channels;
  const std::int64_t padded_out = (shape.out_channels + shape.out.block - 1) / shape.out.block * shape.out.block;
  size.vectors = (padded_out + size.lanes - 1) / size.lanes;
  size.max_rows = kernels->max_rows;
  size.threads = std::max(request.threads, 1);
  size.l2_bytes = std::max<std::int64_t>(request.cpu.l2_bytes, 256 * 1024);
  return shape;
}

namespace {

// Of tensors of Real, float or double.
template <class Real>
class WinogradPlan final : public PackedPlan {
 public:
  WinogradPlan(const ConvProblem& problem, Candidate candidate, const WinogradKernels& kernels,
               const WinogradShape& shape, const WinogradBlocking& blocking)
      : PackedPlan(problem, std::move(candidate), shape.size.threads,
                   shape.size.groups * group_weights(shape.size) * sizeof(Real),
                   scratch_floats(shape.size, blocking) * sizeof(Real)),
        kernels_(kernels),
        shape_(shape),
        blocking_(blocking),
        input_(shape.m == 2 ? kernels.input_2[shape.two_d] : kernels.input_4[shape.two_d]),
        output_(shape.m == 2 ? kernels.output_2[shape.two_d] : kernels.output_4[shape.two_d]),
        filters_(shape.m == 2 ? kernels.filters_2[shape.two_d] : kernels.filters_4[shape.two_d]) {}

  std::vector<std::string> notes() const override {
    auto notes = PackedPlan::notes();
    notes.push_back("WINOGRAD");
    return notes;
  }

 private:
  std::vector<std::string> run_stages() const override { return {"transform input", "products", "transform output"}; }

  static constexpr std::int64_t kMaxLanes = 64 / sizeof(Real), kMostPoints = 36, kChannelsAtOnce = 8;

  // Floats: U, W and the vectors' flags.
  static std::int64_t transformed(const WinogradSize& s) { return s.points * s.reduction * s.vectors * s.lanes; }
  static std::int64_t taps(const WinogradSize& s) { return s.points > 6 ? 9 : 3; }
  static std::int64_t untransformed(const WinogradSize& s) { return taps(s) * s.reduction * s.vectors * s.lanes; }
  static std::int64_t group_weights(const WinogradSize& s) {
    return transformed(s) + untransformed(s) + (s.vectors + 15) / 16 * 16;
  }
  static std::int64_t channel_blocks(const WinogradSize& s) { return (s.channels + s.lanes - 1) / s.lanes; }
  // Floats between points; a cache line more than needed, so that the points of a tile don't share a cache set.
  static std::int64_t v_group(const WinogradSize& s, const WinogradBlocking& b) {
    return s.depth_taps * channel_blocks(s) * b.row_tile * s.lanes;
  }
  static std::int64_t v_point(const WinogradSize& s, const WinogradBlocking& b) {
    return (b.block_tiles + b.row_tile - 1) / b.row_tile * v_group(s, b) + 16;
  }
  static std::int64_t m_point(const WinogradSize& s, const WinogradBlocking& b) {
    return b.block_tiles * b.chunk_vectors * s.lanes + 16;
  }
  static std::int64_t scratch_floats(const WinogradSize& s, const WinogradBlocking& b) {
    const std::int64_t v = v_floats(s, b);
    return (b.split_chunks ? v : v * s.threads) + s.points * m_point(s, b) * s.threads;
  }

  // V, and behind it which tiles are computed directly, a byte each.
  static std::int64_t v_floats(const WinogradSize& s, const WinogradBlocking& b) {
    return s.points * v_point(s, b) + (b.block_tiles + 63) / 64 * 16;
  }
  bool* direct_tiles(Real* v) const {
    return reinterpret_cast<bool*>(v + shape_.size.points * v_point(shape_.size, blocking_));
  }

  // Of one vector of output channels: where its panel starts in a group's weights and how wide it is. Panels are pairs
  // of vectors, each with all its points, whatever the blocking: sizes of a network share them.
  struct PanelAt {
    std::int64_t offset;  // of point 0, c 0, the vector's first lane
    std::int64_t point;   // floats between points
    std::int64_t width;   // floats between c
  };
  PanelAt panel_of(std::int64_t vector) const {
    const WinogradSize& s = shape_.size;
    const std::int64_t pair = vector / 2 * 2;
    const std::int64_t width = (pair + 1 < s.vectors ? 2 : 1) * s.lanes;
    return {s.points * s.reduction * s.lanes * pair + vector % 2 * s.lanes, s.reduction * width, width};
  }

  void pack(const void* weights, void* packed, ThreadTeam* team) const override {
    const WinogradSize& s = shape_.size;
    const auto pack_range = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        pack_vector(static_cast<const Real*>(weights), static_cast<Real*>(packed), i / s.vectors, i % s.vectors);
      }
    };
    if (team == nullptr) return pack_range(0, s.groups * s.vectors);
    parallel_ranges(*team, s.groups * s.vectors,
                    [&](std::int64_t begin, std::int64_t end, int) { pack_range(begin, end); });
  }

  // U and W of a vector of filters, and whether they are computed directly: where the taps of one, each as large as its
  // largest of all channels, are small beside each other (but zeros), or some are none that can be transformed.
  void pack_vector(const Real* weights, Real* packed, std::int64_t group, std::int64_t vector) const {
    const WinogradSize& s = shape_.size;
    const ConvGeometry& g = shape_.geometry;
    const PanelAt at = panel_of(vector);
    const std::int64_t taps = WinogradPlan::taps(s);
    const std::int64_t padded = channel_blocks(s) * s.lanes;
    const std::int64_t first = vector * s.lanes;
    const std::int64_t filters = std::clamp<std::int64_t>(shape_.out_channels - first, 0, s.lanes);
    Real* const of_group = packed + group * group_weights(s);
    Real* const direct = of_group + transformed(s) + vector * s.reduction * taps * s.lanes;
    // In the weights; for dgrad the filter is turned around, see winograd_shape.
    const auto tap = [&](int i, std::int64_t t) { return (shape_.forward ? t : g.filter[i] - 1 - t) * g.w.spatial[i]; };
    const std::int64_t filter_step = shape_.forward ? g.w.out : g.w.in;
    const std::int64_t channel_step = shape_.forward ? g.w.in : g.w.out;
    const Real* const from = weights + g.w.origin + group * g.group_filters * g.w.out + first * filter_step;
    Real least[kMaxLanes], most[kMaxLanes] = {};
    std::fill_n(least, kMaxLanes, kLargestWeight<Real>);
    for (std::int64_t d = 0; d < s.depth_taps; ++d) {
      const std::int64_t channels = std::min(padded, s.reduction - d * padded);  // those behind the last are zeros
      Real* const w = direct + d * padded * taps * s.lanes;
      std::fill_n(w, channels * taps * s.lanes, Real(0));
      std::int64_t offset[9];
      for (int t = 0; t < taps; ++t) offset[t] = tap(0, d) + tap(1, t / 3) + tap(2, t % 3);
      for (std::int64_t c = 0; c < shape_.channels; ++c) {
        for (std::int64_t k = 0; k < filters; ++k) {
          const Real* const filter = from + c * channel_step + k * filter_step;
          for (int t = 0; t < taps; ++t) w[(c * taps + t) * s.lanes + k] = filter[offset[t]];
        }
      }
      Real largest[9 * kMaxLanes] = {};
      // Points lie far from each other, often in the same sets of the caches: a few channels are written to each at
      // once.
      alignas(64) Real points[kMostPoints * kChannelsAtOnce * kMaxLanes];
      for (std::int64_t c = 0; c < channels; c += kChannelsAtOnce) {
        const std::int64_t count = std::min(kChannelsAtOnce, channels - c);
        const WinogradFiltersOf<Real> transform{w + c * taps * s.lanes,    count,  points, s.lanes,
                                                kChannelsAtOnce * s.lanes, largest};
        filters_(&transform);
        Real* to = of_group + at.offset + (d * padded + c) * at.width;
        for (const Real* from_point = points; from_point != points + s.points * kChannelsAtOnce * s.lanes;
             from_point += kChannelsAtOnce * s.lanes, to += at.point) {
          for (std::int64_t k = 0; k < count; ++k) std::copy_n(from_point + k * s.lanes, s.lanes, to + k * at.width);
        }
      }
      for (int i = 0; i < taps * s.lanes; ++i) {
        const std::int64_t k = i % s.lanes;
        most[k] = std::max(most[k], largest[i]);
        if (largest[i] > 0) least[k] = std::min(least[k], largest[i]);
      }
    }
    bool uneven = false;
    for (std::int64_t k = 0; k < filters; ++k) uneven = uneven || most[k] > kReach * least[k];
    of_group[transformed(s) + untransformed(s) + vector] = uneven ? Real(1) : Real(0);
  }

  struct Run {
    EpilogueArgsOf<Real> epilogue;
    const Real* source;
    const Real* packed;
    Real* out;
    const Real* z;
  };

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const WinogradSize& s = shape_.size;
    Run run{};
    run.epilogue = make_epilogue<Real>(problem(), args);
    run.source = static_cast<const Real*>(shape_.forward ? args.x : args.y);
    run.packed = static_cast<const Real*>(packed);
    run.out = static_cast<Real*>(args.out);
    run.z = run.epilogue.gamma != 0 ? static_cast<const Real*>(args.z) : run.out;
    const std::int64_t blocks = (s.tiles + blocking_.block_tiles - 1) / blocking_.block_tiles;
    const std::int64_t chunks = (s.vectors + blocking_.chunk_vectors - 1) / blocking_.chunk_vectors;
    const std::int64_t v_floats = WinogradPlan::v_floats(s, blocking_);
    const std::int64_t m_floats = s.points * m_point(s, blocking_);
    auto* floats = static_cast<Real*>(scratch);
    if (!blocking_.split_chunks) {
      parallel_ranges(team, s.groups * blocks, [&](std::int64_t begin, std::int64_t end, int thread) {
        Real* v = floats + thread * (v_floats + m_floats);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t count = tiles_of(i % blocks);
          transform_in(run, i / blocks, i % blocks, 0, count, v);
          for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
            multiply(run, i / blocks, i % blocks, chunk, v, v + v_floats);
          }
        }
      });
      return {};
    }
    for (std::int64_t i = 0; i < s.groups * blocks; ++i) {
      parallel_ranges(team, tiles_of(i % blocks), [&](std::int64_t begin, std::int64_t end, int) {
        transform_in(run, i / blocks, i % blocks, begin, end, floats);
      });
      parallel_ranges(team, chunks, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          multiply(run, i / blocks, i % blocks, chunk, floats, floats + v_floats + thread * m_floats);
        }
      });
    }
    return {};
  }

  std::int64_t tiles_of(std::int64_t block) const {
    return std::min(blocking_.block_tiles, shape_.size.tiles - block * blocking_.block_tiles);
  }

  WinogradInputOf<Real> input_of(const Run& run, std::int64_t group, std::int64_t block) const {
    WinogradInputOf<Real> in{};
    in.tiles = &shape_.tiles;
    in.source = run.source + channel_offset(shape_.source, group * shape_.channels);
    in.view = shape_.source;
    in.channels = shape_.channels;
    in.depth_taps = shape_.size.depth_taps;
    in.first_tile = block * blocking_.block_tiles;
    return in;
  }

  void transform_in(const Run& run, std::int64_t group, std::int64_t block, std::int64_t begin, std::int64_t end,
                    Real* v) const {
    WinogradInputOf<Real> in = input_of(run, group, block);
    in.begin = begin;
    in.end = end;
    in.row_tile = blocking_.row_tile;
    in.v = v;
    in.v_group = v_group(shape_.size, blocking_);
    in.v_point = v_point(shape_.size, blocking_);
    in.direct = direct_tiles(v);
    input_(&in);
  }

  // All points of a chunk of output channels, then the way back.
  void multiply(const Run& run, std::int64_t group, std::int64_t block, std::int64_t chunk, Real* v, Real* m) const {
    const WinogradSize& s = shape_.size;
    const std::int64_t first = chunk * blocking_.chunk_vectors;
    const std::int64_t vectors = std::min(blocking_.chunk_vectors, s.vectors - first);
    const std::int64_t count = tiles_of(block);
    WinogradProductOf<Real> product{};
    product.v_group = v_group(s, blocking_);
    product.row_tile = blocking_.row_tile;
    product.tiles = count;
    product.reduction = s.reduction;
    product.m_tile = vectors * s.lanes;
    const Real* const weights = run.packed + group * group_weights(s);
    const Real* const panels = weights + s.points * s.reduction * s.lanes * first;
    const auto width_of = [&](std::int64_t panel) { return panel + 1 < vectors ? 2 : 1; };
    const auto u_of = [&](std::int64_t point, std::int64_t panel) {
      return panels + s.reduction * s.lanes * (s.points * panel + point * width_of(panel));
    };
    const auto multiply = [&](std::int64_t point, std::int64_t panel, const Real* next_u) {
      product.v = v + point * v_point(s, blocking_);
      product.panel_vectors = width_of(panel);
      product.m = m + point * m_point(s, blocking_) + panel * s.lanes;
      product.u = u_of(point, panel);
      product.next_u = next_u;
      kernels_.product(&product);
    };
    // With few channels V is read the most: a point's by all panels before the next one's, so that it comes from L2
    // once. With many U is: a panel's in the order in which it lies.
    constexpr std::int64_t kManyChannels = 256;
    if (s.reduction < kManyChannels) {
      for (std::int64_t point = 0; point < s.points; ++point) {
        for (std::int64_t panel = 0; panel < vectors; panel += 2) {
          const bool last = panel + 2 >= vectors;
          multiply(point, panel, last ? u_of(std::min(point + 1, s.points - 1), 0) : u_of(point, panel + 2));
        }
      }
    } else {
      for (std::int64_t panel = 0; panel < vectors; panel += 2) {
        for (std::int64_t point = 0; point < s.points; ++point) {
          multiply(point, panel, u_of(point, panel) + s.reduction * s.lanes * width_of(panel));
        }
      }
    }
    WinogradOutputOf<Real> out{};
    out.tiles = &shape_.tiles;
    out.epilogue = &run.epilogue;
    out.channel = group * shape_.out_channels;
    out.out = run.out + channel_offset(shape_.out, out.channel);
    out.z = run.z + channel_offset(shape_.out, out.channel);
    out.view = shape_.out;
    out.channels = shape_.out_channels;
    out.first_vector = first;
    out.vectors = vectors;
    out.first_tile = block * blocking_.block_tiles;
    out.count = count;
    out.m = m;
    out.m_tile = vectors * s.lanes;
    out.m_point = m_point(s, blocking_);
    const WinogradInputOf<Real> in = input_of(run, group, block);
    out.input = &in;
    out.direct = direct_tiles(v);
    out.weights = weights + transformed(s);
    out.direct_vectors = out.weights + untransformed(s);
    out.reduction = s.reduction;
    output_(&out);
  }

  const WinogradKernels& kernels_;
  const WinogradShape shape_;
  const WinogradBlocking blocking_;
  const WinogradRun input_;
  const WinogradRun output_;
  const WinogradRun filters_;
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_winograd_plan(const ConvProblem& problem, Candidate candidate,
                                                     const PlanRequest& request, int m) {
  const WinogradShape shape = winograd_shape(problem, m, request);
  const WinogradKernels& kernels = *winograd_kernels_for(problem, request.cpu.isa);
  const auto made = [&]<class Real>() {
    return kept_plan<WinogradPlan<Real>>(request.constant_weights, problem, std::move(candidate), kernels, shape,
                                         choose_blocking(shape.size));
  };
  return problem.x.type == DataType::f64 ? made.operator()<double>() : made.operator()<float>();
}

}  // namespace convoy::cpu
