#include "engines/cpu/int8/depthwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/finishing.h"

namespace convoy::cpu::int8 {
namespace {

constexpr std::int64_t kBlockPointerBytes = 64 << 10;

std::int64_t rounded_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Panels of kernel.tile.columns channels. Packed: for each panel its weights in pairs, [step of 2 taps][column][2 taps]
// in 16 bits, less their zero point; then for each column a s32, its term, or, where x's zero point comes with the
// execution, what it is multiplied with to give it. Where kernel.channels_to_bytes takes them, also in quads, 64 bytes
// for each step of 4 taps and part: [step][4 parts][4 quarters][4 channels][4 taps]. A quarter is 16 of the panel's
// channels, in turn, as often as there is room; part p has channels 4 p to 4 p + 3 of each. Then for each column what
// its term is less for x + 128.
class Weights {
 public:
  Weights(const ConvProblem& problem, const ConvGeometry& geometry, const Kernel& kernel)
      : geometry_(geometry),
        columns_(kernel.tile.columns),
        panels_((geometry.filters + columns_ - 1) / columns_),
        type_(problem.w.type),
        w_zero_(problem.w_zero_point),
        x_zero_(problem.x_zero_given ? 1 : problem.x_zero_point),
        has_quads_(kernel.channels_to_bytes != nullptr && type_ == DataType::s8 && w_zero_ == 0) {}

  std::int64_t panels() const { return panels_; }
  std::int64_t channels() const { return panels_ * columns_; }
  std::int64_t bytes() const {
    return has_quads_ ? less_at() + channels() * kTerm : terms_at() + rounded_up(channels() * kTerm);
  }

  const std::byte* pairs(const void* packed, std::int64_t panel) const {
    return static_cast<const std::byte*>(packed) + panel * pair_bytes();
  }
  const std::int32_t* terms(const void* packed) const {
    return reinterpret_cast<const std::int32_t*>(static_cast<const std::byte*>(packed) + terms_at());
  }
  bool has_quads() const { return has_quads_; }
  const std::byte* quads(const void* packed, std::int64_t panel) const {
    return static_cast<const std::byte*>(packed) + quads_at() + panel * quad_bytes();
  }
  const std::int32_t* less(const void* packed) const {
    return reinterpret_cast<const std::int32_t*>(static_cast<const std::byte*>(packed) + less_at());
  }

  void pack(const void* weights, void* packed) const {
    const ConvGeometry& g = geometry_;
    auto* const bytes_of = static_cast<std::byte*>(packed);
    std::memset(packed, 0, static_cast<std::size_t>(bytes()));
    auto* const terms = reinterpret_cast<std::int32_t*>(bytes_of + terms_at());
    auto* const less = reinterpret_cast<std::int32_t*>(bytes_of + less_at());
    for (std::int64_t k = 0; k < g.filters; ++k) {
      const std::int64_t panel = k / columns_, column = k % columns_;
      auto* const pairs = reinterpret_cast<std::int16_t*>(bytes_of + panel * pair_bytes());
      auto* const quads = reinterpret_cast<std::int8_t*>(bytes_of + quads_at() + panel * quad_bytes());
      const std::int64_t quarters = (std::min(columns_, g.filters - panel * columns_) + 15) / 16;
      std::uint32_t sum = 0;  // unsigned: sums wrap
      std::int64_t t = 0;
      for (std::int64_t d = 0; d < g.filter[0]; ++d) {
        for (std::int64_t h = 0; h < g.filter[1]; ++h) {
          for (std::int64_t w = 0; w < g.filter[2]; ++w, ++t) {
            const std::int64_t at =
                g.w.origin + k * g.w.out + d * g.w.spatial[0] + h * g.w.spatial[1] + w * g.w.spatial[2];
            const std::int32_t weight = (type_ == DataType::s8 ? static_cast<const std::int8_t*>(weights)[at]
                                                               : static_cast<const std::uint8_t*>(weights)[at]) -
                                        w_zero_;
            sum += static_cast<std::uint32_t>(weight);
            pairs[(t / 2 * columns_ + column) * 2 + t % 2] = static_cast<std::int16_t>(weight);
            if (!has_quads_) continue;
            for (std::int64_t quarter = column / 16; quarter < 4; quarter += quarters) {
              quads[t / 4 * 256 + column % 16 / 4 * 64 + quarter * 16 + column % 4 * 4 + t % 4] =
                  static_cast<std::int8_t>(weight);
            }
          }
        }
      }
      terms[k] = static_cast<std::int32_t>(0u - static_cast<std::uint32_t>(x_zero_) * sum);
      if (has_quads_) less[k] = static_cast<std::int32_t>(128 * sum);
    }
  }

