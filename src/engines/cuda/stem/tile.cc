#include "engines/cuda/stem/tile.h"

#include <algorithm>
#include <array>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::array<StemTile, 6> kTiles = {
    {{128, 64, 4, 2}, {128, 32, 4, 1}, {128, 16, 4, 1}, {64, 64, 2, 2}, {64, 32, 4, 1}, {32, 32, 2, 1}}};
constexpr std::int64_t kPad = 16;  // bytes behind a row in shared memory
constexpr double kLaunchSeconds = 2e-6;
// What a multiprocessor takes for a pixel: for each term that it gathers, and for each channel of the tile. Measured on
// an H100, where tiles of 128 pixels of few terms took 1.3 times as long as of 64.
constexpr double kTermSeconds = 0.137e-9, kChannelSeconds = 0.353e-9, kFewTerms = 64, kTall = 1.3;
constexpr double kBlockSeconds = 2e-6;  // until a block has its filters and its first windows

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t depth_of(const ConvProblem& problem) { return 16 * ceil_div(stem_terms(problem), 16); }

std::int64_t shared_bytes(const ConvProblem& problem, const StemTile& tile) {
  const std::int64_t pitch = 2 * depth_of(problem) + kPad;
  const std::int64_t slabs = std::int64_t{64} * tile.warps_m * (tile.n + 8 * tile.warps_n);
  return std::max(tile.m * pitch, slabs) + tile.n * pitch;
}

// Blocks that a multiprocessor runs at once, as far as shared memory and threads say.
std::int64_t resident(const ConvProblem& problem, const StemTile& tile, const CudaDevice& device) {
  const std::int64_t rows_bytes = std::int64_t{24} * tile.m;
  const std::int64_t by_memory = device.shared_bytes_per_sm / (shared_bytes(problem, tile) + rows_bytes + 1024);
  return std::clamp<std::int64_t>(std::min<std::int64_t>(by_memory, 1024 / (32 * tile.warps_m * tile.warps_n)), 1, 8);
}

// D, H, W; what isn't there is `fill`.
std::array<std::int64_t, 3> three(const Dims& dims, std::size_t from, std::int64_t fill = 1) {
  std::array<std::int64_t, 3> made{fill, fill, fill};
  const std::size_t count = dims.size() - from;
  for (std::size_t i = 0; i < count; ++i) made[3 - count + i] = dims[from + i];
  return made;
}

void copy(const std::array<std::int64_t, 3>& from, int (&to)[3]) {
  for (std::size_t i = 0; i < 3; ++i) to[i] = static_cast<int>(from[i]);
}

}  // namespace

std::int64_t stem_terms(const ConvProblem& problem) {
  const auto taps = three(problem.w.dims, 2);
  return problem.in_channels() * taps[0] * taps[1] * taps[2];
}

std::int64_t stem_pixels(const ConvProblem& problem) {
  const auto pixels = three(problem.y.dims, 2);
  return problem.batch() * pixels[0] * pixels[1] * pixels[2];
}

double predicted_seconds(const ConvProblem& problem, const StemTile& tile, const CudaDevice& device) {
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

std::vector<StemTile> stem_tiles(const ConvProblem& problem, const CudaDevice& device) {
  std::vector<StemTile> tiles;
  for (const StemTile& tile : kTiles) {
    const bool fits = shared_bytes(problem, tile) + 24 * tile.m <= device.shared_bytes_per_block;
    const bool wasted = tile.n > 32 && tile.n >= 2 * problem.out_channels();
    if (fits && !wasted) tiles.push_back(tile);
  }
  std::stable_sort(tiles.begin(), tiles.end(), [&](const StemTile& a, const StemTile& b) {
    return predicted_seconds(problem, a, device) < predicted_seconds(problem, b, device);
  });
  return tiles;
}

KnobValues configuration_of(const StemTile& tile) { return {{"columns", tile.n}, {"rows", tile.m}}; }

StemTile stem_tile_of(const KnobValues& values) {
  const std::int64_t n = knob_or(values, "columns", 0), m = knob_or(values, "rows", 0);
  return *std::find_if(kTiles.begin(), kTiles.end(), [&](const StemTile& tile) { return tile.m == m && tile.n == n; });
}

StemLaunch stem_launch(const ConvProblem& problem, const StemTile& tile, const CudaDevice& device, int target_sms) {
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

  StemLaunch launch{{"stem.cu", {}, device.architecture}, {}, {}};
  StemSizes& sizes = launch.sizes;
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
  launch.request.constants = constants.text();
  launch.shape.grid.x = static_cast<unsigned>(grid);
  launch.shape.block.x = static_cast<unsigned>(32 * tile.warps_m * tile.warps_n);
  launch.shape.dynamic_shared_bytes = static_cast<int>(shared_bytes(problem, tile));
  launch.shape.overlapped = device.architecture >= 90;
  return launch;
}

}  // namespace convoy::cuda
