#include <algorithm>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/depthwise/plans.h"

namespace convoy::cpu {
namespace {

// Channel vectors of out, those included that a blocked tensor has as padding only.
std::int64_t vector_count(const DepthwiseShape& shape, std::int64_t lanes) {
  const std::int64_t block = shape.out.block;
  return ((shape.channels + block - 1) / block * block + lanes - 1) / lanes;
}

class ChannelsPlan final : public PackedPlan {
 public:
  ChannelsPlan(const ConvProblem& problem, Candidate candidate, const PlanRequest& request,
               const DepthwiseKernels& kernels, DepthwiseShape shape)
      : PackedPlan(problem, std::move(candidate), request.threads, packed_floats(shape, kernels) * sizeof(float), 0),
        kernels_(kernels),
        shape_(std::move(shape)) {
    choose_chunks(request.cpu);
    if (shape_.multiplier == 1) return;
    if (shape_.forward) {
      make_expand_lanes();
    } else {
      make_gather_offsets();
    }
  }

  std::size_t retained_bytes() const override {
    return PackedPlan::retained_bytes() + expand_lanes_.size() * sizeof(std::int32_t) +
           gather_offsets_.size() * sizeof(std::int64_t);
  }

 private:
  static std::size_t packed_floats(const DepthwiseShape& shape, const DepthwiseKernels& kernels) {
    return vector_count(shape, kernels.lanes) * shape.sources * shape.geometry.taps * kernels.lanes;
  }

  // A chunk is the channel vectors that a tile of columns walks through before the next tile, and rows follow each
  // other within it: as many as keep the chunk's weights (read again for every tile)
  // in half the L1 cache and, where the image is in L2, the rows that a filter covers in L1. An image beyond L2 is
  // better walked in the order of its memory.
  void choose_chunks(const CpuFeatures& cpu) {
    const ConvGeometry& g = shape_.geometry;
    const std::int64_t lanes = kernels_.lanes;
    const std::int64_t block = std::max(shape_.source.block, shape_.out.block);
    const std::int64_t smaller = std::min(shape_.source.block, shape_.out.block);
    vectors_ = vector_count(shape_, lanes);
    // A vector a block (or no blocks) lies at a constant distance from the next; the multiplier's kernels and the
    // halves of a block need a chunk inside a block.
    const auto even = [&](const ActivationView& view) { return view.block == 1 || view.block == lanes; };
    if (block > 1 && !(even(shape_.source) && even(shape_.out) && shape_.multiplier == 1)) {
      chunk_vectors_ = (smaller > 1 ? smaller : block) / lanes;
    } else {
      const std::int64_t vector_bytes = g.taps * shape_.sources * lanes * 4;
      chunk_vectors_ = 24 * 1024 / std::max<std::int64_t>(vector_bytes, 1);
      const std::int64_t* source_size = shape_.forward ? g.x_size : g.y_size;
      const std::int64_t pixels = source_size[0] * source_size[1] * source_size[2];
      const bool in_l2 = pixels * shape_.channels * 4 <= cpu.l2_bytes / 2;
      if (in_l2 || shape_.source.block > 1) {
        const std::int64_t rows_bytes = g.filter[0] * g.filter[1] * source_size[2] * lanes * 4;
        chunk_vectors_ = std::min(chunk_vectors_, std::max<std::int64_t>(32 * 1024 / rows_bytes, in_l2 ? 4 : 1));
      }
      chunk_vectors_ = std::clamp<std::int64_t>(chunk_vectors_, 1, vectors_);
    }
    chunks_ = (vectors_ + chunk_vectors_ - 1) / chunk_vectors_;
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
    const auto* w = static_cast<const float*>(weights);
    const WeightView& view = shape_.geometry.w;
    const std::int64_t* filter = shape_.geometry.filter;
    const std::int64_t lanes = kernels_.lanes;
    const auto pack_range = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v) {
        auto* to = static_cast<float*>(packed) + v * shape_.sources * shape_.geometry.taps * lanes;
        for (std::int64_t source = 0; source < shape_.sources; ++source) {
          for (std::int64_t d = 0; d < filter[0]; ++d) {
            for (std::int64_t r = 0; r < filter[1]; ++r) {
              for (std::int64_t s = 0; s < filter[2]; ++s) {
                const std::int64_t tap = view.origin + d * view.spatial[0] + r * view.spatial[1] + s * view.spatial[2];
                for (std::int64_t l = 0; l < lanes; ++l) {
                  const std::int64_t channel = v * lanes + l;
                  const std::int64_t k = shape_.forward ? channel : channel * shape_.multiplier + source;
                  *to++ = channel < shape_.channels ? w[tap + k * view.out] : 0.0f;
                }
              }
            }
          }
        }
      }
    };
    if (team == nullptr) return pack_range(0, vectors_);
    parallel_ranges(*team, vectors_, [&](std::int64_t begin, std::int64_t end, int) { pack_range(begin, end); });
  }

  Result<void> run(const ConvArgs& args, const void* packed, void*, ThreadTeam& team) const override {
    const EpilogueArgs epilogue = make_epilogue(problem(), args);
    const auto* src = static_cast<const float*>(shape_.forward ? args.x : args.y);
    auto* out = static_cast<float*>(args.out);
    const auto* z = epilogue.gamma != 0 ? static_cast<const float*>(args.z) : out;
    const std::int64_t rows = shape_.out_size[0] * shape_.out_size[1];
    const std::int64_t items = shape_.geometry.batch * chunks_ * rows;
    parallel_ranges(team, items, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t row = item % rows;
        run_row(epilogue, src, static_cast<const float*>(packed), out, z, item / rows / chunks_, item / rows % chunks_,
                row / shape_.out_size[1], row % shape_.out_size[1]);
      }
    });
    return {};
  }

  void run_row(const EpilogueArgs& epilogue, const float* src, const float* packed, float* out, const float* z,
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

    DepthwiseRow row{};
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
    for (const DepthwisePhase& width : shape_.phases[2]) {
      row.width = &width;
      row.weights = packed + first_vector * row.weight_vector + (first_tap + width.first_tap) * lanes;
      row.weight_width = width.tap_step * lanes;
      row.out = out + at + width.out_offset * shape_.out.spatial[2];
      row.z = z + at + width.out_offset * shape_.out.spatial[2];
      row.out_column = width.out_step * shape_.out.spatial[2];
      kernels_.channels_row(row);
    }
  }

  const DepthwiseKernels& kernels_;
  const DepthwiseShape shape_;
  std::int64_t vectors_ = 0;
  std::int64_t chunk_vectors_ = 0;
  std::int64_t chunks_ = 0;
  std::vector<std::int32_t> expand_lanes_;
  std::vector<std::int64_t> gather_offsets_;
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_channels_plan(const ConvProblem& problem, Candidate candidate,
                                                     const PlanRequest& request) {
  const DepthwiseKernels* kernels = depthwise_kernels_for(problem, request.cpu.isa);
  auto plan =
      std::make_unique<ChannelsPlan>(problem, std::move(candidate), request, *kernels, depthwise_shape(problem));
  CONVOY_CHECK(plan->keep(request.constant_weights));
  return std::unique_ptr<ConvPlan>(std::move(plan));
}

}  // namespace convoy::cpu
