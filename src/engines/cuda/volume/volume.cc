#include "engines/cuda/volume/volume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // elements of a plane, and blocks
constexpr std::int64_t kMostTaps = 5;                  // along the height and the width
constexpr std::int64_t kPlanes = 3;                    // of a filter
constexpr std::array<ProductTile, 3> kTiles = {{{128, 32, 8, 1, 2}, {256, 32, 16, 1, 1}, {64, 32, 4, 1, 3}}};
constexpr std::int64_t kRoom = 227 << 10;  // bytes of a multiprocessor's shared memory that blocks share
constexpr double kLaunchSeconds = 4e-6;
// Measured on an H200: products take as long as shared memory gives what they read, and a plane of a block takes these
// cycles beside, which other blocks of the multiprocessor fill in part.
constexpr double kProductCycles = 79, kPlaneCycles = 1100;
constexpr double kClock = 1.8e9;

// The kernel's parameter of sizes (kernels/volume.cu).
struct VolumeSizes {
  int channels, in[3], out[3], pad[3];
  int blocks_n, tiles_w, tiles_h, runs, run;
};

// What a tile is of a problem.
struct VolumeTile {
  std::int64_t groups_h, groups_w;  // warpgroups, of 8 x 8 pixels each
  std::int64_t filters_bytes, plane_bytes, stages, blocks;
};

std::int64_t bytes_of_tile(const VolumeTile& tile) { return tile.filters_bytes + tile.stages * tile.plane_bytes; }

VolumeTile volume_tile(const ConvProblem& problem, const ProductTile& tile) {
  VolumeTile made{};
  const auto taps = three(problem.w.dims, 2);
  const std::int64_t units = problem.in_channels() / 8, skew = 128 / units;
  made.groups_h = tile.m >= 256 ? 2 : 1;
  made.groups_w = tile.m / 64 / made.groups_h;
  const std::int64_t halo = (8 * made.groups_h + taps[1] - 1) * (8 * made.groups_w + taps[2] - 1);
  made.plane_bytes = units * ((16 * halo + 127 - skew) / 128 * 128 + skew);
  made.filters_bytes = taps[1] * taps[2] * units * 16 * kPlanes * tile.n;
  for (made.blocks = tile.blocks; made.blocks > 0; --made.blocks) {
    made.stages = std::min<std::int64_t>((kRoom / made.blocks - 1024 - made.filters_bytes) / made.plane_bytes, 4);
    if (made.stages >= 2) return made;
  }
  made.blocks = 1;
  made.stages = 2;  // too much: tiles() leaves it out
  return made;
}

// How the work is cut.
struct VolumeCut {
  std::int64_t tiles_h, tiles_w, blocks_n, runs, run;
  double planes;  // that a multiprocessor walks through, one block's after another's
};

// As many runs of planes as leave the least to do, where each begins and ends with planes of which only a part counts.
VolumeCut cut_of(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) {
  const auto out = three(problem.y.dims, 2);
  const VolumeTile shape = volume_tile(problem, tile);
  VolumeCut best{};
  best.tiles_h = ceil_div(out[1], 8 * shape.groups_h);
  best.tiles_w = ceil_div(out[2], 8 * shape.groups_w);
  best.blocks_n = ceil_div(problem.out_channels(), tile.n);
  best.planes = std::numeric_limits<double>::infinity();
  const std::int64_t columns = problem.batch() * best.tiles_h * best.tiles_w * best.blocks_n;
  const std::int64_t sms = std::max(device.sm_count, 1);
  for (std::int64_t runs = 1; runs <= out[0]; ++runs) {
    const std::int64_t run = ceil_div(out[0], runs);
    if (ceil_div(out[0], run) != runs) continue;
    const std::int64_t a_multiprocessors = ceil_div(columns * runs, sms);  // the busiest one's blocks
    const double planes = static_cast<double>(a_multiprocessors * (run + kPlanes - 1));
    if (planes < best.planes) {
      best.runs = runs;
      best.run = run;
      best.planes = planes;
    }
  }
  return best;
}

