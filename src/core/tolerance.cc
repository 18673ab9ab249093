#include "core/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/integer_sums.h"

namespace convoy {
namespace {

constexpr double kLambda = 8;
constexpr double kWinogradAmplification = 16;

struct FloatFormat {
  int mantissa_bits;  // without the hidden bit
  int min_exponent;   // of the smallest normal number
};

FloatFormat format_of(DataType type) {
  switch (type) {
    case DataType::f64:
      return {52, -1022};
    case DataType::f16:
      return {10, -14};
    case DataType::bf16:
      return {7, -126};
    case DataType::f8_e4m3:
      return {3, -6};
    case DataType::f8_e5m2:
      return {2, -14};
    default:
      return {23, -126};
  }
}

// What joins the products in an output's sum: beta*out, bias, gamma*z.
struct Addends {
  int count = 0;
  double sum_abs = 0;

  void add(double value) {
    ++count;
    sum_abs += std::abs(value);
  }
};

double unit_roundoff(DataType type) { return std::ldexp(1.0, -1 - format_of(type).mantissa_bits); }

double lipschitz(const Activation& activation, double slope) {
  switch (activation.kind) {
    case ActivationKind::leaky_relu:
    case ActivationKind::elu:
      return std::max(1.0, std::abs(activation.a));
    case ActivationKind::prelu:
      return std::max(1.0, std::abs(slope));
    case ActivationKind::sigmoid:
      return 0.25;
    case ActivationKind::hard_sigmoid:
      return std::abs(activation.a);
    case ActivationKind::swish:
    case ActivationKind::gelu:
    case ActivationKind::gelu_tanh:
    case ActivationKind::mish:
      return 1.13;  // gelu's, the largest: 1.129 at v = sqrt(2)
    case ActivationKind::hard_swish:
      return 1.5;
    default:
      return 1;
  }
}

// An engine's own error in the activation, in units of u: none where it only selects, a few roundings where it is
// piecewise linear, and a polynomial's or exponential's absolute error otherwise.
double activation_error(const Activation& activation, double v, double slope) {
  const double size = std::max(1.0, std::abs(v));
  switch (activation.kind) {
    case ActivationKind::identity:
    case ActivationKind::relu:
    case ActivationKind::clip:
      return 0;
    case ActivationKind::leaky_relu:
      return 2 * std::abs(activation.a * v);
    case ActivationKind::prelu:
      return 2 * std::abs(slope * v);
    case ActivationKind::hard_sigmoid:
      return 2 * (std::abs(activation.a * v) + std::abs(activation.b) + 1);
    case ActivationKind::hard_swish:
      return 4 * size;
    case ActivationKind::elu:
      return 16 * std::max(1.0, std::abs(activation.a));
    case ActivationKind::sigmoid:
    case ActivationKind::tanh:
      return 16;
    default:
      return 16 * size;
  }
}

double largest_of(DataType type) {
  return type == DataType::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

// Of everything that meets in one output's sum (tolerance.h).
double accumulation_error(const ConvProblem& problem, const ReductionMagnitude& magnitude, const Addends& addends,
                          Arithmetic arithmetic) {
  const bool f32_inputs = problem.w.type == DataType::f32 || problem.x.type == DataType::f32;
  double u = unit_roundoff(problem.compute);
  // The oracle accumulates in double: for f64 problems it has the same error again.
  if (problem.compute == DataType::f64) u *= 2;
  double input_error = 0;
  if (problem.math == MathMode::tf32 && f32_inputs) input_error = std::ldexp(1.0, -10);
  if (problem.math == MathMode::reduced) {
    u = std::max(u, unit_roundoff(DataType::f16));
    if (f32_inputs) input_error = std::ldexp(1.0, -7);
  }
  // alpha may be rounded itself, before or after it is multiplied.
  const double n = static_cast<double>(magnitude.terms) + addends.count + (problem.alpha != 1 ? 2 : 0) + 1;
  const double growth = std::min(n, kLambda * std::sqrt(n));
  const double amplification = arithmetic == Arithmetic::direct ? 1 : kWinogradAmplification;
  // What a transform would spoil is computed without, so overflows only where the products themselves do.
  const double size = std::abs(problem.alpha) * magnitude.sum_abs + addends.sum_abs;
  if (arithmetic != Arithmetic::winograd && std::max(size, magnitude.sum_abs) > largest_of(problem.compute)) {
    return std::numeric_limits<double>::infinity();
  }
  const double products = amplification * std::abs(problem.alpha) * magnitude.sum_abs;
  const double underflow = n * std::ldexp(1.0, format_of(problem.compute).min_exponent);
  return growth * u * (products + addends.sum_abs) + input_error * products + underflow;
}

// Where an error can turn the rounding to t, an engine has another t; the addition itself is in f32.
double residual_error(const ConvProblem& problem, double scaled, double error, double z) {
  const QuantizedResidual& residual = *problem.epilogue.residual;
  const double u = unit_roundoff(DataType::f32);
  const double t = byte_of(problem, scaled);
  const double size = (std::abs(t) + std::abs(residual.zero_point)) * residual.scale +
                      (std::abs(z) + std::abs(residual.z_zero_point)) * residual.z_scale;
  return (byte_of(problem, scaled + error) - byte_of(problem, scaled - error)) * residual.scale + 4 * u * size;
}

bool is_whole(double v) { return std::nearbyint(v) == v; }

}  // namespace

double half_ulp(DataType type, double value) {
  if (!is_floating(type)) return 0.5;
  const FloatFormat format = format_of(type);
  int exponent = format.min_exponent;
  if (value != 0 && std::isfinite(value)) exponent = std::max(exponent, std::ilogb(value));
  return std::ldexp(1.0, exponent - format.mantissa_bits - 1);
}

double error_before_rounding(const ConvProblem& problem, const ReductionMagnitude& magnitude, double conv,
                             const EpilogueValues& values, Arithmetic arithmetic) {
  const Epilogue& epilogue = problem.epilogue;
  const bool integers = problem.compute == DataType::s32;
  const double u = integers ? unit_roundoff(DataType::f32) : unit_roundoff(problem.compute);

  const double beta_term = problem.beta != 0 ? problem.beta * values.prior : 0;
  const double bias = epilogue.bias ? values.bias : 0;
  const double residual = epilogue.gamma != 0 ? epilogue.gamma * values.z : 0;
  Addends addends;
  if (problem.beta != 0) addends.add(beta_term);
  if (epilogue.bias) addends.add(bias);
  if (epilogue.gamma != 0) addends.add(residual);
  double v = problem.alpha * conv + beta_term + bias + residual;
  // An infinity's activation may be finite, and is as exact as one of a large number.
  if (!std::isfinite(v)) return 32 * u * std::max(1.0, std::abs(epilogue.activation.a));

  double error = 0;
  if (integers) {
    const double size = std::abs(problem.alpha * conv) + addends.sum_abs;
    const bool alone = problem.alpha == 1 && addends.count == 0;
    const bool whole = is_whole(problem.alpha) && is_whole(beta_term) && is_whole(bias) && is_whole(residual);
    const bool exact = whole && (problem.out().type == DataType::s32 || size <= kExactIntegersInF32);
    if (!alone && !exact) error = 4 * u * size;
  } else {
    error = accumulation_error(problem, magnitude, addends, arithmetic);
  }

  const bool selects = epilogue.activation.kind == ActivationKind::identity ||
                       epilogue.activation.kind == ActivationKind::relu ||
                       epilogue.activation.kind == ActivationKind::clip;
  const bool needs_f32 = !selects || epilogue.requantize != Requantize::none;
  if (integers && needs_f32 && (!is_whole(v) || std::abs(v) > kExactIntegersInF32)) error += u * std::abs(v);
  error =
      lipschitz(epilogue.activation, values.slope) * error + u * activation_error(epilogue.activation, v, values.slope);
  v = activate(epilogue.activation, v, values.slope);

  if (epilogue.requantize != Requantize::none) {
    const double product = v * values.scale;
    const bool exact = static_cast<double>(static_cast<float>(product)) == product;
    error = std::abs(values.scale) * error + (exact && error == 0 ? 0 : 2 * u * std::abs(product));
    v = product;
  }
  if (epilogue.residual) error = residual_error(problem, v, error, values.z);
  return error;
}

double error_in_tolerances(DataType type, double actual, double exact, double stored, double bound) {
  constexpr double infinitely = std::numeric_limits<double>::infinity();
  if (bound == infinitely) return 0;
  if (std::isnan(actual) || std::isnan(stored)) return std::isnan(actual) && std::isnan(stored) ? 0 : infinitely;
  if (actual == stored) return 0;
  const double rounding = half_ulp(type, std::abs(exact) + bound);
  if (bound == 0)
    return std::isfinite(actual) && std::isfinite(stored) ? 1 + std::abs(actual - stored) / rounding : infinitely;
  if (!std::isfinite(actual) || !std::isfinite(stored)) {
    // Where the exact value may round either to the largest number or to infinity, both are right.
    double low = 0;
    double high = 0;
    std::uint64_t buffer = 0;
    store_from_double(type, &buffer, 0, exact - bound);
    low = load_as_double(type, &buffer, 0);
    store_from_double(type, &buffer, 0, exact + bound);
    high = load_as_double(type, &buffer, 0);
    return actual >= low && actual <= high ? 1 : infinitely;
  }
  // A saturated output is compared with the limit that it saturates to.
  std::uint64_t buffer = 0;
  store_from_double(type, &buffer, 0, exact);
  const double clamped = std::abs(load_as_double(type, &buffer, 0) - exact) > rounding ? stored : exact;
  return std::abs(actual - clamped) / (bound + rounding);
}

ChannelTolerances::ChannelTolerances(const TensorDesc& out) : largest_(static_cast<std::size_t>(out.dims[1]), -1) {}

void ChannelTolerances::add(std::int64_t channel, double exact, double bound) {
  if (!std::isfinite(exact) || !std::isfinite(bound)) return;
  double& largest = largest_[static_cast<std::size_t>(channel)];
  largest = std::max(largest, bound);
}

std::vector<double> ChannelTolerances::by_channel() && {
  const double all = largest_.empty() ? 0 : std::max(0.0, *std::max_element(largest_.begin(), largest_.end()));
  for (double& each : largest_) {
    if (each < 0) each = all;
  }
  return std::move(largest_);
}

}  // namespace convoy
