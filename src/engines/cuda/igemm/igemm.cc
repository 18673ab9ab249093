#include "engines/cuda/igemm/igemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostTiles = 65535;  // along the pixels and along the channels
constexpr std::int64_t kMostSlices = 1 << 17;
constexpr std::int64_t kMostBytes = 224 << 10;   // of shared memory, where a multiprocessor has one block
constexpr std::int64_t kBytesOfTwo = 112 << 10;  // where it has two
constexpr std::int64_t kBarrierBytes = 2 << 10;

constexpr auto kTiles = [] {
  constexpr std::array<ProductTile, 3> kShapes = {{{64, 32, 4, 1}, {64, 64, 4, 1}, {128, 64, 8, 1}}};
  std::array<ProductTile, 4 * kShapes.size()> tiles = {};
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    tiles[i] = kShapes[i % kShapes.size()];
    tiles[i].splits = 1 << i / kShapes.size();
  }
  return tiles;
}();

// What the copy engine takes of windows in 1, 2 and 3 dims: how far taps lie from the first, and how far the places of
// first pixels from an edge; and their distance.
constexpr std::array<std::int64_t, 3> kMostReach = {65535, 255, 31}, kMostPadding = {32767, 127, 15};
constexpr std::int64_t kMostStride = 8;

// The kernel's parameter of sizes (kernels/igemm.cu).
struct IgemmSizes {
  int m, n, slices, slices_of_tap, steps, tiles, blocks_n, splits, log_rows, stages;
  int taps[3], pixels[3], stride[3], dilation[3], pad[3];
};

// out[m][n] = sum of window[m][term] * w[n][term].
struct IgemmShape {
  std::int64_t m, n, c, taps;
  bool windows;                       // else a row of x is a window
  std::int64_t slice, slices_of_tap;  // terms that are copied together
};
IgemmShape igemm_shape(const ConvProblem& problem) {
  IgemmShape shape{problem.y.elements() / problem.out_channels(),
                   problem.out_channels(),
                   problem.in_channels(),
                   problem.w.elements() / problem.w.dims[0] / problem.in_channels(),
                   refuse_windows(problem).has_value(),
                   problem.in_channels() <= 16   ? 16
                   : problem.in_channels() <= 32 ? 32
                                                 : 64,
                   0};
  shape.windows |= std::ranges::any_of(problem.stride, [](std::int64_t stride) { return stride != 1; });
  shape.slices_of_tap = ceil_div(shape.c, shape.slice);
  return shape;
}

// How a tile's work is cut, and what lies in shared memory.
struct IgemmCut {
  std::int64_t steps, grid, stages, shared_bytes;
};
IgemmCut cut_of(const IgemmShape& shape, const ProductTile& tile, const CudaDevice& device) {
  IgemmCut cut{};
  cut.steps = ceil_div(shape.taps * shape.slices_of_tap, tile.splits);
  cut.grid = ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n) * tile.splits;
  // Clusters need multiprocessors of one group, which may have an odd block left.
  const bool alone = cut.grid <= (tile.splits == 1 ? device.sm_count : device.sm_count / 2);
  // A block with all terms of a tile stores sums from registers, but where channels are no eights.
  const std::int64_t sums = tile.splits == 1 && shape.n % 8 == 0 ? 0 : std::int64_t{4} * tile.m * (tile.n + 8);
  const std::int64_t beside = kBarrierBytes + sums;
  const std::int64_t stage = 2 * shape.slice * (tile.m + tile.n);
  cut.stages = std::min(cut.steps, ((alone ? kMostBytes : kBytesOfTwo) - beside) / stage);
  cut.shared_bytes = beside + cut.stages * stage;
  return cut;
}

// What an H200 took for layers of one image, each behind another kernel that lets it start early: a launch, a step of
// the ring for each 96 rows of both operands, a round of blocks, 2048 outputs that a block finishes, what memory brings
// beside, and what a cluster's blocks wait for one another: fitted to 41 layers of ResNet-50 and MobileNetV2, 11% off
// in the mean square.
constexpr double kLaunchSeconds = 1.2e-6, kStepSeconds = 0.23e-6, kWindowsStepSeconds = 0.22e-6, kGridSeconds = 0.8e-6,
                 kOutputsSeconds = 0.06e-6, kMemoryShare = 0.5, kClusterSeconds = 1.1e-6, kManyBlocksSeconds = 0.9e-6;