class VolumeEngine final : public ProductEngine {
 public:
  VolumeEngine()
      : ProductEngine(
            "cuda.volume",
            "volumes of 16, 32 or 64 channels, filters of three planes, on Hopper's tensor cores; f16, bf16; NDHWC",
            kTiles) {
    info_.passes = {Pass::fprop};
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
    info_.min_architecture = 90;
    info_.strided = false;
    info_.notes_vary = true;
  }

  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (problem.w.dims.size() != 5) {
      return Refusal{RefusalCode::spatial_dims, "w.dims=" + to_string(problem.w.dims) + ": this engine takes volumes"};
    }
    if (problem.w.dims[2] != kPlanes || problem.w.dims[3] > kMostTaps || problem.w.dims[4] > kMostTaps) {
      return Refusal{RefusalCode::filter, fmt::format("w.dims={}: this engine takes filters of {} x 1 to {} x 1 to {}",
                                                      to_string(problem.w.dims), kPlanes, kMostTaps, kMostTaps)};
    }
    const std::int64_t channels = problem.in_channels();
    if ((channels != 16 && channels != 32 && channels != 64) || problem.out_channels() % 8 != 0) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine takes 16, 32 or 64 channels to multiples of 8",
                                 to_string(problem.w.dims))};
    }
    if (channels * problem.x.dims[3] * problem.x.dims[4] > kMost || problem.y.elements() / 8 > kMost ||
        std::max(problem.x.dims[2], problem.y.dims[2]) > kMost) {
      return Refusal{RefusalCode::size, fmt::format("x.dims={}: this engine takes fewer", to_string(problem.x.dims))};
    }
    return std::nullopt;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const VolumeTile shape = volume_tile(problem, tile);
    const VolumeCut cut = cut_of(problem, tile, device);
    const auto taps = three(problem.w.dims, 2);
    Constants constants;
    constants.enumerations().element(problem.y.type);
    constants.set("IN_C", problem.in_channels()).set("TAPS_H", taps[1]).set("TAPS_W", taps[2]);
    constants.set("GROUPS_H", shape.groups_h).set("GROUPS_W", shape.groups_w);
    constants.set("STAGES", shape.stages).set("MIN_BLOCKS", shape.blocks);
    constants.epilogue(problem);
    const std::int64_t grid = problem.batch() * cut.runs * cut.tiles_h * cut.tiles_w * cut.blocks_n;
    if (target_sms > 0) constants.work_blocks(grid);

    VolumeSizes sizes{};
    sizes.channels = static_cast<int>(problem.out_channels());
    const auto in = three(problem.x.dims, 2), out = three(problem.y.dims, 2), pad = three(problem.pre_padding, 0, 0);
    for (std::size_t i = 0; i < 3; ++i) {
      sizes.in[i] = static_cast<int>(in[i]);
      sizes.out[i] = static_cast<int>(out[i]);
      sizes.pad[i] = static_cast<int>(pad[i]);
    }
    sizes.blocks_n = static_cast<int>(cut.blocks_n);
    sizes.tiles_w = static_cast<int>(cut.tiles_w);
    sizes.tiles_h = static_cast<int>(cut.tiles_h);
    sizes.runs = static_cast<int>(cut.runs);
    sizes.run = static_cast<int>(cut.run);
    KernelLaunch launch{{"volume.cu", constants.text(), device.architecture}, "volume", {}};
    launch.shape.grid.x = static_cast<unsigned>(grid);
    launch.shape.block.x = static_cast<unsigned>(32 * tile.warps_m * tile.warps_n);
    launch.shape.dynamic_shared_bytes = static_cast<int>(bytes_of_tile(shape));
    launch.shape.overlapped = true;
    return {{std::move(launch)}, 0, bytes_of(sizes)};
  }

 private:
  std::int64_t columns(const ConvProblem& problem) const override { return problem.out_channels(); }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    return bytes_of_tile(volume_tile(problem, tile));
  }

  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const VolumeTile shape = volume_tile(problem, tile);
    const auto taps = three(problem.w.dims, 2);
    const auto products =
        static_cast<double>(shape.groups_h * shape.groups_w * taps[1] * taps[2] * problem.in_channels()) / 16;
    const double beside = kPlaneCycles / static_cast<double>(std::min<std::int64_t>(shape.blocks, 2));
    const double plane = (kProductCycles * products + beside) / kClock;
    return kLaunchSeconds + std::max(cut_of(problem, tile, device).planes * plane,
                                     bytes_moved(problem) / (0.62 * memory_bytes_per_second(device)));
  }
};

}  // namespace

const ProductEngine& volume_engine() {
  static const ProductEngine& engine = *new VolumeEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
