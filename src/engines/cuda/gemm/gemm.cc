#include "engines/cuda/gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/pixel_stride.h"
#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // rows, columns, terms and tiles
// Rows, columns, warps along both, blocks of a multiprocessor: those of 220 configurations that lose least together on
// 36 layers (an H200).
constexpr std::array<ProductTile, 16> kTiles = {{{192, 64, 12, 1, 1},
                                                 {192, 96, 12, 1, 1},
                                                 {128, 32, 8, 1, 3},
                                                 {128, 80, 8, 1, 1},
                                                 {192, 128, 12, 1, 1},
                                                 {192, 144, 12, 1, 1},
                                                 {192, 192, 12, 1, 1},
                                                 {192, 112, 12, 1, 1},
                                                 {128, 192, 8, 1, 1},
                                                 {128, 96, 8, 1, 1},
                                                 {192, 160, 12, 1, 1},
                                                 {128, 64, 8, 1, 2},
                                                 {256, 128, 16, 1, 1},
                                                 {128, 16, 8, 1, 3},
                                                 {192, 48, 12, 1, 1},
                                                 {128, 128, 8, 1, 1}}};
constexpr std::int64_t kRoom = 228 << 10;  // bytes of a multiprocessor's shared memory that blocks share
constexpr std::int64_t kMostStages = 8, kMostBiasBytes = 16 << 10;
constexpr std::int64_t kLeastRows = 128;  // of a tile
constexpr std::int64_t kMostGates = 16;   // images whose gates lie beside a tile

// A block's start, its first copies and its last store, and what a step waits where no other tile fills it: with one
// image cuda.pointwise's small tiles are faster (an H200; MobileNetV2 took 0.229 ms where they take 0.188).
constexpr double kLeastSeconds = 3.4e-6, kStepSeconds = 0.15e-6;
// What a gate costs, and each step of it, by 12 layers on an H200. There the first is less than 1 us; but a separate
// product of few images takes 1 us less than is predicted, too, so that with 1 us here EfficientNet-B0 lost 7 of its
// 288 us with one image.
constexpr double kGateSeconds = 2e-6, kGateStepSeconds = 0.1e-6;

// out[m][n] = sum of in[m][k] * w[n][k]; of dgrad w[k][n], the columns n taps and channels.
struct GemmShape {
  std::int64_t m, n, k;
  bool scatters, gated;                      // dgrad; in is multiplied by a gate
  std::int64_t channels;                     // of out
  std::array<std::int64_t, 3> pixels, taps;  // of in, where gated an image as one row; of dgrad's filters; D, H, W
};

GemmShape gemm_shape(const ConvProblem& problem) {
  const bool scatters = problem.pass == Pass::dgrad;
  const std::int64_t channels = problem.out().dims[1];
  const auto taps = three(problem.w.dims, 2);
  auto pixels = three(problem.y.dims, 2);
  if (problem.gate) pixels = {1, 1, pixels[0] * pixels[1] * pixels[2]};
  return {problem.y.elements() / problem.out_channels(),
          channels * taps[0] * taps[1] * taps[2],
          scatters ? problem.out_channels() : problem.in_channels(),
          scatters,
          problem.gate,
          channels,
          pixels,
          taps};
}

// Neighbouring pixels of in that a box of dgrad's out has: none of them in another row.
std::int64_t box_pixels(const GemmShape& shape) { return shape.pixels[2] % 16 == 0 ? 16 : 8; }

std::int64_t depth_of(const GemmShape& shape) { return shape.k <= 16 ? 16 : shape.k <= 32 ? 32 : 64; }

// Images that rows one behind another belong to.
std::int64_t gates_of(const GemmShape& shape, std::int64_t rows) {
  return shape.gated ? (rows - 2) / shape.pixels[2] + 2 : 0;
}

// How a tile's work is cut, and what lies in shared memory (kernels/gemm.cu).
struct GemmCut {
  std::int64_t steps, blocks_m, blocks_n, grid;
  std::int64_t out_columns;  // of a box
  bool resident;             // w's rows stay
  std::int64_t stages, shared_bytes;
};

