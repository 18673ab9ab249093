// Sizes past which an engine that tabulates weights offsets refuses, before it builds any table.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "convoy/engine.h"
#include "engines/cpu/common/forward.h"

namespace convoy::cpu {

// Refuses weights of over 2^27 elements (512 MiB of f32) and sums of over 2^18 products: more than any network has, and
// little enough that plans, and the answer whether there can be one, take bounded time and memory.
inline std::optional<Refusal> refuse_huge_weights(const ConvProblem& problem) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 27;
  constexpr std::int64_t kMostProducts = std::int64_t{1} << 18;
  const std::int64_t elements = problem.w.elements();
  const std::int64_t outputs = problem.pass == Pass::dgrad ? problem.w.dims[1] * problem.groups : problem.w.dims[0];
  if (elements <= kMostElements && elements / outputs <= kMostProducts) return std::nullopt;
  return Refusal{RefusalCode::size, fmt::format("w={}: this engine takes at most {} elements and sums of {} products",
                                                to_string(problem.w.dims), kMostElements, kMostProducts)};
}

// Refuses strides, dilations and paddings of over 2^31: beyond every use, and within it positions and offsets computed
// from them fit 64 bits.
inline std::optional<Refusal> refuse_huge_window(const ConvProblem& problem) {
  static constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto check = [](const char* field, RefusalCode code, const Dims& values) -> std::optional<Refusal> {
    if (std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v <= kMost; })) return std::nullopt;
    return Refusal{code, fmt::format("{}={}: this engine takes at most {}", field, to_string(values), kMost)};
  };
  if (auto refusal = check("stride", RefusalCode::stride, problem.stride)) return refusal;
  if (auto refusal = check("dilation", RefusalCode::dilation, problem.dilation)) return refusal;
  if (auto refusal = check("pre_padding", RefusalCode::padding, problem.pre_padding)) return refusal;
  return check("post_padding", RefusalCode::padding, problem.post_padding);
}

// Refuses dgrads of so many phases (forward.h) that their tables would take longer than the products.
inline std::optional<Refusal> refuse_many_phases(const ConvProblem& problem) {
  constexpr std::int64_t kMostPhases = 64;
  if (phase_count(problem) <= kMostPhases) return std::nullopt;
  return Refusal{RefusalCode::stride, fmt::format("stride={}: dgrad takes at most {} residues of the stride, it has {}",
                                                  to_string(problem.stride), kMostPhases, phase_count(problem))};
}

}  // namespace convoy::cpu