// Where a multiprocessor has more than the two blocks that it runs at once they share its loads: 3x3 of 1024 to 512
// channels of 8x64x64 takes 0.86 ms, 3x3x3 of 128 to 64 of 4x48x48x48 0.56.
constexpr double kFullRounds = 1.65;

void copy(const std::array<std::int64_t, 3>& from, int (&to)[3]) {
  for (std::size_t i = 0; i < 3; ++i) to[i] = static_cast<int>(from[i]);
}

class IgemmEngine final : public ProductEngine {
 public:
  IgemmEngine()
      : ProductEngine(
            "cuda.igemm",
            "few pixels, implicit products on Hopper's tensor cores whose terms blocks share; f16, bf16; NHWC",
            kTiles) {
    info_.passes = {Pass::fprop};
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
    info_.min_architecture = 90;
    info_.dilated = true;
    info_.notes_vary = true;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const IgemmShape shape = igemm_shape(problem);
    const IgemmCut cut = cut_of(shape, tile, device);
    int vector = 8;
    while (vector > 1 && (shape.n % vector != 0 || problem.y.alignment % (2 * vector) != 0)) vector /= 2;
    Constants constants;
    constants.enumerations().element(problem.y.type);
    constants.define("TILE_N", tile.n).set("TILE_M", tile.m).set("SLICE", shape.slice).set("OUT_VECTOR", vector);
    constants.set("WINDOWS", shape.windows).set("SPATIAL", problem.spatial_dims()).set("ANY_GRID", target_sms > 0);
    constants.set("SHARED_TERMS", tile.splits > 1);
    constants.epilogue(problem);

    IgemmSizes sizes{};
    sizes.m = static_cast<int>(shape.m);
    sizes.n = static_cast<int>(shape.n);
    sizes.slices = static_cast<int>(shape.taps * shape.slices_of_tap);
    sizes.slices_of_tap = static_cast<int>(shape.slices_of_tap);
    sizes.steps = static_cast<int>(cut.steps);
    sizes.tiles = static_cast<int>(cut.grid / tile.splits);
    sizes.blocks_n = static_cast<int>(ceil_div(shape.n, tile.n));
    sizes.splits = tile.splits;
    sizes.log_rows = std::countr_zero(static_cast<unsigned>(tile.m / tile.splits));
    sizes.stages = static_cast<int>(cut.stages);
    copy(three(problem.w.dims, 2), sizes.taps);
    copy(three(problem.y.dims, 2), sizes.pixels);
    copy(three(problem.stride, 0), sizes.stride);
    copy(three(problem.dilation, 0), sizes.dilation);
    copy(three(problem.pre_padding, 0, 0), sizes.pad);

    KernelLaunch launch{{"igemm.cu", constants.text(), device.architecture}, "igemm", {}};
    launch.shape.grid.x = static_cast<unsigned>(target_sms > 0 ? cut.grid : tile.splits);
    if (target_sms == 0) {
      launch.shape.grid.y = static_cast<unsigned>(sizes.blocks_n);
      launch.shape.grid.z = static_cast<unsigned>(sizes.tiles / sizes.blocks_n);
    }
    launch.shape.block.x = static_cast<unsigned>(32 * (tile.warps_m + 1));
    launch.shape.cluster.x = static_cast<unsigned>(tile.splits);
    launch.shape.dynamic_shared_bytes = static_cast<int>(cut.shared_bytes);
    launch.shape.overlapped = true;
    const KernelBox w{KernelTensor::w,
                      problem.w.type,
                      {shape.c, shape.taps, shape.n},
                      {shape.c, shape.taps * shape.c},
                      {shape.slice, 1, tile.n}};
    return {{std::move(launch)}, 0, bytes_of(sizes), {windows_of(problem, shape, tile), w}};
  }

