#include "engines/cuda/pointwise/pointwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/cuda/rates.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 30;  // rows, columns and terms
// Of a sum of f32: splitting leaves out 2^-21 of a product at most, which the bound of 8 terms allows
// (core/tolerance.h).
constexpr std::int64_t kLeastTerms = 8;
constexpr std::array<ProductTile, 8> kTiles = {{{128, 64, 4, 2, 3},
                                                {128, 128, 2, 4, 2},
                                                {64, 128, 2, 4, 2},
                                                {128, 32, 4, 1, 4},
                                                {128, 16, 4, 1, 4},
                                                {64, 64, 2, 2, 4},
                                                {64, 32, 4, 1, 6},
                                                {32, 32, 2, 1, 8}}};
constexpr std::int64_t kPad = 16, kPadOfTerms = 32;  // bytes behind a row in shared memory (kernels/product.cuh)
constexpr double kLaunchSeconds = 1.5e-6, kLaunchSecondsOfTf32 = 2.5e-6;

// out[m][n] = sum of in[m][k] * w[k][n].
struct PointwiseShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t channels = 0;               // of out
  bool strided = false, scatters = false;  // fprop's rows lie apart; dgrad's columns are taps and channels
  std::array<std::int64_t, 3> pixels, stride,
      large;  // D, H, W: of the rows, between them, of the tensor that has the stride
  int in_vector = 1, w_vector = 1, out_vector = 1;  // elements that are copied at once
  int size = 2;                                     // bytes of an element
  bool strict = false;                              // f32 whose products round nothing
};

// The kernel's parameter of sizes (kernels/pointwise.cu).
struct PointwiseSizes {
  int m, n, k, steps, blocks_n, channels;
  int pixels[3], stride[3], large[3];
};

// Of a tile, in terms: 32, 64 or 128 bytes.
std::int64_t depth_of(const PointwiseShape& shape) {
  const std::int64_t least = 32 / shape.size;
  return shape.k <= least ? least : shape.k <= 2 * least ? 2 * least : 4 * least;
}

std::int64_t stage_bytes(const PointwiseShape& shape, const ProductTile& tile) {
  const std::int64_t depth = depth_of(shape), row = shape.size * depth + kPad;
  const std::int64_t pad = shape.size == 4 ? kPadOfTerms : kPad;
  return tile.m * row + (shape.scatters ? depth * (shape.size * tile.n + pad) : tile.n * row);
}

// Of a multiprocessor. The halves of floats take registers.
std::int64_t blocks_of(const PointwiseShape& shape, const ProductTile& tile) {
  return std::max(1, tile.blocks - (shape.strict ? 1 : 0));
}

// As many as leave room for all blocks, and two where more than one is needed.
int stages_of(const PointwiseShape& shape, const ProductTile& tile) {
  constexpr std::int64_t kRoom = 226 << 10, kMostStages = 4;  // bytes of a multiprocessor of sm_90 and sm_100
  const std::int64_t steps = ceil_div(shape.k, depth_of(shape));
  const std::int64_t fit = kRoom / (blocks_of(shape, tile) * (stage_bytes(shape, tile) + 1024));
  return static_cast<int>(std::min(steps, std::clamp<std::int64_t>(fit, 2, kMostStages)));
}

std::int64_t shared_bytes(const PointwiseShape& shape, const ProductTile& tile) {
  const std::int64_t slabs = std::int64_t{64} * tile.warps_m * (tile.n + 8 * tile.warps_n);
  return std::max(stages_of(shape, tile) * stage_bytes(shape, tile), slabs) + 4 * tile.n;  // biases
}

// The largest that divides the count and that the tensor's alignment allows.
int vector_of(std::int64_t count, const TensorDesc& tensor, int least) {
  const int size = static_cast<int>(size_of(tensor.type));
  int vector = 16 / size;
  while (vector > least && (count % vector != 0 || tensor.alignment % (size * vector) != 0)) vector /= 2;
  return vector;
}

// What a multiprocessor's tensor cores reach in a tile, of 5e12 a second: small ones wait for shared memory. Measured
// on an H100, as all that follows.
double share_of(const ProductTile& tile) {
  const int outputs = tile.m * tile.n;
  return outputs >= 128 * 128 ? 0.34 : outputs >= 128 * 64 ? 0.31 : outputs >= 64 * 64 ? 0.28 : 0.18;
}

