// Packed NCHW: a thread has a patch, from planes in shared memory (depthwise_nchw.cu, .._wgrad.cu); small planes image
// after image, with the weights kept.
#include <algorithm>
#include <bit>

#include "engines/cuda/depthwise/lanes.h"

namespace convoy::cuda {
namespace {

constexpr FamilyCosts kCosts{{1.72, 0.02, 1.85, 5.5, 82, 0.02, 0.96, 5.1, 81, 0.38, 0.22, 2.8},
                             {1.43, 0.02, 1.22, 0.02, 46, 0.02, 0.89, 5.1, 14, 0.48, 0.54, 3.9}};

std::int64_t room(std::int64_t elements, int bytes) { return round_up(elements * bytes, 16) + 16; }

// Whether what comes next is copied while something is worked on. For fprop and dgrad it pays where a plane is so small
// that its weights matter: they are kept for the same channel of the next image.
std::int64_t stages_of(const DepthwiseShape& shape) {
  return wgrad(shape) || 16 * plane_taps(shape) >= shape.axes[1].out * shape.axes[2].out ? 2 : 1;
}

// How many words of the fullest of shared memory's 32 banks a warp asks for at once, when its threads' tiles begin
// step_h rows and step_w columns apart in planes of `plane` elements, `width` wide.
double bank_conflicts(const Tiling& t, std::int64_t step_h, std::int64_t step_w, std::int64_t height,
                      std::int64_t width, int element_bytes) {
  const std::int64_t tiles_h = t.h.tiles(), tiles_w = t.w.tiles();
  std::int64_t words[32];
  int counts[32] = {};
  int most = 1;
  for (int lane = 0; lane < 32; ++lane) {
    const std::int64_t row_of_tiles = lane / tiles_w;
    const std::int64_t at =
        row_of_tiles / tiles_h * height * width + row_of_tiles % tiles_h * step_h * width + lane % tiles_w * step_w;
    words[lane] = at * element_bytes / 4;
    // Threads that ask for one word share it; they are neighbours.
    if (lane == 0 || words[lane] != words[lane - 1]) most = std::max(most, ++counts[words[lane] % 32]);
  }
  return most;
}

struct Blocks : DepthwiseBlocks {
  std::int64_t planes = 1;
  std::int64_t strip_tiles = 1;  // rows of tiles
  std::int64_t stages = 1;       // inputs in shared memory at once
  std::int64_t images = 1;       // at once (wgrad)
};

struct Planes {
  static constexpr const char* word = "planes";
  static constexpr std::array<DepthwiseKnob, 2> knobs = {
      {{"columns", "of a thread's patch"}, {"rows", "of a thread's patch"}}};
  std::int64_t columns, rows;

  static std::vector<Planes> configurations(const DepthwiseShape& shape, const CudaDevice& device) {
    std::vector<Planes> all;
    if (!planar(shape) || !shape.adds_up() || signal_is_fastest(shape)) return all;
    for (const LaneTile& tile : lane_tiles(shape)) {
      const Planes planes{tile.columns, tile.rows};
      if (planes.runs(shape, device)) all.push_back(planes);
    }
    return all;
  }

  double seconds(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Blocks on = blocks(shape, device);
    const LaneWork lane = lane_work(shape, {rows, columns});
    Work work = work_of(shape, lane, 1);
    // Weights are read once for all images of a block.
    if (on.stages == 2) work.weights /= static_cast<double>(ceil_div(shape.batch, on.splits));
    const Tiling t = tiling_of(shape, rows, columns);
    const auto conflicts = [&](std::int64_t step_h, std::int64_t step_w, std::int64_t height, std::int64_t width) {
      return bank_conflicts(t, step_h, step_w, height, width, shape.element_bytes());
    };
    const double in_conflicts = conflicts(t.h.step(), t.w.step(), shape.axes[1].in, shape.axes[2].in);
    const double out_conflicts =
        wgrad(shape) ? in_conflicts : conflicts(rows, columns, shape.axes[1].out, shape.axes[2].out);
    work.shared = lane.inputs * in_conflicts + lane.outputs * out_conflicts;
    return fitted_seconds(shape, work, kCosts.of(shape), on, device);
  }