 private:
  static constexpr std::int64_t kTerm = sizeof(std::int32_t);
  std::int64_t pair_bytes() const { return (geometry_.taps + 1) / 2 * columns_ * 4; }
  std::int64_t quad_bytes() const { return (geometry_.taps + 3) / 4 * 256; }
  std::int64_t terms_at() const { return panels_ * pair_bytes(); }
  std::int64_t quads_at() const { return rounded_up(terms_at() + channels() * kTerm); }
  std::int64_t less_at() const { return quads_at() + (has_quads_ ? panels_ * quad_bytes() : 0); }

  const ConvGeometry& geometry_;
  std::int64_t columns_, panels_;
  DataType type_;
  std::int32_t w_zero_, x_zero_;
  bool has_quads_;
};

// The pixels of some rows of y, and the pointers to what they read of x.
class Pixels {
 public:
  Pixels(const ConvGeometry& geometry, const void* x, const std::byte* outside, std::span<const std::byte*> pointers)
      : geometry_(geometry), x_(static_cast<const std::byte*>(x)), outside_(outside), pointers_(pointers) {}

  // At most kMostPixels in all, of rows [first, last) of y; a row is split where it is longer: `piece` of `pieces`.
  void find(std::int64_t first, std::int64_t last, std::int64_t piece, std::int64_t pieces) {
    const ConvGeometry& g = geometry_;
    count_ = 0;
    used_ = 0;
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t h = row % g.y_size[1], d = row / g.y_size[1] % g.y_size[0];
      const std::int64_t n = row / g.y_size[1] / g.y_size[0];
      const std::int64_t y = n * g.y.batch + d * g.y.spatial[0] + h * g.y.spatial[1];
      const std::byte* const* shared = nullptr;
      std::int64_t shared_w = 0;
      for (std::int64_t w = g.y_size[2] * piece / pieces; w < g.y_size[2] * (piece + 1) / pieces; ++w) {
        const auto at = static_cast<std::size_t>(count_++);
        offsets_[at] = y + w * g.y.spatial[2];
        Pixel& pixel = pixels_[at];
        pixel.x = 0;
        if (!inside(w)) {
          pixel.taps = point(n, d, h, w);
        } else if (shared == nullptr) {
          pixel.taps = shared = point(n, d, h, w);
          shared_w = w;
        } else {
          pixel.taps = shared;
          pixel.x = (w - shared_w) * g.stride[2] * g.x.spatial[2];
        }
      }
    }
  }
  int count() const { return count_; }
  const Pixel* data() const { return pixels_.data(); }
  const std::int64_t* offsets() const { return offsets_.data(); }  // where their results go, in elements

 private:
  // Whether all of a row's taps are, of the pixels in column w of y.
  bool inside(std::int64_t w) const {
    const ConvGeometry& g = geometry_;
    const std::int64_t first = w * g.stride[2] - g.pre[2];
    return first >= 0 && first + (g.filter[2] - 1) * g.dilation[2] < g.x_size[2];
  }
  const std::byte* const* point(std::int64_t n, std::int64_t d, std::int64_t h, std::int64_t w) {
    const ConvGeometry& g = geometry_;
    const std::byte** const taps = pointers_.data() + used_;
    for (std::int64_t fd = 0; fd < g.filter[0]; ++fd) {
      const std::int64_t xd = d * g.stride[0] + fd * g.dilation[0] - g.pre[0];
      for (std::int64_t fh = 0; fh < g.filter[1]; ++fh) {
        const std::int64_t xh = h * g.stride[1] + fh * g.dilation[1] - g.pre[1];
        const bool row_inside = xd >= 0 && xd < g.x_size[0] && xh >= 0 && xh < g.x_size[1];
        const std::byte* const row = x_ + n * g.x.batch + xd * g.x.spatial[0] + xh * g.x.spatial[1];
        for (std::int64_t fw = 0; fw < g.filter[2]; ++fw) {
          const std::int64_t xw = w * g.stride[2] + fw * g.dilation[2] - g.pre[2];
          const bool is = row_inside && xw >= 0 && xw < g.x_size[2];
          pointers_[used_++] = is ? row + xw * g.x.spatial[2] : outside_;
        }
      }
    }
    return taps;
  }

