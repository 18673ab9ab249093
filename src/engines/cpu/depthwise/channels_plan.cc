#include <algorithm>
#include <cstddef>

#include "convoy/data_type.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/depthwise/plans.h"

namespace convoy::cpu {
namespace {

// Channel vectors of out, those included that a blocked tensor has as padding only.
std::int64_t vector_count(const DepthwiseShape& shape, std::int64_t lanes) {
  const std::int64_t block = shape.out.block;
  return ((shape.channels + block - 1) / block * block + lanes - 1) / lanes;
}

// A chunk is the channel vectors that a tile of columns walks through before the next tile.
struct Chunks {
  std::int64_t vectors = 0;  // of out
  std::int64_t each = 0;     // vectors of a chunk
  std::int64_t count = 0;
};

// Rows follow each other within a chunk: it has as many vectors as keep its weights (read again for every tile) in half
// the L1 cache and, where the image is in L2, the rows that a filter covers in L1. An image beyond L2 is better walked
// in the order of its memory.
Chunks chunks_of(const DepthwiseShape& shape, std::int64_t lanes, std::int64_t element_bytes, const CpuFeatures& cpu) {
  const ConvGeometry& g = shape.geometry;
  const std::int64_t block = std::max(shape.source.block, shape.out.block);
  const std::int64_t smaller = std::min(shape.source.block, shape.out.block);
  Chunks chunks;
  chunks.vectors = vector_count(shape, lanes);
  // A vector a block (or no blocks) lies at a constant distance from the next; the multiplier's kernels and the
  // halves of a block need a chunk inside a block.
  const auto even = [&](const ActivationView& view) { return view.block == 1 || view.block == lanes; };
  if (block > 1 && !(even(shape.source) && even(shape.out) && shape.multiplier == 1)) {
    chunks.each = (smaller > 1 ? smaller : block) / lanes;
  } else {
    const std::int64_t vector_bytes = g.taps * shape.sources * lanes * element_bytes;
    chunks.each = 24 * 1024 / std::max<std::int64_t>(vector_bytes, 1);
    const std::int64_t* source_size = shape.forward ? g.x_size : g.y_size;
    const std::int64_t pixels = source_size[0] * source_size[1] * source_size[2];
    const bool in_l2 = pixels * shape.channels * element_bytes <= cpu.l2_bytes / 2;
    if (in_l2 || shape.source.block > 1) {
      const std::int64_t rows_bytes = g.filter[0] * g.filter[1] * source_size[2] * lanes * element_bytes;
      chunks.each = std::min(chunks.each, std::max<std::int64_t>(32 * 1024 / rows_bytes, in_l2 ? 4 : 1));
    }
    chunks.each = std::clamp<std::int64_t>(chunks.each, 1, chunks.vectors);
  }
  chunks.count = (chunks.vectors + chunks.each - 1) / chunks.each;
  return chunks;
}

// Rows of halves are computed as f32 in buffers of the thread's own that stay in its caches: a band of rows of out is
// made from the rows of the source that it reads, each widened once.
struct Band {
  std::int64_t rows = 0;         // of out
  std::int64_t source_rows = 0;  // of a slice of the source
  std::int64_t slices = 0;       // that a filter covers
  std::int64_t width = 0;        // channels of a column: a chunk's
  std::int64_t floats = 0;       // of a thread: the source's rows, then a row of out
};

Band band_of(const ConvProblem& problem, const DepthwiseShape& shape, const Chunks& chunks, std::int64_t lanes) {
  Band band;
  if (size_of(problem.x.type) != 2) return band;
  constexpr std::int64_t kBytes = 128 << 10;  // of the source's rows, where a band of one row takes fewer
  const ConvGeometry& g = shape.geometry;
  const DepthwisePhase& height = shape.phases[1][0];
  band.width = chunks.each * lanes;
  band.slices = std::min(g.filter[0], g.x_size[0]);
  const std::int64_t row_bytes = band.slices * g.x_size[2] * band.width * 4;
  const auto reads = [&](std::int64_t rows) {
    return std::min(g.x_size[1], (rows - 1) * height.src_step + (height.taps - 1) * height.delta_step + 1);
  };
  band.rows = shape.out_size[1];
  while (band.rows > 1 && reads(band.rows) * row_bytes > kBytes) band.rows = (band.rows + 1) / 2;
  band.source_rows = reads(band.rows);
  band.floats = (band.source_rows * band.slices * g.x_size[2] + shape.out_size[2]) * band.width;
  return band;
}

// Of tensors of Real, float or double, or of halves that are computed in float.
template <class Real>
class ChannelsPlan final : public PackedPlan {
 public:
  ChannelsPlan(const ConvProblem& problem, Candidate candidate, const PlanRequest& request,
               const DepthwiseKernels<Real>& kernels, DepthwiseShape shape, const Chunks& chunks, const Band& band)
      : PackedPlan(problem, std::move(candidate), request.threads, packed_floats(shape, kernels) * sizeof(Real),
                   static_cast<std::size_t>(request.threads * band.floats) * sizeof(Real)),
        kernels_(kernels),
        shape_(std::move(shape)),
        vectors_(chunks.vectors),
        chunk_vectors_(chunks.each),
        chunks_(chunks.count),
        band_(band) {
    const ConvGeometry& g = shape_.geometry;
    for (std::int64_t d = 0; d < g.filter[0]; ++d) {
      for (std::int64_t r = 0; r < g.filter[1]; ++r) {
        for (std::int64_t s = 0; s < g.filter[2]; ++s) {
          tap_places_.push_back(g.w.origin + d * g.w.spatial[0] + r * g.w.spatial[1] + s * g.w.spatial[2]);
        }
      }
    }
    if (shape_.multiplier == 1) return;
    if (shape_.forward) {
      make_expand_lanes();
    } else {
      make_gather_offsets();
    }
  }