// Of strict f32, whose products are three of tf32 each (19 layers of MobileNetV2 with 32 images in all tiles, an
// H200), and of tf32 (57 layers of ResNet-50, EfficientNet-B0 and U-Net, there; so are the other figures of tf32).
constexpr double kShareOfF32 = 1.0 / 6, kShareOfTf32 = 1.0 / 3;

// Outputs a second of a multiprocessor that are put in order and stored, and what an activation takes beside: it adds
// to the products, which wait meanwhile.
constexpr double kOutputsPerSecond = 12e9, kOutputsPerSecondOfTf32 = 5e9;
double activation_seconds(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
    case ActivationKind::mish:
      return 1 / 3.3e9;
    case ActivationKind::gelu:
      return 1 / 50e9;
    case ActivationKind::sigmoid:
    case ActivationKind::swish:
      return 1 / 45e9;
    case ActivationKind::tanh:
    case ActivationKind::elu:
      return 1 / 7.5e9;
    default:
      return 0;
  }
}

PointwiseShape pointwise_shape(const ConvProblem& problem) {
  PointwiseShape shape;
  const bool forward = problem.pass == Pass::fprop;
  const TensorDesc &in = forward ? problem.x : problem.y, &out = problem.out();
  shape.scatters = !forward;
  shape.size = static_cast<int>(size_of(in.type));
  shape.strict = in.type == DataType::f32 && problem.math == MathMode::strict;
  shape.k = in.dims[1];
  shape.channels = out.dims[1];
  shape.stride = three(problem.stride, 0);
  shape.pixels = three(problem.y.dims, 2);
  shape.large = three(problem.x.dims, 2);
  shape.m = problem.y.dims[0] * shape.pixels[0] * shape.pixels[1] * shape.pixels[2];
  shape.n = shape.channels * (forward ? 1 : shape.stride[0] * shape.stride[1] * shape.stride[2]);
  shape.strided = forward && shape.stride != std::array<std::int64_t, 3>{1, 1, 1};
  const int least = 4 / shape.size;  // cp.async copies four bytes at least
  shape.in_vector = vector_of(shape.k, in, least);
  shape.w_vector = vector_of(forward ? shape.k : shape.n, problem.w, least);
  shape.out_vector = vector_of(shape.channels, out, 1);
  return shape;
}

class PointwiseEngine final : public ProductEngine {
 public:
  PointwiseEngine()
      : ProductEngine(
            "cuda.pointwise",
            "filters of 1x1, and dgrad with filters as large as their stride, on tensor cores; f16, bf16, tf32, and "
            "f32 by three products of tf32; NHWC",
            kTiles) {
    info_.passes = {Pass::fprop, Pass::dgrad};
    info_.types.push_back({DataType::f32, DataType::f32, DataType::f32, DataType::f32});
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
  }

