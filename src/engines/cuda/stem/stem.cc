#include "engines/cuda/stem/stem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // pixels
constexpr std::int64_t kMostChannels = 8;
constexpr std::int64_t kMostIndex = (1 << 20) - 512;  // pixels along a dim
constexpr std::int64_t kMostReach = 255;              // of a window, from its first tap to its last
constexpr std::int64_t kMostStemTerms = 256;          // of a window, all of which a block has in shared memory
constexpr std::array<ProductTile, 8> kTiles = {{{128, 64, 4, 1, 3},
                                                {256, 64, 8, 1, 1},
                                                {128, 96, 4, 1, 2},
                                                {128, 32, 4, 1, 4},
                                                {128, 16, 4, 1, 4},
                                                {64, 64, 2, 2, 3},
                                                {64, 32, 4, 1, 4},
                                                {32, 32, 2, 1, 8}}};
constexpr std::int64_t kMostPixels = 256;  // of a tile
constexpr double kLaunchSeconds = 2e-6;
constexpr double kBlockSeconds = 2e-6;  // until a block has its filters and its first patch
// What a multiprocessor takes: products, an element of a patch, an output; more where it has one block, whose barriers
// nothing else hides. And what a thread takes for a word of the filters, of which many are under way. Fitted to eight
// first layers on an H200.
constexpr double kProductsPerSecond = 2e12, kElementSeconds = 0.12e-9, kOutputSeconds = 0.08e-9, kWordSeconds = 0.05e-6;
constexpr double kOneBlock = 1.3;

// The kernel's parameter of sizes (kernels/stem.cu).
struct StemSizes {
  long long x_strides[4];
  int n, tiles, tiles_h, tiles_w, blocks_n, splits;
  int pixels[3], in[3], pad[3], stride_d, dilation_d;
};

void copy(const std::array<std::int64_t, 3>& from, int (&to)[3]) {
  for (std::size_t i = 0; i < 3; ++i) to[i] = static_cast<int>(from[i]);
}

// Of a window.
std::int64_t stem_terms(const ConvProblem& problem) {
  const auto taps = three(problem.w.dims, 2);
  return problem.in_channels() * taps[0] * taps[1] * taps[2];
}

// Of out.
std::int64_t stem_pixels(const ConvProblem& problem) {
  const auto pixels = three(problem.y.dims, 2);
  return problem.batch() * pixels[0] * pixels[1] * pixels[2];
}

// Channels of a pixel in shared memory, with zeros.
std::int64_t pixel_of(const ConvProblem& problem) {
  return problem.in_channels() <= 2 ? 2 : problem.in_channels() <= 4 ? 4 : 8;
}

// Products of 16 terms of a window.
std::int64_t steps_of(const ConvProblem& problem) {
  return ceil_div(stem_terms(problem) / problem.in_channels() * pixel_of(problem), 16);
}

// The pixels of a tile, and what is in shared memory for them.
struct StemTile {
  std::int64_t h, w, tiles_h, tiles_w;
  std::int64_t patch_pixels, shared_bytes;
};

// The shape of as many pixels that leaves least beside the image, and of those the one with the smallest patch.
StemTile stem_tile(const ConvProblem& problem, const ProductTile& tile) {
  const auto out = three(problem.y.dims, 2), taps = three(problem.w.dims, 2), stride = three(problem.stride, 0),
             dilation = three(problem.dilation, 0);
  const auto span = [&](std::size_t dim, std::int64_t size) {
    return (size - 1) * stride[dim] + dilation[dim] * (taps[dim] - 1) + 1;
  };
  StemTile best{};
  for (std::int64_t w = 8; w <= tile.m; w *= 2) {
    StemTile each{tile.m / w, w, 0, 0, 0, 0};
    each.tiles_h = ceil_div(out[1], each.h);
    each.tiles_w = ceil_div(out[2], each.w);
    each.patch_pixels = taps[0] * span(1, each.h) * span(2, each.w);
    const auto rank = [](const StemTile& one) { return std::pair(one.tiles_h * one.tiles_w, one.patch_pixels); };
    if (best.w == 0 || rank(each) < rank(best)) best = each;
  }
  // The filters, the patch, the biases, and where a window's words are, with a step more that is only fetched.
  best.shared_bytes = 32 * steps_of(problem) * tile.n + 2 * pixel_of(problem) * best.patch_pixels + 4 * tile.n +
                      32 * (steps_of(problem) + 1);
  return best;
}