  std::size_t retained_bytes() const override {
    return PackedPlan::retained_bytes() + expand_lanes_.size() * sizeof(std::int32_t) +
           (gather_offsets_.size() + tap_places_.size()) * sizeof(std::int64_t);
  }

 private:
  static std::size_t packed_floats(const DepthwiseShape& shape, const DepthwiseKernels<Real>& kernels) {
    return vector_count(shape, kernels.lanes) * shape.sources * shape.geometry.taps * kernels.lanes;
  }

  // Lane l of the vector at channel k reads channel (k+l)/m: lane (k+l)/m - k/m of the vector that starts at k/m. That
  // vector never leaves a block, because k is a multiple of the lanes and the block is too.
  void make_expand_lanes() {
    const std::int64_t lanes = kernels_.lanes;
    expand_lanes_.resize(vectors_ * lanes);
    for (std::int64_t v = 0; v < vectors_; ++v) {
      const std::int64_t first = v * lanes / shape_.multiplier;
      for (std::int64_t l = 0; l < lanes; ++l) {
        expand_lanes_[v * lanes + l] = static_cast<std::int32_t>((v * lanes + l) / shape_.multiplier - first);
      }
    }
  }

  void make_gather_offsets() {
    const std::int64_t lanes = kernels_.lanes;
    gather_offsets_.resize(vectors_ * shape_.multiplier * lanes);
    for (std::int64_t v = 0; v < vectors_; ++v) {
      for (std::int64_t source = 0; source < shape_.multiplier; ++source) {
        for (std::int64_t l = 0; l < lanes; ++l) {
          // Lanes beyond the channels read the last one; they are never stored.
          const std::int64_t channel = std::min(v * lanes + l, shape_.channels - 1);
          gather_offsets_[(v * shape_.multiplier + source) * lanes + l] =
              channel_offset(shape_.source, channel * shape_.multiplier + source);
        }
      }
    }
  }

  // [vector][source][tap][lane], zeros in the lanes beyond the channels.
  void pack(const void* weights, void* packed, ThreadTeam* team) const override {
    const DataType type = problem().w.type;
    const auto pack_range = [&](std::int64_t begin, std::int64_t end) {
      auto* to = static_cast<Real*>(packed) + begin * shape_.sources * shape_.geometry.taps * kernels_.lanes;
      if (size_of(type) == sizeof(Real)) {
        pack_vectors([w = static_cast<const Real*>(weights)](std::int64_t i) { return w[i]; }, begin, end, to);
      } else {
        pack_vectors([&](std::int64_t i) { return static_cast<Real>(load_as_double(type, weights, i)); }, begin, end,
                     to);
      }
    };
    if (team == nullptr) return pack_range(0, vectors_);
    parallel_ranges(*team, vectors_, [&](std::int64_t begin, std::int64_t end, int) { pack_range(begin, end); });
  }

