#include "engines/cuda/direct/direct.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 29;  // pixels along a dim, and of a window; their sums are ints
constexpr std::int64_t kMostThreads = std::numeric_limits<std::int32_t>::max() - 128;
constexpr std::int64_t kMostChannels = 16;     // of x
constexpr std::int64_t kMostOutChannels = 64;  // more are a product for other engines
constexpr std::int64_t kMostTaps = 7;          // along a dim
constexpr int kThreads = 128;
constexpr int kColumns = 4;  // of a thread
// A block's pixels, a multiple of what its threads have in one row; and its channels.
constexpr std::array<ProductTile, 5> kTiles = {
    {{512, 4, 4, 1}, {1024, 4, 4, 1}, {512, 8, 4, 1}, {1024, 8, 4, 1}, {512, 16, 4, 1}}};
constexpr double kLaunchSeconds = 4e-6;
constexpr double kClock = 1.98e9;
// Fitted to 100 kernels on an H200: a thread's beginning and end on a multiprocessor; the share of the multiply-adds'
// rate that all instructions reach, and those beside a row's multiply-adds, loads for the most part: of one row of out,
// of each of several, and where columns are loaded one by one; what the first block of a multiprocessor reaches by
// itself, and each other one adds.
constexpr double kThreadSeconds = 2.6e-9, kShare = 0.7, kMostShare = 0.56;
constexpr double kBeside = 32, kBesideOfRows = 20, kBesideOfColumns = 3;
constexpr double kFirstBlock = 0.4, kOtherBlocks = 0.2;
constexpr double kShareOfMemory = 0.85;

// The kernel's parameter of sizes (kernels/direct.cu).
struct DirectSizes {
  long long x_strides[4], y_strides[4], w_strides[5];
  int in_channels, out_channels;
  int in[3], out[3];
  int groups_h, groups_w, blocks_n;
  unsigned threads;
};

// What a tile is of a problem.
struct DirectTile {
  std::int64_t rows, channels;  // of a thread
  std::int64_t groups_h, groups_w, blocks_n;
  std::int64_t threads;  // with something to compute, of a block of channels
  std::int64_t shared_bytes;
};

DirectTile direct_tile(const ConvProblem& problem, const ProductTile& tile) {
  const auto taps = three(problem.w.dims, 2), out = three(problem.y.dims, 2);
  DirectTile made{};
  made.rows = tile.m / (kThreads * kColumns);
  made.blocks_n = ceil_div(problem.out_channels(), tile.n);
  made.channels = ceil_div(problem.out_channels(), made.blocks_n);
  made.groups_w = ceil_div(out[2], kColumns);
  const std::int64_t apart = made.rows > 1 ? three(problem.dilation, 0)[1] : 1;
  made.groups_h = ceil_div(out[1], apart * made.rows) * apart;
  made.threads = problem.batch() * out[0] * made.groups_h * made.groups_w;
  made.shared_bytes = 4 * problem.in_channels() * taps[0] * taps[1] * round_up(taps[2] * made.channels, 4);
  return made;
}

// Blocks that a multiprocessor has the registers for, without spilling any.
int blocks_of(const DirectTile& tile, bool vectorized) {
  if (tile.rows == 1) return tile.channels <= 5 ? 5 : 3;
  return tile.channels <= 5 ? 4 : vectorized ? 3 : 2;
}

// Whether all rows are wholes of four pixels that lie where four elements move at once.
bool is_vectorized(const ConvProblem& problem) {
  const auto whole = [](const TensorDesc& desc) {
    for (std::size_t i = 0; i + 1 < desc.dims.size(); ++i) {
      if (desc.dims[i] > 1 && desc.strides[i] % kColumns != 0) return false;
    }
    return desc.dims.back() % kColumns == 0 && desc.alignment % (kColumns * size_of(desc.type)) == 0;
  };
  return whole(problem.x) && whole(problem.y);
}

class DirectEngine final : public ProductEngine {
 public:
  DirectEngine()
      : ProductEngine("cuda.direct", "few channels, multiply-adds in f32 on planes; f32, f16, bf16; NCHW", kTiles) {
    info_.types.push_back({DataType::f32, DataType::f32, DataType::f32, DataType::f32});
    info_.passes = {Pass::fprop};
    info_.any_layouts = true;
    info_.dilated = true;
    any_filters_ = true;
  }

  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (problem.in_channels() > kMostChannels || problem.out_channels() > kMostOutChannels) {
      return Refusal{RefusalCode::channels, fmt::format("w.dims={}: this engine takes at most {} channels to {}",
                                                        to_string(problem.w.dims), kMostChannels, kMostOutChannels)};
    }
    if (std::any_of(problem.w.dims.begin() + 2, problem.w.dims.end(), [](auto taps) { return taps > kMostTaps; })) {
      return Refusal{RefusalCode::filter, fmt::format("w.dims={}: this engine takes at most {} taps along a dim",
                                                      to_string(problem.w.dims), kMostTaps)};
    }
    if (problem.w.channel_block > 1) return Refusal{RefusalCode::layout, "w: this engine takes no blocks of channels"};
    for (const auto& [name, desc] : {std::pair("x", &problem.x), std::pair("y", &problem.y)}) {
      if (desc->channel_block > 1 || (desc->dims.back() > 1 && desc->strides.back() != 1)) {
        return Refusal{RefusalCode::layout,
                       fmt::format("{}: this engine takes planes, a row's pixels side by side", name)};
      }
    }
    for (std::size_t i = 0; i < problem.dilation.size(); ++i) {
      if (std::max({problem.x.dims[2 + i], problem.pre_padding[i], problem.stride[i] * problem.y.dims[2 + i],
                    problem.dilation[i] * problem.w.dims[2 + i]}) > kMost) {
        return Refusal{RefusalCode::size, fmt::format("x.dims={}: this engine takes at most {} pixels along a dim",
                                                      to_string(problem.x.dims), kMost)};
      }
    }
    if (direct_tile(problem, kTiles[0]).threads > kMostThreads) {
      return Refusal{RefusalCode::size, fmt::format("y.dims={}: this engine takes at most {} pixels",
                                                    to_string(problem.y.dims), kColumns * kMostThreads)};
    }
    return std::nullopt;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const DirectTile shape = direct_tile(problem, tile);
    const auto taps = three(problem.w.dims, 2), stride = three(problem.stride, 0),
               dilation = three(problem.dilation, 0), pad = three(problem.pre_padding, 0, 0);
    Constants constants;
    constants.enumerations().element(problem.y.type);
    const bool vectorized = is_vectorized(problem);
    constants.set("THREADS", kThreads).set("MIN_BLOCKS", blocks_of(shape, vectorized));
    constants.set("ROWS", shape.rows).set("CHANNELS", shape.channels).set("VECTOR", vectorized ? kColumns : 1);
    constexpr const char* kDims = "DHW";
    for (std::size_t i = 0; i < 3; ++i) {
      constants.set(fmt::format("TAPS_{}", kDims[i]), taps[i]).set(fmt::format("STRIDE_{}", kDims[i]), stride[i]);
      constants.set(fmt::format("DILATION_{}", kDims[i]), dilation[i]).set(fmt::format("PAD_{}", kDims[i]), pad[i]);
    }
    constants.epilogue(problem);
    const std::int64_t grid = ceil_div(shape.threads, kThreads) * shape.blocks_n;
    if (target_sms > 0) constants.work_blocks(grid);