GemmCut cut_of(const GemmShape& shape, const ProductTile& tile, const CudaDevice& device, bool any_grid) {
  GemmCut cut{};
  const std::int64_t depth = depth_of(shape);
  cut.steps = ceil_div(shape.k, depth);
  cut.blocks_m = ceil_div(shape.m, tile.m);
  cut.blocks_n = ceil_div(shape.n, tile.n);
  const std::int64_t tiles = cut.blocks_m * cut.blocks_n;
  // A box may reach beyond the last column of out, but not into another tile's.
  cut.out_columns = tile.n % 64 == 0 || (cut.blocks_n == 1 && tile.n >= 48) ? 64 : tile.n % 32 == 0 ? 32 : 16;
  while (shape.scatters && shape.channels % cut.out_columns != 0) cut.out_columns /= 2;  // a box is of one tap
  const std::int64_t out = tile.m * round_up(tile.n, cut.out_columns) * 2;
  const auto fits = [&](bool resident) {
    const std::int64_t w = 2 * tile.n * depth, bias = 4 * tile.n * (resident ? 1 : cut.blocks_n);
    const std::int64_t gates = 2 * round_up(gates_of(shape, tile.m), 8) * depth;
    const std::int64_t stage = 2 * tile.m * depth + (resident ? 0 : w) + gates;
    // Beside them: barriers, three places that begin at 1,024 bytes, and what the driver keeps of each block.
    const std::int64_t beside = round_up(out, 1024) + (resident ? cut.steps * w : 0) + bias + 3 * 1024;
    cut.resident = resident;
    cut.stages = std::min((kRoom / tile.blocks - 1024 - beside) / stage, kMostStages);
    cut.shared_bytes = beside + std::max<std::int64_t>(cut.stages, 2) * stage;  // too much: tiles() leaves it out
    return cut.stages >= 3;
  };
  const std::int64_t most = std::int64_t{std::max(device.sm_count, 1)} * tile.blocks;
  if (any_grid || tiles < 2 * most || cut.blocks_n > most || !fits(true)) fits(false);
  cut.stages = std::max<std::int64_t>(cut.stages, 2);
  cut.grid = std::min(tiles, most);
  if (cut.resident) cut.grid -= cut.grid % cut.blocks_n;
  return cut;
}

// What the kernel's parameter of sizes is.
struct GemmSizes {
  int m, n, steps, blocks_n, tiles, stages;
  int channels, height, width, taps[3];
};

// Thousandths of a cycle that an output takes in the epilogue. Measured without activation, of GELU and of SiLU, for
// which more warps hide more; the others are what cuda.pointwise has for them (activation_seconds there), beside that.
double epilogue_of(const ConvProblem& problem, const ProductTile& tile) {
  const bool adds = problem.beta != 0 || problem.epilogue.gamma != 0;
  const auto of = [&] {
    switch (problem.epilogue.activation.kind) {
      case ActivationKind::gelu:
        return 130.0;
      case ActivationKind::sigmoid:
      case ActivationKind::swish:
        return tile.warps_m < 12 ? 130.0 : 107.0;
      case ActivationKind::gelu_tanh:
      case ActivationKind::mish:
        return 600.0;
      case ActivationKind::tanh:
      case ActivationKind::elu:
        return 300.0;
      default:
        return 90.0;
    }
  };
  return of() + (adds ? 20 : 0);
}

