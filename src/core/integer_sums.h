// How large the sums of integer problems can become, for engines whose sums pass through f32 on their way to out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "convoy/engine.h"

namespace convoy {

// Up to here f32 holds every integer.
inline constexpr double kExactIntegersInF32 = 16777216;  // 2^24

// The largest |(x - x_zero_point)*(w - w_zero_point)| of any bytes, zero points that come with the execution included.
double largest_product(const ConvProblem& problem);
// The largest |conv| of any data before it wraps: the products of a whole window.
double largest_sum(const ConvProblem& problem);

// At which ends of their ranges bytes give the largest sums, for data that is to reach them: the greatest of x or the
// least, on the far side of its zero point, and those of w that make products positive, as far as it has any.
struct ExtremeBytes {
  bool x_greatest, w_greatest;
};
ExtremeBytes extreme_bytes(const ConvProblem& problem);

// Integers written as y=s32 are exact, so an engine that makes them from f32 is refused where they may not fit: where
// sums can reach 2^24, or something of s32 is added, which may have any size. `provider` begins a sentence ("oneDNN").
// Other outputs are at most as exact as f32 anyway (tolerance.h): nothing is refused for them.
std::optional<Refusal> refuse_sums_in_f32(const ConvProblem& problem, std::string_view provider);

}  // namespace convoy
