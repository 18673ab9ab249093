// f16 and bf16, NHWC, channels in eights, stride 1, 4 to 16 taps, fprop and dgrad: tensor cores, the weights of two
// taps as diagonal matrices of 8 channels (depthwise_nhwc_mma.cu).
#include <algorithm>
#include <set>

#include "engines/cuda/depthwise/prediction.h"
#include "engines/cuda/depthwise/tile_axis.h"

namespace convoy::cuda {
namespace {

constexpr Costs kCosts{4.1, 5.1, 30, 18, 0, 47, 0.07, 4.4, 39, 0.94, 0.43, 0};

// Larger windows are faster on `rolling`, rows of three taps on `patch`.
bool fits(const DepthwiseShape& shape) {
  return !wgrad(shape) && shape.axes[1].stride == 1 && shape.axes[2].stride == 1 && !shape.volumetric() &&
         shape.channels_in_eights() && plane_taps(shape) > 3 && plane_taps(shape) <= 16 && shape.axes[1].out > 1;
}

// The shortest stride of at least `bytes` bytes with which loads of `pixels` pixels, `step` strides apart, `words`
// words of each, meet no bank of shared memory twice, or as seldom as can be.
std::int64_t conflict_free_pitch(std::int64_t bytes, std::int64_t step, std::int64_t words, std::int64_t pixels) {
  std::int64_t best = bytes;
  std::size_t most = 0;
  for (std::int64_t pitch = bytes; pitch <= bytes + 112; pitch += 16) {
    std::set<std::int64_t> banks;
    for (std::int64_t i = 0; i < pixels; ++i) banks.insert(pitch / 4 * step * i % 32 / words);
    if (banks.size() > most) {
      most = banks.size();
      best = pitch;
    }
  }
  return best;
}

struct Blocks : DepthwiseBlocks {
  std::int64_t tile_h = 1;                // rows of a unit, which is 8 columns wide
  std::int64_t block_h = 1, block_w = 1;  // units of a block, and its
  std::int64_t images = 1, channel_warps = 1, pitch = 16;
};

struct Mma {
  static constexpr const char* word = "mma";
  static constexpr std::array<DepthwiseKnob, 3> knobs = {
      {{"channels", "of a warp"}, {"columns", "of a block"}, {"rows", "of a block"}}};
  std::int64_t channels, columns, rows;

  static std::vector<Mma> configurations(const DepthwiseShape& shape, const CudaDevice& device) {
    std::vector<Mma> all;
    if (!fits(shape)) return all;
    const auto add = [&](const Mma& mma) {
      const std::int64_t most_shared = std::min<std::int64_t>(device.shared_bytes_per_block, kMostShared);
      if (plane_taps(shape) * mma.channels / 8 > 100 || mma.blocks(shape, device).shared_bytes > most_shared) return;
      all.push_back(mma);
    };
    add({16, 16, 8});
    if (shape.axes[1].out <= 8) return all;
    add({16, 16, 16});
    if (device.architecture < 90) return all;  // the compiler spills a few registers
    for (const std::int64_t rows : {8, 16}) add({32, 16, rows});
    return all;
  }

  // A tile is a pair of units of the tensor cores' kernels, a product one of matrices.
  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Blocks on = blocks(shape, device);
    const TileAxis h{shape.axes[1], on.tile_h, false}, w{shape.axes[2], 1, false};
    const std::int64_t channel_tiles = channels / 8, pairs = ceil_div(on.images * on.block_h * on.block_w, 2);
    Work work;
    work.products = static_cast<double>(on.tile_h * h.axis.taps * ceil_div(shape.axes[2].taps, 2) * channel_tiles);
    work.loads = static_cast<double>(h.span() * w.span() * 2);
    work.stores = static_cast<double>(on.tile_h * 2);
    const std::int64_t places = places_of(shape, on),
                       slices = ceil_div(shape.out_channels, channels * on.channel_warps);
    work.threads_tiles = static_cast<double>(32 * pairs * places * slices * on.channel_warps);
    // 16 bytes copied, of a thread for each pair.
    const std::int64_t pixels = in_pixels(shape, on);
    work.converts = static_cast<double>(on.images * pixels * channels) / 8 / static_cast<double>(32 * pairs);
    work.weights = static_cast<double>(plane_taps(shape) * channel_tiles) /
                   static_cast<double>(std::max<std::int64_t>(1, places * pairs / on.splits));
    work.shared = work.loads * static_cast<double>(channel_tiles);
    return fitted_seconds(shape, work, kCosts, on, device);
  }

  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Blocks on = blocks(shape, device);
    DepthwiseKernel kernel("depthwise_nhwc_mma.cu", shape, on);
    kernel.constants.set("TILE_H", on.tile_h).set("CHANNEL_TILES", channels / 8);
    kernel.constants.set("BLOCK_H", on.block_h).set("BLOCK_W", on.block_w).set("IMAGES", on.images);
    kernel.constants.set("CHANNEL_WARPS", on.channel_warps).set("PIXEL_PITCH", on.pitch);
    kernel.constants.set("SPLITS", on.splits);
    return kernel;
  }