  DepthwiseKernel kernel(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Blocks on = blocks(shape, device);
    DepthwiseKernel kernel(wgrad(shape) ? "depthwise_nchw_wgrad.cu" : "depthwise_nchw.cu", shape, on);
    kernel.constants.set("TILE_H", rows).set("TILE_W", columns).set("PLANES", on.planes);
    kernel.constants.set("STRIP_TILES", on.strip_tiles).set("SPLITS", on.splits);
    kernel.constants.set("IMAGES", on.images).set("STAGES", on.stages);
    kernel.taps_first = false;
    return kernel;
  }

 private:
  bool runs(const DepthwiseShape& shape, const CudaDevice& device) const {
    if (!runs_well(shape, {rows, columns}, 1, registers(shape))) return false;
    if (bytes(shape, 1, 1) > device.shared_bytes_per_block) return false;
    // A strip is rows of one plane: where several are added up, they have to fit whole.
    return shape.fan_in == 1 || blocks(shape, device).strip_tiles >= tiling_of(shape, rows, columns).h.tiles();
  }

  // That a thread's arrays take at once, as the compiler's reports show.
  std::int64_t registers(const DepthwiseShape& shape) const {
    return rows * columns + plane_taps(shape) + tiling_of(shape, rows, columns).w.span() + 16;
  }

  // Of shared memory, of a block.
  std::int64_t bytes(const DepthwiseShape& shape, std::int64_t planes, std::int64_t strip_tiles) const {
    const Tiling t = tiling_of(shape, rows, columns);
    const bool whole = strip_tiles >= t.h.tiles();
    const std::int64_t in_rows =
        whole ? shape.axes[1].in : std::min(shape.axes[1].in, (strip_tiles - 1) * t.h.step() + t.h.reach());
    const std::int64_t out_rows = whole ? shape.axes[1].out : strip_tiles * rows;
    const std::int64_t in_planes = ceil_div(planes * shape.fan_in, shape.multiplier);
    const std::int64_t in = room(in_planes * in_rows * shape.axes[2].in, shape.element_bytes());
    const std::int64_t out = room(planes * out_rows * shape.axes[2].out, shape.element_bytes());
    if (wgrad(shape)) return stages_of(shape) * (in + out);
    return stages_of(shape) * in + out + planes * plane_taps(shape) * shape.fan_in * 4;
  }

