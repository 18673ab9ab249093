#include "select/measure/problem_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/epilogue.h"
#include "core/integer_sums.h"

namespace convoy::selection {
namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a counter-based stream, the same everywhere.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double uniform(std::uint64_t seed, std::int64_t index) {
  return static_cast<double>(mix(seed + static_cast<std::uint64_t>(index)) >> 11) * 0x1p-53;
}

void zero_channel_padding(const TensorDesc& desc, void* data) {
  if (desc.channel_block == 1 || desc.dims[1] % desc.channel_block == 0) return;
  TensorDesc padded = desc;
  padded.dims[1] = desc.padded_channels();
  Dims coords(desc.dims.size(), 0);
  const std::size_t size = size_of(desc.type);
  const std::int64_t gap = padded.dims[1] - desc.dims[1];
  for (;;) {
    coords[1] = desc.dims[1];
    std::memset(static_cast<std::byte*>(data) + padded.offset(coords.data()) * size, 0, gap * size);
    std::size_t d = desc.dims.size();
    for (; d-- > 0;) {
      if (d == 1) continue;
      if (++coords[d] < desc.dims[d]) break;
      coords[d] = 0;
    }
    if (d == static_cast<std::size_t>(-1)) return;
  }
}

Result<HostTensor> random_tensor(const TensorDesc& desc, std::uint64_t seed) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(desc));
  fill_random(desc, tensor.data.get(), seed);
  return tensor;
}

Result<HostTensor> random_operand(const ConvProblem& problem, Operand operand, const TensorDesc& desc,
                                  std::uint64_t seed) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(desc));
  fill_operand(problem, operand, desc, tensor.data.get(), seed);
  return tensor;
}

// Whether a wrong unit in the last place of any sum is a wrong result.
bool is_exact(const ConvProblem& p) { return p.y.type == DataType::s32 && p.epilogue.requantize == Requantize::none; }

// An integer of [low, high], which may span 32 bits.
double whole(double low, double high, double unit) { return std::floor(low + unit * (high - low + 1)); }

constexpr double kAny = 1.0 / 16;  // of extreme bytes: the share that is any byte
constexpr double kNear = 16;       // the others are among so many at the end of the range

double extreme(std::pair<double, double> limits, bool greatest, double unit) {
  const auto [low, high] = limits;
  if (unit < kAny) return whole(low, high, unit / kAny);
  const double inwards = std::floor((unit - kAny) / (1 - kAny) * kNear);
  return greatest ? high - inwards : low + inwards;
}

// What the sums of a window are like where filters are of any bytes: at most some times this.
double usual_sum(const ConvProblem& p) {
  const auto [x_low, x_high] = byte_limits(p.x.type);
  const auto [w_low, w_high] = byte_limits(p.w.type);
  const double x = (extreme_bytes(p).x_greatest ? x_high : x_low) - p.x_zero_point;
  const double w = (w_low + w_high) / 2 - p.w_zero_point, w_deviation = (w_high - w_low) / std::sqrt(12.0);
  const double terms = static_cast<double>(p.w.elements()) / static_cast<double>(p.w.dims[0]);
  return std::abs(x) * (terms * std::abs(w) + std::sqrt(terms) * w_deviation);
}

// Of an integer problem: something for the sum to notice.
Result<HostTensor> random_bias(const ConvProblem& problem, const TensorDesc& desc, std::uint64_t seed) {
  if (problem.compute != DataType::s32) return random_tensor(desc, seed);
  CONVOY_TRY(HostTensor bias, HostTensor::allocate(desc));
  constexpr double kLargest = std::numeric_limits<std::int32_t>::max();
  const double most = is_exact(problem) ? kLargest : std::min(kLargest, usual_sum(problem) / 2);
  for (std::int64_t i = 0; i < desc.elements(); ++i) {
    store_from_double(desc.type, bias.data.get(), i, (2 * uniform(mix(seed), i) - 1) * most);
  }
  return bias;
}

// Small values, which every type a zero point can have holds.
Result<HostTensor> zero_points(std::int64_t count, std::uint64_t seed) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(DataType::s32, {count})));
  for (std::int64_t i = 0; i < count; ++i) {
    tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(uniform(mix(seed), i) * 16);
  }
  return tensor;
}

}  // namespace

void fill_random(const TensorDesc& desc, void* data, std::uint64_t seed) {
  seed = mix(seed);
  const std::int64_t count = desc.storage_elements();
  if (desc.type == DataType::f32) {
    auto* values = static_cast<float*>(data);
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(uniform(seed, i) * 2 - 1);
  } else if (is_floating(desc.type)) {
    for (std::int64_t i = 0; i < count; ++i) store_from_double(desc.type, data, i, uniform(seed, i) * 2 - 1);
  } else {
    for (std::int64_t i = 0; i < count; ++i)
      store_from_double(desc.type, data, i, static_cast<int>(uniform(seed, i) * 32) - 8);
  }
  if (desc.elements() > 0) zero_channel_padding(desc, data);
}