 private:
  static std::int64_t in_pixels(const DepthwiseShape& shape, const Blocks& on) {
    const TileAxis h{shape.axes[1], on.tile_h, false}, w{shape.axes[2], 1, false};
    return ((on.block_h - 1) * h.step() + h.reach()) * ((8 * on.block_w - 1) * w.step() + w.reach());
  }

  // Blocks' patches, of all images.
  static std::int64_t places_of(const DepthwiseShape& shape, const Blocks& on) {
    const TileAxis h{shape.axes[1], on.tile_h, false};
    return ceil_div(h.tiles(), on.block_h) * ceil_div(shape.axes[2].out, 8 * on.block_w) *
           ceil_div(shape.batch, on.images);
  }

  Blocks blocks(const DepthwiseShape& shape, const CudaDevice& device) const {
    const std::int64_t channel_tiles = channels / 8, out_h = shape.axes[1].out, out_w = shape.axes[2].out;
    Blocks blocks;
    blocks.tile_h = ceil_div(out_h, ceil_div(out_h, channel_tiles == 4 ? 4 : 8));
    const TileAxis h{shape.axes[1], blocks.tile_h, false}, w{shape.axes[2], 1, false};
    blocks.block_h = std::min(h.tiles(), ceil_div(rows, blocks.tile_h));
    blocks.block_w = ceil_div(std::min(out_w, columns), 8);

    // As many warps beside one another, of those that waste least.
    std::int64_t least = -1;
    for (const std::int64_t warps : {1, 2, 3, 4}) {
      const std::int64_t slice = warps * channels;
      if (slice > 64 || (slice < 24 && slice < shape.out_channels)) continue;
      const std::int64_t all = round_up(shape.out_channels, slice);
      if (least < 0 || all <= least) {
        least = all;
        blocks.channel_warps = warps;
      }
    }
    const std::int64_t slice = blocks.channel_warps * channels, words = 4 * channel_tiles;
    blocks.pitch = conflict_free_pitch(slice * 2, w.step(), words, 32 / words);
    const std::int64_t image_bytes = 2 * in_pixels(shape, blocks) * blocks.pitch;  // at work, and what comes next
    const std::int64_t units = blocks.block_h * blocks.block_w;
    if (blocks.block_h >= h.tiles() && blocks.block_w * 8 >= out_w) {
      while (blocks.images * 2 <= shape.batch && blocks.images * units < 16 &&
             blocks.images * 2 * image_bytes <= (blocks.images * units == 1 ? 72 : 40) * 1024) {
        blocks.images *= 2;
      }
    }
    const std::int64_t pairs = ceil_div(blocks.images * units, 2);
    const std::int64_t pixel_warps = std::clamp<std::int64_t>(8 / blocks.channel_warps, 1, pairs);
    blocks.threads = 32 * blocks.channel_warps * even_shares(pairs, pixel_warps);
    blocks.shared_bytes = blocks.images * image_bytes;
    // As many blocks as fit a processor. Each of its four schedulers has a quarter of the registers and whole warps.
    const std::int64_t wanted = plane_taps(shape) * channel_tiles + blocks.tile_h * channel_tiles * 4 +
                                w.span() * 2 * channel_tiles + 4 * channel_tiles + 28;
    const std::int64_t registers = round_up(std::clamp<std::int64_t>(wanted, 40, 232), 8);
    const std::int64_t warps = kRegistersPerSm / 4 / (registers * 32) * 4;
    blocks.blocks_per_sm = std::max<std::int64_t>(
        1, std::min({warps * 32 / blocks.threads, 2048 / blocks.threads, kSharedPerSm / (blocks.shared_bytes + 1024)}));
    const std::int64_t places = places_of(shape, blocks), slices = ceil_div(shape.out_channels, slice);
    // No share is empty, and none much smaller than the others.
    blocks.splits = std::clamp<std::int64_t>(sms_of(device) * blocks.blocks_per_sm / slices, 1, places);
    blocks.splits = even_shares(places, blocks.splits);
    blocks.balance = balance_of(places, blocks.splits);
    blocks.grid = slices * blocks.splits;
    return blocks;
  }
};

}  // namespace

extern constinit const DepthwiseFamily mma_family = family_of<Mma>();

}  // namespace convoy::cuda