  // A channel's taps in turn: that is how they lie in memory most often.
  template <class Weight>
  void pack_vectors(Weight w, std::int64_t begin, std::int64_t end, Real* to) const {
    const std::int64_t lanes = kernels_.lanes, sources = shape_.sources, taps = shape_.geometry.taps;
    const std::int64_t* const places = tap_places_.data();
    for (std::int64_t v = begin; v < end; ++v) {
      const std::int64_t channels = std::clamp<std::int64_t>(shape_.channels - v * lanes, 0, lanes);
      for (std::int64_t source = 0; source < sources; ++source, to += taps * lanes) {
        for (std::int64_t l = 0; l < channels; ++l) {
          const std::int64_t channel = v * lanes + l;
          const std::int64_t k = shape_.forward ? channel : channel * shape_.multiplier + source;
          for (std::int64_t t = 0; t < taps; ++t) to[t * lanes + l] = w(k * shape_.geometry.w.out + places[t]);
        }
        for (std::int64_t l = channels; l < lanes; ++l) {
          for (std::int64_t t = 0; t < taps; ++t) to[t * lanes + l] = 0;
        }
      }
    }
  }

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const EpilogueArgsOf<Real> epilogue = make_epilogue<Real>(problem(), args);
    if (band_.rows > 0) {
      run_halves(epilogue, args, static_cast<const Real*>(packed), static_cast<Real*>(scratch), team);
      return {};
    }
    const auto* src = static_cast<const Real*>(shape_.forward ? args.x : args.y);
    auto* out = static_cast<Real*>(args.out);
    const auto* z = epilogue.gamma != 0 ? static_cast<const Real*>(args.z) : out;
    const std::int64_t rows = shape_.out_size[0] * shape_.out_size[1];
    const std::int64_t items = shape_.geometry.batch * chunks_ * rows;
    parallel_ranges(team, items, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t row = item % rows;
        run_row(epilogue, src, static_cast<const Real*>(packed), out, z, item / rows / chunks_, item / rows % chunks_,
                row / shape_.out_size[1], row % shape_.out_size[1]);
      }
    });
    return {};
  }

  // fprop, channels last, a filter a channel; no residual, and out is not read.
  void run_halves(const EpilogueArgsOf<Real>& epilogue, const ConvArgs& args, const Real* packed, Real* scratch,
                  ThreadTeam& team) const {
    const std::int64_t bands = (shape_.out_size[1] + band_.rows - 1) / band_.rows;
    const std::int64_t items = shape_.geometry.batch * chunks_ * shape_.out_size[0] * bands;
    parallel_ranges(team, items, [&](std::int64_t begin, std::int64_t end, int thread) {
      Real* const own = scratch + thread * band_.floats;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t band = item % bands, slice = item / bands % shape_.out_size[0];
        const std::int64_t of_image = item / bands / shape_.out_size[0];
        run_band(epilogue, args, packed, own, of_image / chunks_, of_image % chunks_, slice, band);
      }
    });
  }

  void run_band(const EpilogueArgsOf<Real>& epilogue, const ConvArgs& args, const Real* packed, Real* own,
                std::int64_t n, std::int64_t chunk, std::int64_t od, std::int64_t band) const {
    constexpr std::int64_t kHalf = 2;  // bytes
    const ConvGeometry& g = shape_.geometry;
    const DepthwisePhase &depth = shape_.phases[0][0], &height = shape_.phases[1][0], &width = shape_.phases[2][0];
    const std::int64_t lanes = kernels_.lanes, first_vector = chunk * chunk_vectors_;
    const std::int64_t first_channel = first_vector * lanes;
    const std::int64_t first_row = band * band_.rows, end_row = std::min(first_row + band_.rows, shape_.out_size[1]);
    const std::int64_t channels = std::min(band_.width, shape_.channels - first_channel);
    const TapRange depth_taps = taps_inside(depth, od);
    const std::int64_t low = std::max<std::int64_t>(0, height.src_step * first_row + height.delta);
    const std::int64_t high = std::min(
        height.src_size, height.src_step * (end_row - 1) + height.delta + (height.taps - 1) * height.delta_step + 1);
    const std::int64_t rows = std::max<std::int64_t>(high - low, 0);
    const std::int64_t column = band_.width, row_floats = g.x_size[2] * column;
    const ActivationView &source = shape_.source, &out = shape_.out;
    const auto at = [](const void* data, std::int64_t element) {
      return static_cast<const std::byte*>(data) + element * kHalf;
    };
    const std::int64_t from = n * source.batch + first_channel * source.channel;
    for (std::int64_t d = 0; d < depth_taps.count; ++d) {
      const std::int64_t slice = depth.src_step * od + depth.delta + (depth_taps.first + d) * depth.delta_step;
      for (std::int64_t r = 0; r < rows; ++r) {
        kernels_.widen_columns(problem().x.type,
                               at(args.x, from + slice * source.spatial[0] + (low + r) * source.spatial[1]),
                               source.spatial[2], g.x_size[2], channels, own + (d * rows + r) * row_floats, column);
      }
    }
    Real* const made = own + band_.slices * band_.source_rows * row_floats;
    DepthwiseRowOf<Real> row{};
    row.width = &width;
    row.width_phases = 1;
    row.epilogue = &epilogue;
    row.access = DepthwiseAccess::plain;
    row.channel = first_channel;
    row.channels = channels;
    row.vectors = std::min(chunk_vectors_, vectors_ - first_vector);
    row.multiplier = 1;
    row.src_depth = rows * row_floats;
    row.src_height = height.delta_step * row_floats;
    row.src_column = row.out_column = column;
    row.src_vector = row.out_vector = lanes;
    row.weight_width = lanes;
    row.weight_source = row.weight_vector = g.taps * lanes;
    row.weight_depth = depth.tap_step * g.filter[1] * g.filter[2] * lanes;
    row.weight_height = height.tap_step * g.filter[2] * lanes;
    row.out = made;
    row.z = made;
    for (std::int64_t oh = first_row; oh < end_row; ++oh) {
      const TapRange height_taps = taps_inside(height, oh);
      row.height_taps = height_taps.count;
      row.depth_taps = height_taps.count > 0 ? depth_taps.count : 0;
      std::int64_t first_tap = 0;
      row.src = own;
      if (row.depth_taps > 0) {
        const std::int64_t r = height.src_step * oh + height.delta + height_taps.first * height.delta_step;
        row.src += (r - low) * row_floats;
        first_tap += ((depth.first_tap + depth_taps.first * depth.tap_step) * g.filter[1] + height.first_tap +
                      height_taps.first * height.tap_step) *
                     g.filter[2];
      }
      row.weights = packed + first_vector * row.weight_vector + first_tap * lanes;
      kernels_.channels_row(row);
      const std::int64_t to = n * out.batch + first_channel * out.channel + od * out.spatial[0] + oh * out.spatial[1];
      kernels_.narrow_columns(problem().y.type, made, column, shape_.out_size[2], channels,
                              static_cast<std::byte*>(args.out) + to * kHalf, out.spatial[2]);
    }
  }

  void run_row(const EpilogueArgsOf<Real>& epilogue, const Real* src, const Real* packed, Real* out, const Real* z,
               std::int64_t n, std::int64_t chunk, std::int64_t od, std::int64_t oh) const {
    const std::int64_t lanes = kernels_.lanes;
    const ConvGeometry& g = shape_.geometry;
    const auto& depth_phases = shape_.phases[0];
    const auto& height_phases = shape_.phases[1];
    const DepthwisePhase& depth = depth_phases[od % depth_phases[0].out_step];
    const DepthwisePhase& height = height_phases[oh % height_phases[0].out_step];
    const std::int64_t jd = od / depth.out_step;
    const std::int64_t jh = oh / height.out_step;
    const TapRange depth_taps = taps_inside(depth, jd);
    const TapRange height_taps = taps_inside(height, jh);
    const std::int64_t first_vector = chunk * chunk_vectors_;

    DepthwiseRowOf<Real> row{};
    row.epilogue = &epilogue;
    row.channel = first_vector * lanes;
    row.channels = shape_.channels - row.channel;
    row.vectors = std::min(chunk_vectors_, vectors_ - first_vector);
    row.zero_padding = shape_.out.block > 1;
    row.multiplier = shape_.multiplier;
    std::int64_t source_channel = row.channel;
    if (shape_.multiplier == 1) {
      row.access = DepthwiseAccess::plain;
    } else if (shape_.forward) {
      row.access = DepthwiseAccess::expand;
      row.expand_lanes = expand_lanes_.data() + first_vector * lanes;
      source_channel = row.channel / shape_.multiplier;
    } else {
      row.access = DepthwiseAccess::gather;
      row.gather_offsets = gather_offsets_.data() + first_vector * shape_.multiplier * lanes;
      source_channel = 0;
    }
    row.depth_taps = height_taps.count > 0 ? depth_taps.count : 0;
    row.height_taps = height_taps.count;
    row.src_depth = depth.delta_step * shape_.source.spatial[0];
    row.src_height = height.delta_step * shape_.source.spatial[1];
    row.src_column = shape_.source.spatial[2];
    row.src_vector = shape_.source.block == lanes ? shape_.source.channel : lanes;
    row.out_vector = shape_.out.block == lanes ? shape_.out.channel : lanes;
    row.weight_source = g.taps * lanes;
    row.weight_vector = shape_.sources * g.taps * lanes;
    row.weight_depth = depth.tap_step * g.filter[1] * g.filter[2] * lanes;
    row.weight_height = height.tap_step * g.filter[2] * lanes;
    row.src = src + n * shape_.source.batch + channel_offset(shape_.source, source_channel);
    std::int64_t first_tap = 0;
    if (row.depth_taps > 0) {
      row.src +=
          (depth.src_step * jd + depth.delta + depth_taps.first * depth.delta_step) * shape_.source.spatial[0] +
          (height.src_step * jh + height.delta + height_taps.first * height.delta_step) * shape_.source.spatial[1];
      const std::int64_t d = depth.first_tap + depth_taps.first * depth.tap_step;
      const std::int64_t r = height.first_tap + height_taps.first * height.tap_step;
      first_tap = (d * g.filter[1] + r) * g.filter[2];
    }
    const std::int64_t at = n * shape_.out.batch + channel_offset(shape_.out, row.channel) +
                            od * shape_.out.spatial[0] + oh * shape_.out.spatial[1];
    row.width = shape_.phases[2].data();
    row.width_phases = static_cast<std::int64_t>(shape_.phases[2].size());
    row.weights = packed + first_vector * row.weight_vector + first_tap * lanes;
    row.weight_width = lanes;
    row.out = out + at;
    row.z = z + at;
    row.out_column = shape_.out.spatial[2];
    kernels_.channels_row(row);
  }

  const DepthwiseKernels<Real>& kernels_;
  const DepthwiseShape shape_;
  const std::int64_t vectors_, chunk_vectors_, chunks_;
  const Band band_;
  std::vector<std::int64_t> tap_places_;  // where each tap of a filter is in w
  std::vector<std::int32_t> expand_lanes_;
  std::vector<std::int64_t> gather_offsets_;
};

}  // namespace