  Blocks blocks(const DepthwiseShape& shape, const CudaDevice& device) const {
    const Tiling t = tiling_of(shape, rows, columns);
    const std::int64_t tiles_h = t.h.tiles(), sms = sms_of(device);
    const auto bytes_of = [&](const Blocks& blocks) { return bytes(shape, blocks.planes, blocks.strip_tiles); };
    const auto with = [](Blocks blocks, std::int64_t planes) {
      blocks.planes = planes;
      return blocks;
    };
    Blocks blocks;
    blocks.stages = stages_of(shape);
    const bool kept = blocks.stages == 2;  // a thread's weights, so that it has one tile
    const std::int64_t most_bytes = std::min<std::int64_t>(device.shared_bytes_per_block, (kept ? 56 : 48) * 1024);
    blocks.strip_tiles = tiles_h;
    while (blocks.strip_tiles > 1 && bytes_of(blocks) > most_bytes) blocks.strip_tiles = (blocks.strip_tiles + 1) / 2;
    const std::int64_t most_items = kept ? 128 : 256;
    if (blocks.strip_tiles >= tiles_h) {
      std::int64_t next = shape.multiplier > 1 ? shape.multiplier : 2;
      while (next * 3 / 4 <= shape.out_channels && next * tiles_h * t.w.tiles() <= most_items &&
             bytes_of(with(blocks, next)) <= most_bytes) {
        blocks.planes = next;
        next *= 2;
      }
      // The last block of channels shouldn't be nearly empty.
      while (blocks.planes > std::max<std::int64_t>(8, shape.multiplier) &&
             round_up(shape.out_channels, blocks.planes) * 8 > shape.out_channels * 9) {
        blocks.planes /= 2;
      }
    }
    const std::int64_t strips = ceil_div(tiles_h, blocks.strip_tiles);
    const auto groups = [&] { return ceil_div(shape.out_channels, blocks.planes); };
    const auto place = [&] {
      blocks.blocks_per_sm =
          std::min(blocks_by_registers(registers(shape), blocks.threads),
                   std::max<std::int64_t>(1, device.shared_bytes_per_sm / (blocks.shared_bytes + 1024)));
    };
    if (wgrad(shape)) {
      // Fewer channels and more images at a time, where blocks would be few.
      const std::int64_t tensors = (shape.inputs() + shape.outputs()) * shape.element_bytes();
      const std::int64_t shares = plane_taps(shape) * shape.out_channels * 4;
      // Shares of sums are written and read again: they should stay small beside the tensors.
      const std::int64_t most_splits = std::clamp<std::int64_t>(tensors / (8 * shares), 1, shape.batch * strips);
      while (blocks.planes > std::max<std::int64_t>(4, shape.multiplier) && groups() * most_splits < 4 * sms) {
        blocks.planes /= 2;
      }
      const std::int64_t items = blocks.strip_tiles * t.w.tiles();
      while (blocks.images * 2 * blocks.planes * items <= most_items && blocks.images * 4 <= shape.batch &&
             blocks.images * 2 * bytes_of(blocks) <= most_bytes) {
        blocks.images *= 2;
      }
      // A power of two of threads for each channel.
      const auto channel_threads = std::bit_ceil(static_cast<std::uint64_t>(items * blocks.images));
      blocks.threads = std::clamp<std::int64_t>(static_cast<std::int64_t>(channel_threads) * blocks.planes, 64, 128);
      while (blocks.planes > blocks.threads || blocks.threads % blocks.planes != 0) blocks.planes /= 2;
      if (shape.multiplier > 1 && blocks.planes % shape.multiplier != 0) blocks.planes = 1;
      const std::int64_t sums = std::max(blocks.planes, blocks.threads / 32) * plane_taps(shape) * 4;
      blocks.shared_bytes = std::max(blocks.images * bytes_of(blocks), sums);
      place();
      const std::int64_t units = ceil_div(shape.batch, blocks.images) * strips;
      blocks.splits = std::min({most_splits, units, std::max<std::int64_t>(1, sms * blocks.blocks_per_sm / groups())});
      blocks.splits = even_shares(units, blocks.splits);
      blocks.balance = balance_of(units, blocks.splits);
      blocks.grid = groups() * blocks.splits;
      return blocks;
    }
    const std::int64_t items = blocks.planes * blocks.strip_tiles * t.w.tiles();
    blocks.threads = kept ? std::clamp<std::int64_t>(round_up(items, 32), 64, 256) : items > 64 ? 128 : 64;
    blocks.shared_bytes = bytes_of(blocks);
    place();
    blocks.splits = shape.batch;
    if (kept)
      blocks.splits = std::clamp<std::int64_t>(sms * blocks.blocks_per_sm / (groups() * strips), 1, shape.batch);
    blocks.splits = even_shares(shape.batch, blocks.splits);
    blocks.balance = balance_of(shape.batch, blocks.splits);
    blocks.grid = groups() * strips * blocks.splits;
    return blocks;
  }
};

}  // namespace

extern constinit const DepthwiseFamily planes_family = family_of<Planes>();

}  // namespace convoy::cuda