// Blocks that a multiprocessor runs at once, as far as shared memory and registers say.
std::int64_t resident(const StemTile& shape, const ProductTile& tile, const CudaDevice& device) {
  return std::clamp<std::int64_t>(device.shared_bytes_per_sm / (shape.shared_bytes + 1024), 1, tile.blocks);
}

class StemEngine final : public ProductEngine {
 public:
  StemEngine()
      : ProductEngine("cuda.stem", "few channels, as a network's first layer has, on tensor cores; f16, bf16; y NHWC",
                      kTiles) {
    info_.passes = {Pass::fprop};
    info_.any_layouts = true;
    info_.dilated = true;
    info_.notes_vary = true;
  }

  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (problem.in_channels() > kMostChannels || stem_terms(problem) > kMostStemTerms) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine takes at most {} channels and {} weights a filter",
                                 to_string(problem.w.dims), kMostChannels, kMostStemTerms)};
    }
    if (problem.x.channel_block > 1 || !problem.y.is_packed(Layout::nhwc)) {
      return Refusal{RefusalCode::layout, "this engine takes w and y channels last, and x by strides"};
    }
    for (std::size_t i = 0; i < problem.dilation.size(); ++i) {
      if (problem.dilation[i] * (problem.w.dims[2 + i] - 1) > kMostReach) {
        return Refusal{RefusalCode::dilation, fmt::format("dilation={}: this engine takes windows of at most {}",
                                                          to_string(problem.dilation), kMostReach + 1)};
      }
      if (std::max({problem.x.dims[2 + i], problem.pre_padding[i], problem.stride[i] * problem.y.dims[2 + i]}) >
          kMostIndex) {
        return Refusal{RefusalCode::size, fmt::format("x.dims={}: this engine takes at most {} pixels along a dim",
                                                      to_string(problem.x.dims), kMostIndex)};
      }
    }
    std::int64_t span = (problem.in_channels() - 1) * problem.x.strides[1];
    for (std::size_t i = 0; i < problem.dilation.size(); ++i) {
      const std::int64_t pixels =
          std::min<std::int64_t>(problem.x.dims[2 + i], kMostPixels * problem.stride[i] + kMostReach);
      span += pixels * problem.x.strides[2 + i];
    }
    if (span > kMost) {
      return Refusal{RefusalCode::size,
                     fmt::format("x: a tile's windows span {} elements, this engine takes {}", span, kMost)};
    }
    if (stem_pixels(problem) > kMost || problem.out_channels() > kMostIndex) {
      return Refusal{RefusalCode::size, fmt::format("{} pixels of {} channels: this engine takes fewer",
                                                    stem_pixels(problem), problem.out_channels())};
    }
    return std::nullopt;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const TensorDesc& x = problem.x;
    const std::int64_t channels = problem.out_channels();
    const StemTile shape = stem_tile(problem, tile);
    Constants constants;
    constants.enumerations().element(problem.y.type);
    constants.set("TILE_H", shape.h).set("TILE_W", shape.w).set("TILE_N", tile.n);
    constants.set("WARPS_M", tile.warps_m).set("WARPS_N", tile.warps_n).set("MIN_BLOCKS", tile.blocks);
    int vector = 8;
    while (vector > 1 && (channels % vector != 0 || problem.y.alignment % (2 * vector) != 0)) vector /= 2;
    constants.set("OUT_VECTOR", vector).set("IN_C", problem.in_channels()).set("PIXEL", pixel_of(problem));
    constants.set("IN_STRIDE_C", x.strides[1]).set("CHANNELS_LAST", x.strides[1] == 1);
    const auto taps = three(problem.w.dims, 2), dilation = three(problem.dilation, 0),
               stride = three(problem.stride, 0);
    constants.set("TAPS_D", taps[0]).set("TAPS_H", taps[1]).set("TAPS_W", taps[2]);
    constants.set("STRIDE_H", stride[1]).set("STRIDE_W", stride[2]);
    constants.set("DILATION_H", dilation[1]).set("DILATION_W", dilation[2]);
    constants.epilogue(problem);

    StemSizes sizes{};
    const auto strides = three(x.strides, 2, 0);
    sizes.x_strides[0] = x.strides[0];
    std::copy(strides.begin(), strides.end(), sizes.x_strides + 1);
    const std::int64_t tiles = problem.batch() * three(problem.y.dims, 2)[0] * shape.tiles_h * shape.tiles_w;
    sizes.n = static_cast<int>(channels);
    sizes.tiles = static_cast<int>(tiles);
    sizes.tiles_h = static_cast<int>(shape.tiles_h);
    sizes.tiles_w = static_cast<int>(shape.tiles_w);
    sizes.blocks_n = static_cast<int>(ceil_div(channels, tile.n));
    const std::int64_t places = std::max(device.sm_count, 1) * resident(shape, tile, device);
    sizes.splits = static_cast<int>(std::clamp<std::int64_t>(places / sizes.blocks_n, 1, tiles));
    copy(three(problem.y.dims, 2), sizes.pixels);
    copy(three(x.dims, 2), sizes.in);
    copy(three(problem.pre_padding, 0, 0), sizes.pad);
    sizes.stride_d = static_cast<int>(stride[0]);
    sizes.dilation_d = static_cast<int>(dilation[0]);
    const std::int64_t grid = std::int64_t{sizes.splits} * sizes.blocks_n;
    if (target_sms > 0) constants.work_blocks(grid);
    KernelLaunch launch{{"stem.cu", constants.text(), device.architecture}, "stem", {}};
    launch.shape.grid.x = static_cast<unsigned>(grid);
    launch.shape.block.x = static_cast<unsigned>(32 * tile.warps_m * tile.warps_n);
    launch.shape.dynamic_shared_bytes = static_cast<int>(shape.shared_bytes);
    launch.shape.overlapped = device.architecture >= 90;
    return {{std::move(launch)}, 0, bytes_of(sizes)};
  }

 private:
  std::int64_t columns(const ConvProblem& problem) const override { return problem.out_channels(); }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    return stem_tile(problem, tile).shared_bytes;
  }

  // The tiles of a multiprocessor, or memory.
  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const auto sms = static_cast<double>(std::max(device.sm_count, 1));
    const StemTile shape = stem_tile(problem, tile);
    const std::int64_t blocks_n = ceil_div(problem.out_channels(), tile.n);
    const std::int64_t of_image = three(problem.y.dims, 2)[0] * shape.tiles_h * shape.tiles_w;
    const auto tiles = static_cast<double>(problem.batch() * of_image * blocks_n);
    const double rounds = tiles <= sms ? 1 : std::max(tiles / sms, 1.5);
    const double outputs = 1.0 * tile.m * tile.n, products = outputs * 16 * static_cast<double>(steps_of(problem));
    const double elements = static_cast<double>(shape.patch_pixels * problem.in_channels());
    const double of_tile = (tile.blocks == 1 ? kOneBlock : 1) *
                           (products / kProductsPerSecond + elements * kElementSeconds + outputs * kOutputSeconds);
    const double words = 8.0 * static_cast<double>(steps_of(problem)) * tile.n / (32 * tile.warps_m * tile.warps_n);
    return kLaunchSeconds + kBlockSeconds + kWordSeconds * words +
           std::max(rounds * of_tile, bytes_moved(problem) / (0.7 * cuda::memory_bytes_per_second(device)));
  }
};

}  // namespace

const ProductEngine& stem_engine() {
  static const ProductEngine& engine = *new StemEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