  const ConvGeometry& geometry_;
  const std::byte* x_;
  const std::byte* outside_;
  std::span<const std::byte*> pointers_;
  std::array<Pixel, kMostPixels> pixels_;
  std::array<std::int64_t, kMostPixels> offsets_;
  int count_ = 0;
  std::size_t used_ = 0;
};

// Rows of y a block, and pieces a row where it is longer than a block.
struct Blocks {
  std::int64_t rows, blocks, pieces, pointers;
};

Blocks blocks_of(const ConvGeometry& g, int threads) {
  Blocks b{.rows = g.batch * g.y_size[0] * g.y_size[1]};
  const std::int64_t most = std::clamp<std::int64_t>(
      kBlockPointerBytes / (g.taps * static_cast<std::int64_t>(sizeof(void*))), 1, kMostPixels);
  const std::int64_t row = g.y_size[2];
  b.pieces = (row + most - 1) / most;
  const std::int64_t together = std::max<std::int64_t>(1, most / row);
  // As many for each thread.
  b.blocks = std::min(b.rows, ((b.rows + together - 1) / together + threads - 1) / threads * threads);
  const std::int64_t pixels = std::min(most, b.pieces > 1 ? most : (b.rows + b.blocks - 1) / b.blocks * row);
  b.pointers = pixels * g.taps;
  return b;
}

class DepthwisePlan final : public PackedPlan {
 public:
  DepthwisePlan(const ConvProblem& problem, const Candidate& candidate, int threads, const Kernel& kernel,
                const ConvGeometry& geometry)
      : PackedPlan(problem, candidate, threads, static_cast<std::size_t>(Weights(problem, geometry, kernel).bytes()),
                   static_cast<std::size_t>(scratch_bytes(problem, geometry, kernel, threads))),
        kernel_(kernel),
        geometry_(geometry),
        weights_(problem, geometry_, kernel),
        blocks_(blocks_of(geometry, threads)) {}

  std::vector<std::string> notes() const override {
    auto notes = PackedPlan::notes();
    notes.push_back("x read in place");
    return notes;
  }

 private:
  // Of the execution: terms, where they depend on it; x's zero point, a row of it where rows of taps may lie outside of
  // x; pointers for each thread.
  static std::int64_t outside_bytes(const ConvGeometry& g) {
    const bool rows = g.pre[0] > 0 || g.post[0] > 0 || g.pre[1] > 0 || g.post[1] > 0;
    return rounded_up((rows ? (g.x_size[2] - 1) * g.x.spatial[2] : 0) + g.channels);
  }
  static std::int64_t term_bytes(const ConvProblem& problem, const Weights& weights) {
    return problem.x_zero_given ? rounded_up(weights.channels() * static_cast<std::int64_t>(sizeof(std::int32_t))) : 0;
  }
  static std::int64_t pointer_bytes(const Blocks& blocks) {
    return rounded_up(blocks.pointers * static_cast<std::int64_t>(sizeof(void*)));
  }
  static std::int64_t scratch_bytes(const ConvProblem& problem, const ConvGeometry& g, const Kernel& kernel,
                                    int threads) {
    return term_bytes(problem, Weights(problem, g, kernel)) + outside_bytes(g) +
           threads * pointer_bytes(blocks_of(g, threads));
  }

  void pack(const void* weights, void* packed, ThreadTeam*) const override { weights_.pack(weights, packed); }

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    auto* memory = static_cast<std::byte*>(scratch);
    const std::int32_t x_zero = problem().x_zero_given ? *args.x_zero_point : problem().x_zero_point;
    const std::int32_t* terms = weights_.terms(packed);
    if (problem().x_zero_given) {
      auto* const of_zero = reinterpret_cast<std::int32_t*>(memory);
      for (std::int64_t i = 0; i < weights_.channels(); ++i) {
        of_zero[i] =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(x_zero) * static_cast<std::uint32_t>(terms[i]));
      }
      terms = of_zero;
    }
    memory += term_bytes(problem(), weights_);
    std::byte* const outside = memory;
    std::memset(outside, x_zero, static_cast<std::size_t>(outside_bytes(geometry_)));
    memory += outside_bytes(geometry_);