 private:
  static KernelBox windows_of(const ConvProblem& problem, const IgemmShape& shape, const ProductTile& tile) {
    KernelBox box{KernelTensor::in, problem.x.type, {shape.c}, {}, {shape.slice, tile.m}};
    if (!shape.windows) {
      box.sizes.push_back(shape.m);
      box.strides.push_back(shape.c);
      return box;
    }
    KernelBox::Windows windows;
    std::int64_t pixel = shape.c;
    for (std::size_t i = problem.stride.size(); i-- > 0;) {
      const std::int64_t size = problem.x.dims[2 + i], stride = problem.stride[i], pad = problem.pre_padding[i];
      box.sizes.push_back(size);
      box.strides.push_back(pixel);
      windows.stride.push_back(stride);
      windows.lower.push_back(-pad);
      windows.upper.push_back((problem.y.dims[2 + i] - 1) * stride - pad + 1 - size);
      pixel *= size;
    }
    box.sizes.push_back(problem.batch());
    box.strides.push_back(pixel);
    box.windows = std::move(windows);
    return box;
  }

  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (problem.in_channels() % 8 != 0) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine copies channels eight at a time", to_string(problem.w.dims))};
    }
    const IgemmShape shape = igemm_shape(problem);
    const std::size_t kind = problem.stride.size() - 1;
    for (std::size_t i = 0; shape.windows && i <= kind; ++i) {
      const std::int64_t reach = problem.dilation[i] * (problem.w.dims[2 + i] - 1), stride = problem.stride[i],
                         before = problem.pre_padding[i],
                         behind = (problem.y.dims[2 + i] - 1) * stride - before + 1 - problem.x.dims[2 + i];
      if (reach > kMostReach[kind] || stride > kMostStride || before > kMostPadding[kind] ||
          behind > kMostPadding[kind] || behind < -kMostPadding[kind] - 1) {
        return Refusal{RefusalCode::filter,
                       fmt::format("w.dims={}, pad={}, stride={}, dilation={}: the copy engine takes smaller windows",
                                   to_string(problem.w.dims), to_string(problem.pre_padding), to_string(problem.stride),
                                   to_string(problem.dilation))};
      }
    }
    if (ceil_div(shape.m, 64) <= kMostTiles && ceil_div(shape.n, 32) <= kMostTiles &&
        shape.taps * shape.slices_of_tap < kMostSlices) {
      return std::nullopt;
    }
    return Refusal{RefusalCode::size, fmt::format("x.dims={}, w.dims={}: this engine takes fewer pixels and terms",
                                                  to_string(problem.x.dims), to_string(problem.w.dims))};
  }

  std::int64_t columns(const ConvProblem& problem) const override { return problem.out_channels(); }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    return cut_of(igemm_shape(problem), tile, {}).shared_bytes;
  }

  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const IgemmShape shape = igemm_shape(problem);
    const IgemmCut cut = cut_of(shape, tile, device);
    const double sms = std::max(device.sm_count, 1), grid = static_cast<double>(cut.grid);
    const double step = (shape.windows ? kWindowsStepSeconds : kStepSeconds) * (tile.m + tile.n) / 96 *
                        static_cast<double>(shape.slice) / 64;
    const double places = 2 * sms, rounds = grid <= places ? 1 : kFullRounds * grid / places;
    const double outputs = tile.m * tile.n / 2048.0;
    const double clusters =
        kClusterSeconds * (outputs > 1 ? outputs + 1 : outputs) + (grid > 0.75 * sms ? kManyBlocksSeconds : 0);
    return kLaunchSeconds + rounds * step * static_cast<double>(cut.steps) + kGridSeconds * grid / sms +
           kOutputsSeconds * outputs / tile.splits + (tile.splits > 1 ? clusters : 0) +
           kMemoryShare * bytes_moved(problem) / memory_bytes_per_second(device);
  }
};

}  // namespace

const ProductEngine& igemm_engine() {
  static const ProductEngine& engine = *new IgemmEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
