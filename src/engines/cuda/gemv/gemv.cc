#include "engines/cuda/gemv/gemv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostRows = 4096, kMost = std::int64_t{1} << 30;
// Rows of out that a warp has, and warps, which have a column each.
constexpr std::array<ProductTile, 4> kTiles = {{{1, 4, 1, 4}, {2, 4, 1, 4}, {4, 4, 1, 4}, {8, 4, 1, 4}}};

// What an H200 took for the layers of EfficientNet-B0's squeeze-and-excitation, 1 to 128 images.
constexpr double kLaunchSeconds = 1.2e-6, kWaitSeconds = 0.46e-6, kRowSeconds = 0.3e-6, kCacheBytesPerSecond = 4e12;
constexpr double kInstructionsPerSecond = 1e9;  // of a multiprocessor, for all 32 lanes

// out[m][n] = sum of in[m][k] * w[n][k].
struct GemvShape {
  std::int64_t m, n, k;
  int vector;  // elements that a lane loads at once
};

GemvShape gemv_shape(const ConvProblem& problem) {
  GemvShape shape{problem.y.elements() / problem.out_channels(), problem.out_channels(), problem.in_channels(), 0};
  const auto bytes = static_cast<std::int64_t>(size_of(problem.y.type));
  shape.vector = static_cast<int>(16 / bytes);
  const auto fits = [&](std::int64_t alignment) { return alignment % (shape.vector * bytes) == 0; };
  while (shape.k % shape.vector != 0 || !fits(problem.x.alignment) || !fits(problem.w.alignment)) shape.vector /= 2;
  return shape;
}

// Vectors of k that a lane loads together.
int at_once(const ProductTile& tile) { return tile.m == 1 ? 8 : tile.m == 2 ? 6 : tile.m == 4 ? 4 : 2; }

// The kernel's parameter of sizes.
struct GemvSizes {
  int m, n, k, blocks_n;
};

class GemvEngine final : public ProductEngine {
 public:
  GemvEngine()
      : ProductEngine("cuda.gemv", "filters of 1x1 on few pixels, a warp a channel of out; f32, f16, bf16; NHWC",
                      kTiles) {
    info_.passes = {Pass::fprop};
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
    info_.types.push_back({DataType::f32, DataType::f32, DataType::f32, DataType::f32});
    info_.strided = false;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const GemvShape shape = gemv_shape(problem);
    const std::int64_t blocks_n = ceil_div(shape.n, tile.n), grid = ceil_div(shape.m, tile.m) * blocks_n;
    Constants constants;
    constants.enumerations().element(problem.y.type);
    constants.set("ROWS", tile.m).set("COLUMNS", tile.n).set("VECTOR", shape.vector).set("AT_ONCE", at_once(tile));
    constants.epilogue(problem);
    if (target_sms > 0) constants.work_blocks(grid);
    KernelLaunch launch{{"gemv.cu", constants.text(), device.architecture}, "gemv", {}};
    launch.shape.grid.x = static_cast<unsigned>(grid);
    launch.shape.block.x = static_cast<unsigned>(32 * tile.n);
    launch.shape.overlapped = device.architecture >= 90;
    const GemvSizes sizes = {static_cast<int>(shape.m), static_cast<int>(shape.n), static_cast<int>(shape.k),
                             static_cast<int>(blocks_n)};
    return {{std::move(launch)}, 0, bytes_of(sizes)};
  }

 private:
  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (auto refusal = refuse_windows(problem)) return refusal;
    const GemvShape shape = gemv_shape(problem);
    if (shape.m > kMostRows || std::max(shape.n, shape.k) > kMost || shape.m * ceil_div(shape.n, 4) > kMost) {
      return Refusal{RefusalCode::size,
                     fmt::format("{} pixels and {} channels: this engine takes fewer", shape.m, shape.n)};
    }
    return std::nullopt;
  }

  std::int64_t columns(const ConvProblem& problem) const override { return problem.out_channels(); }
  std::int64_t shared_bytes(const ConvProblem&, const ProductTile&) const override { return 0; }

  // A lane's waits for memory, one after another, or what all of them load from the L2 cache or multiply.
  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const GemvShape shape = gemv_shape(problem);
    const auto warps = static_cast<double>(ceil_div(shape.m, tile.m) * shape.n), k = static_cast<double>(shape.k);
    const auto waits = static_cast<double>(ceil_div(shape.k, std::int64_t{32} * shape.vector * at_once(tile)));
    const double loaded = warps * k * (tile.m + 1) * static_cast<double>(size_of(problem.y.type));
    const double instructions = warps * (k / 32 * (2 * tile.m + 1) + 12 * tile.m + 20);
    const double sms = std::max(device.sm_count, 1);
    return kLaunchSeconds + kRowSeconds * (tile.m - 1) +
           std::max({kWaitSeconds * waits, loaded / kCacheBytesPerSecond, instructions / (sms * kInstructionsPerSecond),
                     bytes_moved(problem) / (0.62 * memory_bytes_per_second(device))});
  }
};

}  // namespace

const ProductEngine& gemv_engine() {
  static const ProductEngine& engine = *new GemvEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