double halves_bytes(const ConvProblem& problem, const PlanRequest& request) {
  const DepthwiseShape shape = depthwise_shape(problem);
  const std::int64_t lanes = depthwise_kernels_for<float>(problem, request.cpu.isa)->lanes;
  const Band band = band_of(problem, shape, chunks_of(shape, lanes, sizeof(float), request.cpu), lanes);
  return static_cast<double>(band.floats) * sizeof(float);
}

template <class Real>
static Result<std::unique_ptr<ConvPlan>> channels_plan(const ConvProblem& problem, Candidate candidate,
                                                       const PlanRequest& request) {
  const DepthwiseKernels<Real>& kernels = *depthwise_kernels_for<Real>(problem, request.cpu.isa);
  DepthwiseShape shape = depthwise_shape(problem);
  const Chunks chunks = chunks_of(shape, kernels.lanes, sizeof(Real), request.cpu);
  const Band band = band_of(problem, shape, chunks, kernels.lanes);
  return kept_plan<ChannelsPlan<Real>>(request.constant_weights, problem, std::move(candidate), request, kernels,
                                       std::move(shape), chunks, band);
}

Result<std::unique_ptr<ConvPlan>> make_channels_plan(const ConvProblem& problem, Candidate candidate,
                                                     const PlanRequest& request) {
  if (problem.x.type == DataType::f64) return channels_plan<double>(problem, std::move(candidate), request);
  return channels_plan<float>(problem, std::move(candidate), request);
}

}  // namespace convoy::cpu