void fill_operand(const ConvProblem& problem, Operand operand, const TensorDesc& storage, void* data,
                  std::uint64_t seed) {
  const DataType type = storage.type;
  if (problem.compute != DataType::s32 || is_floating(type)) return fill_random(storage, data, seed);
  seed = mix(seed);
  using S32 = std::numeric_limits<std::int32_t>;
  const auto limits = type == DataType::s32 ? std::pair<double, double>{S32::min(), S32::max()} : byte_limits(type);
  const ExtremeBytes ends = extreme_bytes(problem);
  const bool exact = is_exact(problem);
  const std::int64_t count = storage.storage_elements(), step = std::max<std::int64_t>(problem.w.strides[0], 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const double unit = uniform(seed, i);
    const std::int64_t filter = operand == Operand::w ? i / step % problem.w.dims[0] : 0;
    const bool far = operand == Operand::x || (operand == Operand::w && exact && filter % 2 == 0);
    const bool great = operand == Operand::x ? ends.x_greatest : (filter % 4 == 0) == ends.w_greatest;
    store_from_double(type, data, i, far ? extreme(limits, great, unit) : whole(limits.first, limits.second, unit));
  }
  if (storage.elements() > 0) zero_channel_padding(storage, data);
}

Result<HostTensor> random_weights(const ConvProblem& problem, std::uint64_t seed) {
  return random_operand(problem, Operand::w, problem.w, seed + 1);
}

Result<ProblemData> ProblemData::make(const ConvProblem& problem, std::uint64_t seed, const void* weights) {
  CONVOY_TRY(ProblemData data, make_small(problem, seed));
  CONVOY_TRY(data.x, random_operand(problem, Operand::x, problem.x, seed));
  CONVOY_TRY(data.w, random_weights(problem, seed));
  CONVOY_TRY(data.y, random_operand(problem, Operand::y, problem.y, seed + 2));
  if (weights != nullptr) std::memcpy(data.w.data.get(), weights, problem.w.bytes());
  if (problem.epilogue.takes_z()) {
    CONVOY_TRY(data.z, random_operand(problem, Operand::z, problem.out(), seed + 4));
  }
  return data;
}

Result<ProblemData> ProblemData::make_small(const ConvProblem& problem, std::uint64_t seed) {
  ProblemData data;
  const Epilogue& epilogue = problem.epilogue;
  // A channel of the output: K for fprop and wgrad, C for dgrad.
  const std::int64_t channels = problem.pass == Pass::dgrad ? problem.in_channels() : problem.out_channels();
  const auto per_channel = [&](DataType type) { return TensorDesc::packed(type, {channels}); };
  if (epilogue.bias) {
    CONVOY_TRY(data.bias, random_bias(problem, per_channel(problem.bias_type()), seed + 3));
  }
  if (epilogue.activation.kind == ActivationKind::prelu) {
    CONVOY_TRY(data.slopes, random_tensor(per_channel(DataType::f32), seed + 5));
  }
  if (epilogue.requantize != Requantize::none) {
    const bool tensor = epilogue.requantize == Requantize::per_tensor;
    CONVOY_TRY(data.scales,
               random_tensor(tensor ? TensorDesc::packed(DataType::f32, {1}) : per_channel(DataType::f32), seed + 6));
    const auto usual =
        static_cast<float>(60 / usual_sum(problem));  // most bytes are neither the least nor the greatest
    for (std::int64_t i = 0; i < data.scales.desc.elements(); ++i) {
      float& scale = data.scales.as<float>()[i];
      scale = usual * (1 + 0.5f * scale);
    }
  }
  if (problem.x_zero_given) {
    CONVOY_TRY(data.x_zero, zero_points(1, seed + 7));
  }
  if (problem.w_zero_given) {
    CONVOY_TRY(data.w_zeros, zero_points(channels, seed + 8));
  }
  if (problem.gate) {
    const Dims dims = {problem.batch(), problem.in_channels()};
    CONVOY_TRY(data.gate, random_tensor(TensorDesc::packed(problem.x.type, dims), seed + 9));
  }
  return data;
}

ConvArgs ProblemData::args(void* out) const {
  return {.x = x.data.get(),
          .w = w.data.get(),
          .y = y.data.get(),
          .out = out,
          .bias = bias.data.get(),
          .z = z.data.get(),
          .slopes = slopes.as<float>(),
          .scales = scales.as<float>(),
          .x_zero_point = x_zero.as<std::int32_t>(),
          .w_zero_points = w_zeros.as<std::int32_t>(),
          .gate = gate.data.get()};
}

}  // namespace convoy::selection
