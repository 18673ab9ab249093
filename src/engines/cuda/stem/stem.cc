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
constexpr std::array<ProductTile, 6> kTiles = {
    {{128, 64, 4, 2}, {128, 32, 4, 1}, {128, 16, 4, 1}, {64, 64, 2, 2}, {64, 32, 4, 1}, {32, 32, 2, 1}}};
constexpr std::int64_t kPad = 16;  // bytes behind a row in shared memory
constexpr double kLaunchSeconds = 2e-6;
// What a multiprocessor takes for a pixel: for each term that it gathers, and for each channel of the tile. Measured on
// an H100, where tiles of 128 pixels of few terms took 1.3 times as long as of 64.
constexpr double kTermSeconds = 0.137e-9, kChannelSeconds = 0.353e-9, kFewTerms = 64, kTall = 1.3;
constexpr double kBlockSeconds = 2e-6;  // until a block has its filters and its first windows

// The kernel's parameter of sizes (kernels/stem.cu).
struct StemSizes {
  long long x_strides[4];
  int m, n, tiles_m, blocks_n, splits;
  int pixels[3], in[3], stride[3], pad[3];
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

std::int64_t depth_of(const ConvProblem& problem) { return 16 * ceil_div(stem_terms(problem), 16); }

// Without the rows of pixels, which are no dynamic memory.
std::int64_t dynamic_bytes(const ConvProblem& problem, const ProductTile& tile) {
  const std::int64_t pitch = 2 * depth_of(problem) + kPad;
  const std::int64_t slabs = std::int64_t{64} * tile.warps_m * (tile.n + 8 * tile.warps_n);
  return std::max(tile.m * pitch, slabs) + tile.n * pitch;
}

std::int64_t rows_bytes(const ProductTile& tile) { return std::int64_t{24} * tile.m; }

// Blocks that a multiprocessor runs at once, as far as shared memory and threads say.
std::int64_t resident(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) {
  const std::int64_t by_memory = device.shared_bytes_per_sm / (dynamic_bytes(problem, tile) + rows_bytes(tile) + 1024);
  return std::clamp<std::int64_t>(std::min<std::int64_t>(by_memory, 1024 / (32 * tile.warps_m * tile.warps_n)), 1, 8);
}

class StemEngine final : public ProductEngine {
 public:
  static const ProductEngine& made() { return one_of_all(*new StemEngine); }
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
      span += problem.dilation[i] * (problem.w.dims[2 + i] - 1) * problem.x.strides[2 + i];
    }
    if (span > kMost) {
      return Refusal{RefusalCode::size,
                     fmt::format("x: a window spans {} elements, this engine takes {}", span, kMost)};
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
    Constants constants;
    constants.enumerations().element(problem.y.type);
    constants.set("TILE_M", tile.m).set("TILE_N", tile.n).set("DEPTH", depth_of(problem));
    constants.set("WARPS_M", tile.warps_m).set("WARPS_N", tile.warps_n);
    int vector = 8;
    while (vector > 1 && (channels % vector != 0 || problem.y.alignment % (2 * vector) != 0)) vector /= 2;
    constants.set("OUT_VECTOR", vector).set("IN_C", problem.in_channels()).set("IN_STRIDE_C", x.strides[1]);
    const auto taps = three(problem.w.dims, 2), dilation = three(problem.dilation, 0);
    const char* const names[] = {"D", "H", "W"};
    for (std::size_t i = 0; i < 3; ++i) {
      constants.set(std::string("TAPS_") + names[i], taps[i]).set(std::string("DILATION_") + names[i], dilation[i]);
    }
    constants.epilogue(problem);

    StemSizes sizes{};
    const auto strides = three(x.strides, 2, 0);
    sizes.x_strides[0] = x.strides[0];
    std::copy(strides.begin(), strides.end(), sizes.x_strides + 1);
    sizes.m = static_cast<int>(stem_pixels(problem));
    sizes.n = static_cast<int>(channels);
    sizes.tiles_m = static_cast<int>(ceil_div(stem_pixels(problem), tile.m));
    sizes.blocks_n = static_cast<int>(ceil_div(channels, tile.n));
    const std::int64_t places = std::max(device.sm_count, 1) * resident(problem, tile, device);
    sizes.splits = static_cast<int>(std::clamp<std::int64_t>(places / sizes.blocks_n, 1, sizes.tiles_m));
    copy(three(problem.y.dims, 2), sizes.pixels);
    copy(three(x.dims, 2), sizes.in);
    copy(three(problem.stride, 0), sizes.stride);
    copy(three(problem.pre_padding, 0, 0), sizes.pad);
    const std::int64_t grid = std::int64_t{sizes.splits} * sizes.blocks_n;
    if (target_sms > 0) constants.work_blocks(grid);
    KernelLaunch launch{{"stem.cu", constants.text(), device.architecture}, "stem", {}};
    launch.shape.grid.x = static_cast<unsigned>(grid);
    launch.shape.block.x = static_cast<unsigned>(32 * tile.warps_m * tile.warps_n);
    launch.shape.dynamic_shared_bytes = static_cast<int>(dynamic_bytes(problem, tile));
    launch.shape.overlapped = device.architecture >= 90;
    return {{std::move(launch)}, 0, bytes_of(sizes)};
  }

 private:
  std::int64_t columns(const ConvProblem& problem) const override { return problem.out_channels(); }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    return dynamic_bytes(problem, tile) + rows_bytes(tile);
  }

  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const auto sms = static_cast<double>(std::max(device.sm_count, 1));
    const std::int64_t blocks_n = ceil_div(problem.out_channels(), tile.n);
    const auto tiles = static_cast<double>(ceil_div(stem_pixels(problem), tile.m) * blocks_n);
    const double rounds = tiles <= sms ? 1 : std::max(tiles / sms, 1.5);
    const auto depth = static_cast<double>(depth_of(problem));
    const double tall = tile.m > 64 && depth <= kFewTerms ? kTall : 1;
    const double gather = rounds * tall * tile.m * (kTermSeconds * depth + kChannelSeconds * tile.n);
    return kLaunchSeconds + kBlockSeconds +
           std::max(gather, bytes_moved(problem) / (0.7 * cuda::memory_bytes_per_second(device)));
  }
};

}  // namespace

const ProductEngine& stem_engine() {
  static const ProductEngine& engine = StemEngine::made();  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
