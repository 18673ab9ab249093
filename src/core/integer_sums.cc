#include "core/integer_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/epilogue.h"

namespace convoy {
namespace {

// The largest distance of a byte from its zero point.
double farthest(DataType type, std::int32_t zero_point, bool given) {
  const auto [low, high] = byte_limits(type);
  if (given) return high - low;
  return std::max(std::abs(low - zero_point), std::abs(high - zero_point));
}

std::int64_t products_of_window(const ConvProblem& p) { return p.w.elements() / p.w.dims[0]; }

}  // namespace

double largest_product(const ConvProblem& p) {
  return farthest(p.x.type, p.x_zero_point, p.x_zero_given) * farthest(p.w.type, p.w_zero_point, p.w_zero_given);
}

double largest_sum(const ConvProblem& p) { return static_cast<double>(products_of_window(p)) * largest_product(p); }

ExtremeBytes extreme_bytes(const ConvProblem& p) {
  constexpr double room = 64;  // for numbers of a sign
  const auto [x_low, x_high] = byte_limits(p.x.type);
  const auto [w_low, w_high] = byte_limits(p.w.type);
  const bool x_greatest = p.x_zero_given || p.x_zero_point < (x_low + x_high) / 2;
  const bool positive = p.w_zero_given || w_high - p.w_zero_point >= room, negative = p.w_zero_point - w_low >= room;
  return {x_greatest, x_greatest ? positive : !negative || p.w_zero_given};
}

std::optional<Refusal> refuse_sums_in_f32(const ConvProblem& p, std::string_view provider) {
  if (p.compute != DataType::s32 || p.y.type != DataType::s32) return std::nullopt;
  const auto refuse = [&](std::string_view what) {
    return Refusal{RefusalCode::data_type, fmt::format("y=s32: {} rounds sums to f32, which holds integers up to 2^24 "
                                                       "only, and {}: wrong results",
                                                       provider, what)};
  };
  const Epilogue& e = p.epilogue;
  if (p.beta != 0) return refuse(fmt::format("beta={} adds s32 of any size", p.beta));
  if (e.bias) return refuse("the bias may have any size");
  if (e.gamma != 0) return refuse(fmt::format("gamma={} adds s32 of any size", e.gamma));
  const double most = largest_sum(p) * std::max(1.0, std::abs(p.alpha));
  if (most < kExactIntegersInF32) return std::nullopt;
  return refuse(fmt::format("{} products of up to {} reach {}", products_of_window(p), largest_product(p), most));
}

}  // namespace convoy
