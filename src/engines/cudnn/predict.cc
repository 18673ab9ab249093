#include "engines/cudnn/predict.h"

#include <algorithm>

#include "device/cuda/rates.h"

namespace convoy::cudnn {
namespace {

constexpr double kLaunchSeconds = 3e-6;
constexpr double kStepPerRank = 0.03;
// A block adds an output's products one after another, however few outputs there are; windows are found first. 3x3 of
// 64 channels of 56x56 takes 5.7 us, of 512 of 7x7 11.4; 1x1 of 512 of 28x28 3.8, of 3072 of 7x7 7.6 (one image in f16
// on an H200, cuDNN 9.19).
constexpr double kTermSeconds = 1.42e-9, kWindowSeconds = 1.8e-6;
bool is_tf32(const ConvProblem& p) { return p.x.type == DataType::f32 && p.math != MathMode::strict; }
bool is_fprop_on_tensor_cores(const ConvProblem& p) {
  return p.pass == Pass::fprop && (size_of(p.x.type) == 2 || is_tf32(p));
}
// Engines of tf32 take longer to begin: 1x1 of 1152 to 192 channels of 32x7x7 take 10.1 us, of 256 to 512 of one 28x28
// 9.6 (ResNet-50's and EfficientNet-B0's on an H200, cuDNN 9.19).
double launch_seconds(const ConvProblem& p) { return is_tf32(p) ? 5e-6 : kLaunchSeconds; }
std::int64_t narrow_of(const ConvProblem& p) { return std::min(p.w.dims[1], p.out_channels() / p.groups); }
std::int64_t terms_of(const ConvProblem& p) { return p.w.elements() / std::max<std::int64_t>(p.w.dims[0], 1); }
double least_seconds(const ConvProblem& p) {
  if (!is_fprop_on_tensor_cores(p)) return 0;
  const std::int64_t terms = terms_of(p);
  return launch_seconds(p) + (terms > p.w.dims[1] ? kWindowSeconds : 0) + kTermSeconds * static_cast<double>(terms);
}

// An engine that the heuristics don't name is usually there for problems that others refuse, and slow.
constexpr double kUnnamed = 4;

// A bound from above is taken by engine 0 alone, which leaves the tensor cores empty: of MobileNetV2 in f16 with 128
// pictures the convolutions with a ReLU6 take 62 ms so, where 1.3 were predicted (H200, cuDNN 9.19).
constexpr double kBounded = 45;
bool is_bounded(const ConvProblem& p, std::int64_t engine) {
  return engine == 0 && p.epilogue.activation.kind == ActivationKind::clip;
}

// Engine 35 with a residual takes 35 us for a 1x1 convolution of 384 to 96 channels of 56x56 in f16, of which its order
// says that it is the first choice; others take 5 (H100, cuDNN 9.19).
constexpr double kWithResidual = 8;
bool is_slow_with_residual(const ConvProblem& p, std::int64_t engine) { return engine == 35 && p.epilogue.gamma != 0; }

bool is_compiled(ActivationKind kind) { return kind != ActivationKind::identity && kind != ActivationKind::relu; }

// Of f32 in strict math an epilogue with another activation than ReLU is compiled for engine 8 alone, whose blocks wait
// for each of an output's products in turn, however few outputs there are: 3x3 of 256 to 80 channels of 10x10 638 us,
// of 128 to 64 of 20x20 342, 1x1 of 384 to 256 of 10x10 161 (YOLOv8n on an H200, cuDNN 9.19).
constexpr double kSerialProduct = 0.28e-6;
// Engine 44 likewise, with any epilogue: 1x1 of 1152 to 48 channels of a pixel 49 us, of 480 to 20 22, of 32 to 8 6.
constexpr double kSerialStrict = 0.038e-6;
// From 16 bits to f32, engine 52: 1x1 of 1152 to 192 channels of 32x7x7 24 us, of 672 to 192 18; in 16 bits throughout
// others take 6 (the last two: EfficientNet-B0's on an H200, cuDNN 9.19).
constexpr double kSerialWidening = 0.019e-6;
double serial_seconds(const ConvProblem& p, std::int64_t engine) {
  const bool strict = p.x.type == DataType::f32 && p.math == MathMode::strict;
  const bool widening = size_of(p.x.type) == 2 && p.y.type == DataType::f32;
  const double a_product = engine == 8 && strict && is_compiled(p.epilogue.activation.kind) ? kSerialProduct
                           : engine == 44 && strict                                         ? kSerialStrict
                           : engine == 52 && widening                                       ? kSerialWidening
                                                                                            : 0;
  const std::int64_t products = p.w.elements() / std::max<std::int64_t>(p.w.dims[0], 1);  // of an output
  return a_product * static_cast<double>(products);
}

// The share of the multiply-adds that 1x1 filters of f32 reach in strict math, and how much longer engine 11 takes, and
// engine 44 with a residual: of maps with 32 images 32 to 192 channels of 28x28 take 37 us by engine 44, 384 to 96 of
// 14x14 35, 576 to 96 with a residual 95, 960 to 160 of 7x7 by engine 11 82 (MobileNetV2 on an H200, cuDNN 9.19).
constexpr double kShareOfStrictPointwise = 0.22, kSlowStrictPointwise = 1.7;
bool is_strict_pointwise(const ConvProblem& p) {
  const auto is_one = [](std::int64_t size) { return size == 1; };
  return p.pass == Pass::fprop && p.x.type == DataType::f32 && p.math == MathMode::strict && p.groups == 1 &&
         std::all_of(p.w.dims.begin() + 2, p.w.dims.end(), is_one);
}

// Engines whose epilogue has other activations than ReLU are compiled at run time for it, which then takes these
// outputs a second of a multiprocessor beside the products (1x1 convolutions of 128 pictures in f16 on an H100, and in
// tf32 on an H200, cuDNN 9.19).
double compiled_epilogue_seconds(const ConvProblem& p, double sms) {
  const ActivationKind kind = p.epilogue.activation.kind;
  if ((size_of(p.x.type) != 2 && !is_tf32(p)) || !is_compiled(kind)) return 0;
  const bool is_gelu = kind == ActivationKind::gelu || kind == ActivationKind::gelu_tanh;
  return static_cast<double>(p.out().elements()) / (sms * (is_gelu ? 2.1e9 : 4.2e9));
}

// Dense multiply-adds count as two; rates of a streaming multiprocessor at its usual clock.
double flops_per_sm(const ConvProblem& p, int architecture) {
  const double hopper = architecture >= 90 ? 1 : 0.45;  // of the tensor cores of sm_90
  switch (p.x.type) {
    case DataType::f64:
      return 0.4e12;
    case DataType::f32:
      return p.math == MathMode::strict ? 0.45e12 : 2.5e12 * hopper;
    case DataType::f16:
    case DataType::bf16:
      return 5e12 * hopper;
    default:
      return 10e12 * hopper;
  }
}

// The share of the floor that cuDNN reaches. Few channels a group leave the tensor cores empty.
double share(const ConvProblem& p) {
  if (p.is_depthwise()) return p.pass == Pass::wgrad ? 0.15 : 0.3;
  // Transposed ones with a bias run on an engine that is compiled for it: U-Net's, on an H100.
  if (p.pass == Pass::dgrad && p.epilogue.bias) return 0.25;
  const std::int64_t narrow = narrow_of(p);
  if (narrow < 8) return 0.08;
  return narrow < 32 ? 0.25 : 0.6;
}

// The same for dense convolutions forward on tensor cores, by their output channels and whether windows overlap: 76
// layers with windows and 133 of 1x1 of seven networks in f16 are predicted at 0.95 of their time in the mean (H100,
// cuDNN 9.19, gpu-network-losses-2026-11-28), tf32's of U-Net and ResNet-50 as well. flops_per_sm() is of a usual
// clock, hence shares above 1.
// Of channels that aren't eights, 64 to 21 of 512x512, one picture takes 49 us, eight 182.
constexpr double kShareOfMemory = 0.7, kShareOfMemoryInTf32 = 0.8, kShareOfMemoryUneven = 0.4, kFirstTileSeconds = 3e-6;
double dense_seconds(double products, double bytes, const ConvProblem& p) {
  const std::int64_t n = p.out_channels();
  const double share = n >= 256 ? 1.22 : n >= 128 ? 0.95 : n >= 64 ? 0.7 : n >= 32 ? 0.38 : 0.25;
  const double few_channels = p.w.dims[1] < 32 ? 0.4 : 1;
  const double memory = n % 8 != 0 ? kShareOfMemoryUneven : is_tf32(p) ? kShareOfMemoryInTf32 : kShareOfMemory;
  const double seconds = std::max(products / (share * few_channels), bytes / memory);
  if (terms_of(p) == p.w.dims[1]) return seconds;
  return seconds + kWindowSeconds + std::min(kFirstTileSeconds, seconds);
}

// Few channels in and out: the tiles of cuDNN's engines have 64. 3x3x3 of 5 to 5 channels of 256x256x256, dilated or
// not, takes 4.5 ms in f16 and 11.5 in tf32 (meshnet's on an H200, cuDNN 9.19).
bool is_narrow(const ConvProblem& p) {
  return is_fprop_on_tensor_cores(p) && p.groups == 1 && std::max(p.w.dims[1], p.out_channels()) < 8 &&
         terms_of(p) > p.w.dims[1];
}
double share_of_narrow(const ConvProblem& p) { return 0.1 / 64 * static_cast<double>(p.out_channels()); }

// Groups of several channels forward on tensor cores: a tile computes the zeros between groups, too, so the share grows
// with a group's channels. ResNeXt-50's layers with 128 pictures, of 4, 8, 16 and 32 channels a group, take 161, 98, 41
// and 25 us, where all have as many products, and with twice the pixels 106, 52 and 30 (H100, cuDNN 9.19,
// gpu-network-losses-2026-11-28).
constexpr double kGroupedChannels = 120, kGroupedMemory = 0.6;
bool is_grouped(const ConvProblem& p) {
  return is_fprop_on_tensor_cores(p) && !is_tf32(p) && p.groups > 1 && !p.is_depthwise() && narrow_of(p) > 1;
}
double grouped_seconds(double products, double bytes, const ConvProblem& p) {
  const double share_of_products = std::min(0.6, static_cast<double>(narrow_of(p)) / kGroupedChannels);
  return std::max(products / share_of_products, bytes / kGroupedMemory);
}

// U-Net's transposed layers in tf32 with eight pictures take 1172, 490, 322 and 260 us (H200, cuDNN 9.19).
constexpr double kTransposedProducts = 0.35, kTransposedMemory = 0.2;
bool is_transposed_tf32(const ConvProblem& p) { return p.pass == Pass::dgrad && p.epilogue.bias && is_tf32(p); }

// The engines for tensor cores copy what isn't channels last themselves, there and back, at half of a copy's rate: on
// an H200 94 us for a 3x3 of 64 channels of 64x56x56 in NCHW, 39 in NHWC.
double own_copies_seconds(const ConvProblem& p, const CudaDevice& device) {
  const bool tensor_cores = p.x.type != DataType::f64 && (p.x.type != DataType::f32 || p.math != MathMode::strict);
  if (!tensor_cores || p.is_depthwise()) return 0;
  double seconds = 0;
  for (const TensorDesc* desc : {&p.x, &p.w, &p.y}) {
    if (desc->is_packed(Layout::nhwc)) continue;
    seconds += kLaunchSeconds + 2 * static_cast<double>(desc->bytes()) / (0.5 * cuda::memory_bytes_per_second(device));
  }
  return seconds;
}

double product_seconds(const ConvProblem& p, const CudaDevice& device) {
  return flops(p) / (flops_per_sm(p, device.architecture) * std::max(device.sm_count, 1));
}

}  // namespace

double first_choice_seconds(const ConvProblem& problem, const CudaDevice& device) {
  const auto sms = static_cast<double>(std::max(device.sm_count, 1));
  const double products = product_seconds(problem, device);
  const double bytes = bytes_moved(problem) / cuda::memory_bytes_per_second(device);
  const bool dense = is_fprop_on_tensor_cores(problem) && problem.groups == 1 && narrow_of(problem) >= 8;
  const double seconds =
      (dense                         ? dense_seconds(products, bytes, problem)
       : is_grouped(problem)         ? grouped_seconds(products, bytes, problem)
       : is_narrow(problem)          ? std::max(products / share_of_narrow(problem), bytes / share(problem))
       : is_transposed_tf32(problem) ? std::max(products / kTransposedProducts, bytes / kTransposedMemory)
                                     : std::max(products, bytes) / share(problem)) +
      compiled_epilogue_seconds(problem, sms);
  return std::max(launch_seconds(problem) + seconds, least_seconds(problem)) + own_copies_seconds(problem, device);
}

double first_choice_seconds(const ConvProblem& problem, const CudaDevice& device, std::int64_t engine) {
  const bool slow = engine == 11 || (engine == 44 && problem.epilogue.gamma != 0);
  const double pointwise = is_strict_pointwise(problem) ? (slow ? kSlowStrictPointwise : 1) *
                                                              product_seconds(problem, device) / kShareOfStrictPointwise
                                                        : 0;
  const double times = is_bounded(problem, engine)              ? kBounded
                       : is_slow_with_residual(problem, engine) ? kWithResidual
                                                                : 1;
  return std::max({times * first_choice_seconds(problem, device), serial_seconds(problem, engine), pointwise});
}

double predict(const ConvProblem& problem, Survey& survey, std::int64_t engine, const KnobValues& knobs,
               const CudaDevice& device) {
  const auto rank = survey.rank(engine, knobs);
  const double first = first_choice_seconds(problem, device, engine);
  return rank ? at_rank(first, *rank) : kUnnamed * at_rank(first, survey.pick_count());
}

double at_rank(double first_choice_seconds, std::size_t rank) {
  return first_choice_seconds * (1 + kStepPerRank * static_cast<double>(rank));
}

}  // namespace convoy::cudnn