    // Threads have rows of y, as their neighbours in a network do; panels where there are too few rows.
    const std::int64_t pieces = blocks_.blocks * blocks_.pieces;
    const std::int64_t parts = std::min(weights_.panels(), (team.size() + pieces - 1) / pieces);
    parallel_ranges(team, pieces * parts, [&](std::int64_t begin, std::int64_t end, int thread) {
      auto** const pointers = reinterpret_cast<const std::byte**>(memory + thread * pointer_bytes(blocks_));
      Pixels pixels(geometry_, args.x, outside, {pointers, static_cast<std::size_t>(blocks_.pointers)});
      Finishing finishing(problem(), geometry_, kernel_, args, geometry_.taps, false);
      std::int64_t found = -1;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t block = item / parts / blocks_.pieces, part = item % parts;
        if (found != item / parts) {
          pixels.find(blocks_.rows * block / blocks_.blocks, blocks_.rows * (block + 1) / blocks_.blocks,
                      item / parts % blocks_.pieces, blocks_.pieces);
          found = item / parts;
        }
        const std::int64_t last = weights_.panels() * (part + 1) / parts;
        for (std::int64_t panel = weights_.panels() * part / parts; panel < last; ++panel) {
          run_panel(packed, terms, panel, pixels, finishing);
        }
      }
    });
    return {};
  }

  void run_panel(const void* packed, const std::int32_t* terms, std::int64_t panel, const Pixels& pixels,
                 Finishing& finishing) const {
    const std::int64_t channel = panel * kernel_.tile.columns;
    const int columns = static_cast<int>(std::min<std::int64_t>(kernel_.tile.columns, geometry_.filters - channel));
    const bool x_signed = problem().x.type == DataType::s8;
    finishing.start(channel, columns, terms + channel);
    const auto multiply = [&](int first, int last) {
      for (int at = first; at < last; at += kernel_.tile.rows) {
        const int count = std::min(kernel_.tile.rows, last - at);
        kernel_.multiply_channels(pixels.data() + at, count, x_signed, channel, columns, geometry_.taps,
                                  weights_.pairs(packed, panel), finishing.sums());
        finishing.finish(finishing.sums(), count, pixels.offsets() + at);
      }
    };
    const bool in_quads = weights_.has_quads() && finishing.bytes() && !finishing.bytes()->has_residual;
    if (!in_quads) return multiply(0, pixels.count());

    FinishBytes bytes = *finishing.bytes();
    alignas(64) std::array<std::int32_t, kMaxColumns> less;
    if (x_signed) {
      for (int i = 0; i < kernel_.tile.columns; ++i) {
        less[static_cast<std::size_t>(i)] = bytes.terms[i] - weights_.less(packed)[channel + i];
      }
      bytes.terms = less.data();
    }
    std::array<int, kMostPixels> doubtful;
    const int doubts = kernel_.channels_to_bytes(pixels.data(), pixels.count(), x_signed, channel, geometry_.taps,
                                                 weights_.quads(packed, panel), bytes, finishing.out(),
                                                 pixels.offsets(), doubtful.data());
    for (const int pixel : std::span(doubtful).first(static_cast<std::size_t>(doubts))) multiply(pixel, pixel + 1);
  }

  const Kernel& kernel_;
  const ConvGeometry geometry_;
  const Weights weights_;
  const Blocks blocks_;
};

}  // namespace

bool is_depthwise(const ConvProblem& problem) {
  const ConvGeometry g = flat_geometry(problem);
  return g.groups > 1 && g.group_channels == 1 && g.group_filters == 1 && g.x.channel == 1 && !problem.w_zero_given;
}

std::unique_ptr<PackedPlan> make_depthwise_plan(const ConvProblem& problem, const Candidate& candidate, int threads,
                                                const Kernel& kernel) {
  return std::make_unique<DepthwisePlan>(problem, candidate, threads, kernel, flat_geometry(problem));
}

}  // namespace convoy::cpu::int8