  std::optional<Refusal> check_problem(const ConvProblem& problem) const override {
    if (auto refusal = refuse_windows(problem)) return refusal;
    const bool forward = problem.pass == Pass::fprop;
    for (std::size_t i = 0; !forward && i < problem.stride.size(); ++i) {
      if (problem.x.dims[2 + i] != problem.y.dims[2 + i] * problem.stride[i]) {
        return Refusal{RefusalCode::size,
                       fmt::format("x.dims[{}]={}: this engine takes y's times the stride, {}", 2 + i,
                                   problem.x.dims[2 + i], problem.y.dims[2 + i] * problem.stride[i])};
      }
    }
    const PointwiseShape shape = pointwise_shape(problem);
    if (shape.strict && shape.k < kLeastTerms) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine takes {} channels of strict f32 or more",
                                 to_string(problem.w.dims), kLeastTerms)};
    }
    if (shape.size == 2 && (shape.k % 2 != 0 || (!forward && shape.n % 2 != 0))) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine copies channels two at a time", to_string(problem.w.dims))};
    }
    for (const TensorDesc* each : {&problem.x, &problem.w, &problem.y}) {
      if (each->alignment < 4 && each != &problem.out()) {
        return Refusal{RefusalCode::alignment, "align=2: this engine copies two channels at a time"};
      }
    }
    if (std::max({shape.m, shape.n, shape.k}) > kMost ||
        shape.m / 32 * std::max<std::int64_t>(shape.n / 16, 1) > kMost) {
      return Refusal{RefusalCode::size,
                     fmt::format("{} pixels and {} channels: this engine takes fewer", shape.m, shape.n)};
    }
    return std::nullopt;
  }

  PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                         int target_sms) const override {
    const PointwiseShape shape = pointwise_shape(problem);
    const std::int64_t blocks_n = ceil_div(shape.n, tile.n), grid = ceil_div(shape.m, tile.m) * blocks_n;
    Constants constants;
    constants.enumerations().element(problem.out().type);
    constants.set("TILE_M", tile.m).set("TILE_N", tile.n).set("TILE_K", depth_of(shape));
    constants.set("MIN_BLOCKS", blocks_of(shape, tile))
        .set("WARPS_M", tile.warps_m)
        .set("WARPS_N", tile.warps_n)
        .set("STAGES", stages_of(shape, tile));
    constants.set("A_VECTOR", shape.in_vector).set("B_VECTOR", shape.w_vector).set("OUT_VECTOR", shape.out_vector);
    constants.set("STRIDED", shape.strided).set("SCATTERS", shape.scatters).set("STRICT", shape.strict);
    constants.epilogue(problem);
    if (target_sms > 0) constants.work_blocks(grid);

    KernelLaunch launch{{"pointwise.cu", constants.text(), device.architecture}, "pointwise", {}};
    PointwiseSizes sizes = {static_cast<int>(shape.m),
                            static_cast<int>(shape.n),
                            static_cast<int>(shape.k),
                            static_cast<int>(ceil_div(shape.k, depth_of(shape))),
                            static_cast<int>(blocks_n),
                            static_cast<int>(shape.channels),
                            {},
                            {},
                            {}};
    for (std::size_t i = 0; i < 3; ++i) {
      sizes.pixels[i] = static_cast<int>(shape.pixels[i]);
      sizes.stride[i] = static_cast<int>(shape.stride[i]);
      sizes.large[i] = static_cast<int>(shape.large[i]);
    }
    launch.shape.grid.x = static_cast<unsigned>(grid);
    launch.shape.block.x = static_cast<unsigned>(32 * tile.warps_m * tile.warps_n);
    launch.shape.dynamic_shared_bytes = static_cast<int>(cuda::shared_bytes(shape, tile));
    launch.shape.overlapped = device.architecture >= 90;
    return {{std::move(launch)}, 0, bytes_of(sizes)};
  }

 private:
  std::int64_t columns(const ConvProblem& problem) const override { return pointwise_shape(problem).n; }
  std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const override {
    return cuda::shared_bytes(pointwise_shape(problem), tile);
  }

  // The slowest of the tensor cores, whose last blocks may leave most of them empty, the epilogue, of whole tiles, and
  // memory, and the activation; where few blocks hide it, what each tile of k takes.
  double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const override {
    const PointwiseShape shape = pointwise_shape(problem);
    const auto sms = static_cast<double>(std::max(device.sm_count, 1));
    const auto blocks = static_cast<double>(ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n));
    const auto steps = static_cast<double>(ceil_div(shape.k, depth_of(shape)));
    const double outputs = 1.0 * tile.m * tile.n, tile_flops = 2 * outputs * depth_of(shape) * steps;
    const bool tf32 = shape.size == 4 && !shape.strict;
    const double rate = (device.architecture >= 90 ? 5e12 : 2.2e12) * share_of(tile) *
                        (shape.strict ? kShareOfF32
                         : tf32       ? kShareOfTf32
                                      : 1);
    const double rounds = blocks <= sms ? 1 : std::max(blocks / sms, 1.5);
    const double epilogue = rounds * outputs / (tf32 ? kOutputsPerSecondOfTf32 : kOutputsPerSecond);
    const double activation = rounds * outputs * activation_seconds(problem.epilogue.activation.kind);
    const double bandwidth = memory_bytes_per_second(device);
    // Tiles of n read in again, from the L2 cache.
    const double again =
        static_cast<double>(shape.size * shape.m * shape.k) * (static_cast<double>(ceil_div(shape.n, tile.n)) - 1);
    const double memory = bytes_moved(problem) / (0.62 * bandwidth) + again / (2 * bandwidth);
    const double apart = shape.strided ? 1.3 : 1;  // rows that lie apart
    return (tf32 ? kLaunchSecondsOfTf32 : kLaunchSeconds) +
           std::max(apart * (std::max({rounds * tile_flops / rate, memory, epilogue}) + activation), steps * 0.7e-6);
  }
};

}  // namespace

const ProductEngine& pointwise_engine() {
  static const ProductEngine& engine = *new PointwiseEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