class GemmEngine final : public ProductEngine {
 public:
  GemmEngine()
      : ProductEngine(
            "cuda.gemm",
            "filters of 1x1, and dgrad with filters as large as their stride, on Hopper's tensor cores, tensors "
            "copied by its copy engine; f16, bf16; NHWC",
            kTiles) {
    info_.passes = {Pass::fprop, Pass::dgrad};
    info_.layouts = {{Layout::strided, Layout::strided}};
    info_.min_architecture = 90;
    info_.gate = true;
  }

  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (auto refusal = refuse_windows(problem)) return refusal;
    const GemmShape shape = gemm_shape(problem);
    const auto is_one = [](std::int64_t value) { return value == 1; };
    if (!shape.scatters && !std::ranges::all_of(problem.stride, is_one)) {
      return Refusal{RefusalCode::stride,
                     fmt::format("stride={}: this engine takes none in fprop", to_string(problem.stride))};
    }
    for (std::size_t i = 0; shape.scatters && i < problem.stride.size(); ++i) {
      const std::int64_t large = problem.y.dims[2 + i] * problem.stride[i];
      if (problem.x.dims[2 + i] == large) continue;
      return Refusal{RefusalCode::size, fmt::format("x.dims[{}]={}: this engine takes y's times the stride, {}", 2 + i,
                                                    problem.x.dims[2 + i], large)};
    }
    if (shape.scatters && (shape.channels % 16 != 0 || shape.pixels[2] % 8 != 0)) {
      return Refusal{
          RefusalCode::channels,
          fmt::format("x.dims={}, y.dims={}: this engine takes multiples of 16 channels of x, and of 8 pixels of "
                      "y's rows, in dgrad",
                      to_string(problem.x.dims), to_string(problem.y.dims))};
    }
    if (shape.k % 8 != 0 || shape.n % 8 != 0) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine takes multiples of 8 channels", to_string(problem.w.dims))};
    }
    if (gates_of(shape, kLeastRows) > kMostGates) {
      return Refusal{RefusalCode::size, fmt::format("gate=1, x.dims={}: this engine takes a gate of larger images",
                                                    to_string(problem.x.dims))};
    }
    if (auto refusal = refuse_placements(problem, 8)) return refusal;
    if (problem.beta != 0 && problem.epilogue.gamma != 0) {
      return Refusal{RefusalCode::epilogue, fmt::format("beta={} and gamma={}: this engine adds one of both tensors",
                                                        problem.beta, problem.epilogue.gamma)};
    }
    if (std::max({shape.m, shape.n, shape.k}) > kMost ||
        shape.m / 128 * std::max<std::int64_t>(shape.n / 16, 1) > kMost || 4 * shape.n > kMostBiasBytes) {
      return Refusal{RefusalCode::size,
                     fmt::format("{} pixels and {} channels: this engine takes fewer", shape.m, shape.n)};
    }
    return std::nullopt;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const GemmShape shape = gemm_shape(problem);
    const GemmCut cut = cut_of(shape, tile, device, target_sms > 0);
    const std::int64_t depth = depth_of(shape);
    Constants constants;
    constants.enumerations().element(problem.y.type);
    constants.define("TILE_N", tile.n).set("TILE_M", tile.m).set("TILE_K", depth).set("OUT_COLUMNS", cut.out_columns);
    constants.set("MIN_BLOCKS", tile.blocks).set("RESIDENT", cut.resident);
    constants.define("GATE_ROWS", gates_of(shape, tile.m));
    constants.set("SCATTERS", shape.scatters).set("BOX_PIXELS", shape.scatters ? box_pixels(shape) : 16);
    constants.epilogue(problem);

    KernelLaunch launch{{"gemm.cu", constants.text(), device.architecture}, "gemm", {}};
    launch.shape.grid.x = static_cast<unsigned>(cut.grid);
    launch.shape.block.x = static_cast<unsigned>(32 * (tile.warps_m + 1));
    launch.shape.dynamic_shared_bytes = static_cast<int>(cut.shared_bytes);
    launch.shape.overlapped = true;
    const GemmSizes sizes = {
        static_cast<int>(shape.m),
        static_cast<int>(shape.n),
        static_cast<int>(cut.steps),
        static_cast<int>(cut.blocks_n),
        static_cast<int>(cut.blocks_m * cut.blocks_n),
        static_cast<int>(cut.stages),
        static_cast<int>(shape.channels),
        static_cast<int>(shape.pixels[1]),
        static_cast<int>(shape.pixels[2]),
        {static_cast<int>(shape.taps[0]), static_cast<int>(shape.taps[1]), static_cast<int>(shape.taps[2])}};
    const DataType type = problem.y.type;
    const TensorDesc& in = shape.scatters ? problem.y : problem.x;
    const std::int64_t pixel = *pixel_stride(problem.out()), in_pixel = *pixel_stride(in);
    KernelBox w{KernelTensor::w, type, {shape.k, shape.n}, {shape.k}, {depth, tile.n}};
    if (shape.scatters) w.sizes = {shape.n, shape.k}, w.strides = {shape.n}, w.box = {64, depth};
    const auto out = [&](KernelTensor tensor) {
      if (!shape.scatters) return KernelBox{tensor, type, {shape.n, shape.m}, {pixel}, {cut.out_columns, 16}};
      // Channels, taps along the width, in's pixels of a row, out's rows.
      const std::int64_t taps = shape.taps[2], width = shape.pixels[2];
      const std::int64_t rows = shape.m / width * shape.taps[0] * shape.taps[1];
      return KernelBox{tensor,
                       type,
                       {shape.channels, taps, width, rows},
                       {pixel, taps * pixel, taps * width * pixel},
                       {cut.out_columns, 1, box_pixels(shape), 1}};
    };
    std::vector<KernelBox> boxes = {KernelBox{KernelTensor::in, type, {shape.k, shape.m}, {in_pixel}, {depth, tile.m}},
                                    w, out(KernelTensor::out),
                                    out(problem.epilogue.gamma != 0 ? KernelTensor::z : KernelTensor::out)};
    if (shape.gated) {
      boxes.push_back(
          {KernelTensor::gate, type, {shape.k, problem.batch()}, {shape.k}, {depth, gates_of(shape, tile.m)}});
    }
    return {{std::move(launch)}, 0, bytes_of(sizes), std::move(boxes)};
  }

 private:
  std::int64_t columns(const ConvProblem& problem) const override { return gemm_shape(problem).n; }
  // dgrad's filters come in boxes of 64 columns. Where it adds a tensor, the largest tile's registers don't suffice;
  // with a gate, whose products lie in registers, the three largest ones' don't.
  bool takes(const ConvProblem& problem, const ProductTile& tile) const override {
    if (problem.gate) return tile.m * tile.n < 192 * 160 && gates_of(gemm_shape(problem), tile.m) <= kMostGates;
    return problem.pass == Pass::fprop || (tile.n % 64 == 0 && tile.m * tile.n < 192 * 192);
  }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    // With as many multiprocessors as there are tiles: w's rows don't stay, which takes the least.
    return cut_of(gemm_shape(problem), tile, CudaDevice{}, true).shared_bytes;
  }

  // One tile, from its first copy to its end, and what a multiprocessor's tiles take after one another: the longest of
  // memory, the L2 cache, products and epilogue, and the others beside it. All fitted to the times of kTiles on 36
  // layers on an H200 (9% off, root mean square).
  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const GemmShape shape = gemm_shape(problem);
    const GemmCut cut = cut_of(shape, tile, device, false);
    const double sms = std::max(device.sm_count, 1), cycle = 1 / 1.755e9;
    const auto tiles = static_cast<double>(cut.blocks_m * cut.blocks_n), grid = static_cast<double>(cut.grid);
    const auto steps = static_cast<double>(cut.steps), depth = static_cast<double>(depth_of(shape));
    const double of_one = std::ceil(tiles / grid), blocks = std::max(1.0, std::ceil(grid / sms));
    const double outputs = 1.0 * tile.m * tile.n, epilogue = outputs * epilogue_of(problem, tile) / 1000 * cycle;
    const double instructions = tile.m / 64.0 * steps * depth / 16;
    const double reads = 2.0 * static_cast<double>(shape.k) * (tile.m + (cut.resident ? 0 : tile.n));
    const std::array<double, 4> parts = {
        bytes_moved(problem) / (3.1 * memory_bytes_per_second(device)), tiles * reads / 32.6e12,
        of_one * blocks * instructions * std::max(0.071 * tile.n, 29.0) * cycle, of_one * blocks * epilogue};
    double sum = 0;
    for (const double part : parts) sum += part;
    const double longest = *std::ranges::max_element(parts);
    const double least = kLeastSeconds + steps * kStepSeconds + bytes_moved(problem) / memory_bytes_per_second(device);
    const double gate = problem.gate ? kGateSeconds + of_one * steps * kGateStepSeconds : 0;
    return gate +
           std::max(0.3e-6 + instructions * 0.071 * tile.n * cycle + epilogue + longest + 1.5 * (sum - longest), least);
  }
};

}  // namespace

const ProductEngine& gemm_engine() {
  static const ProductEngine& engine = *new GemmEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