    DirectSizes sizes{};
    for (const auto& [to, desc] : {std::pair(sizes.x_strides, &problem.x), std::pair(sizes.y_strides, &problem.y)}) {
      const auto spatial = three(desc->strides, 2, 0);
      to[0] = desc->strides[0];
      to[1] = desc->strides[1];
      std::copy_n(spatial.begin(), 2, to + 2);
    }
    const auto w_strides = three(problem.w.strides, 2, 0), in = three(problem.x.dims, 2),
               out = three(problem.y.dims, 2);
    std::copy_n(problem.w.strides.begin(), 2, sizes.w_strides);
    std::copy(w_strides.begin(), w_strides.end(), sizes.w_strides + 2);
    sizes.in_channels = static_cast<int>(problem.in_channels());
    sizes.out_channels = static_cast<int>(problem.out_channels());
    for (std::size_t i = 0; i < 3; ++i) {
      sizes.in[i] = static_cast<int>(in[i]);
      sizes.out[i] = static_cast<int>(out[i]);
    }
    sizes.groups_h = static_cast<int>(shape.groups_h);
    sizes.groups_w = static_cast<int>(shape.groups_w);
    sizes.blocks_n = static_cast<int>(shape.blocks_n);
    sizes.threads = static_cast<unsigned>(shape.threads);
    KernelLaunch launch{{"direct.cu", constants.text(), device.architecture}, "direct", {}};
    launch.shape.grid.x = static_cast<unsigned>(grid);
    launch.shape.block.x = kThreads;
    launch.shape.dynamic_shared_bytes = static_cast<int>(shape.shared_bytes);
    launch.shape.overlapped = device.architecture >= 90;
    return {{std::move(launch)}, 0, bytes_of(sizes)};
  }

 private:
  std::int64_t columns(const ConvProblem& problem) const override { return problem.out_channels(); }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    return direct_tile(problem, tile).shared_bytes;
  }
  // Rows of a thread share rows of x and weights, where registers hold both. What is the same as another tile is left
  // out.
  bool takes(const ConvProblem& problem, const ProductTile& tile) const override {
    const DirectTile shape = direct_tile(problem, tile);
    const bool same = std::ranges::any_of(kTiles, [&](const ProductTile& other) {
      return other.m == tile.m && other.n < tile.n && direct_tile(problem, other).blocks_n == shape.blocks_n;
    });
    const auto taps = three(problem.w.dims, 2);
    const bool shares = taps[1] > 1 && taps[1] * taps[2] <= 9 && three(problem.stride, 0)[1] == 1;
    return !same && (shape.rows == 1 || (shares && shape.threads <= kMostThreads));
  }

  // The blocks of the busiest multiprocessor, or memory.
  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const DirectTile shape = direct_tile(problem, tile);
    const auto taps = three(problem.w.dims, 2);
    const auto of_row = static_cast<double>(kColumns * taps[2] * shape.channels);
    const auto of_thread = of_row * static_cast<double>(shape.rows * problem.in_channels() * taps[0] * taps[1]);
    const double beside = (shape.rows > 1 ? kBesideOfRows : kBeside) * (is_vectorized(problem) ? 1 : kBesideOfColumns);
    const double share = std::min(kShare * of_row / (of_row + beside), kMostShare);
    const auto blocks =
        static_cast<double>(ceil_div(ceil_div(shape.threads, kThreads) * shape.blocks_n, std::max(device.sm_count, 1)));
    const double busy = std::min(kFirstBlock + kOtherBlocks * (blocks - 1), 1.0);
    const double of_block = kThreads * (of_thread / (128 * kClock * share) + kThreadSeconds);
    return kLaunchSeconds + std::max(blocks * of_block / busy,
                                     bytes_moved(problem) / (kShareOfMemory * memory_bytes_per_second(device)));
  }
};

}  // namespace

const ProductEngine& direct_engine() {
  static const ProductEngine& engine = *new DirectEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
