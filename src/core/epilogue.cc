#include "core/epilogue.h"

#include <cmath>

namespace convoy {
namespace {

double sigmoid(double v) {
  if (v >= 0) return 1 / (1 + std::exp(-v));
  const double e = std::exp(v);
  return e / (1 + e);
}

// log(1 + exp(v)) without overflow.
double softplus(double v) { return v > 0 ? v + std::log1p(std::exp(-v)) : std::log1p(std::exp(v)); }

double clip(double v, double low, double high) {
  const double raised = v < low ? low : v;
  return raised > high ? high : raised;
}

}  // namespace

std::string epilogue_text(const ConvProblem& problem) {
  std::string text;
  if (problem.alpha != 1) text += " + alpha";
  if (problem.beta != 0) text += " + beta*out";
  if (problem.epilogue.bias) text += " + bias";
  if (problem.epilogue.gamma != 0) text += " + residual";
  const ActivationKind kind = problem.epilogue.activation.kind;
  if (kind != ActivationKind::identity) text.append(" + ").append(name_of(kind));
  if (problem.epilogue.requantize != Requantize::none) text += " + requantize";
  if (problem.epilogue.residual) text += " + residual";
  return text;
}

double activate(const Activation& activation, double v, double slope) {
  constexpr double sqrt_half = 0.70710678118654752440;
  constexpr double sqrt_2_over_pi = 0.79788456080286535588;
  const double a = activation.a;
  const double b = activation.b;
  switch (activation.kind) {
    case ActivationKind::identity:
      return v;
    case ActivationKind::relu:
      return v < 0 ? 0 : v;
    case ActivationKind::clip:
      return clip(v, a, b);
    case ActivationKind::leaky_relu:
      return v < 0 ? a * v : v;
    case ActivationKind::prelu:
      return v < 0 ? slope * v : v;
    case ActivationKind::elu:
      return v < 0 ? a * std::expm1(v) : v;
    case ActivationKind::sigmoid:
      return sigmoid(v);
    case ActivationKind::tanh:
      return std::tanh(v);
    case ActivationKind::swish:
      return v * sigmoid(a * v);
    case ActivationKind::hard_swish:
      return v * clip(v / 6 + 0.5, 0, 1);
    case ActivationKind::hard_sigmoid:
      return clip(a * v + b, 0, 1);
    case ActivationKind::gelu:
      return 0.5 * v * std::erfc(-v * sqrt_half);
    case ActivationKind::gelu_tanh:
      return 0.5 * v * (1 + std::tanh(sqrt_2_over_pi * (v + 0.044715 * v * v * v)));
    case ActivationKind::mish:
      return v * std::tanh(softplus(v));
  }
  return v;
}

double epilogue_before_rounding(const ConvProblem& problem, double conv, const EpilogueValues& values) {
  const Epilogue& epilogue = problem.epilogue;
  double v = problem.alpha * conv;
  if (problem.beta != 0) v += problem.beta * values.prior;
  if (epilogue.bias) v += values.bias;
  if (epilogue.gamma != 0) v += epilogue.gamma * values.z;
  v = activate(epilogue.activation, v, values.slope);
  if (epilogue.requantize != Requantize::none) v *= values.scale;
  if (!epilogue.residual) return v;
  const QuantizedResidual& residual = *epilogue.residual;
  return (byte_of(problem, v) - residual.zero_point) * residual.scale +
         (values.z - residual.z_zero_point) * residual.z_scale;
}

double byte_of(const ConvProblem& problem, double scaled) {
  const auto [low, high] = byte_limits(problem.out().type);
  return clip(std::nearbyint(scaled) + problem.epilogue.residual->zero_point, low, high);
}

std::pair<double, double> byte_limits(DataType type) {
  return type == DataType::s8 ? std::pair{-128.0, 127.0} : std::pair{0.0, 255.0};
}

double quantize(const ConvProblem& problem, double before_rounding) {
  if (problem.epilogue.requantize == Requantize::none || !is_integer(problem.out().type)) return before_rounding;
  return std::nearbyint(before_rounding) + problem.y_zero_point;
}

}  // namespace convoy
