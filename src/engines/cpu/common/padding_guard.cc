#include "engines/cpu/common/padding_guard.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "convoy/thread_team.h"
#include "core/padding.h"
#include "engines/reference/evaluator.h"

namespace convoy::cpu {
namespace {

using reference::Coords;
using reference::Evaluator;
using reference::Operands;
using reference::Placement;

template <class Bits>
bool has_exponent(const void* data, std::int64_t count, Bits exponent, ThreadTeam* team) {
  const auto* values = static_cast<const Bits*>(data);
  std::atomic<bool> found = false;
  const auto look = [&](std::int64_t begin, std::int64_t end, int) {
    constexpr std::int64_t chunk = 4096;
    for (; begin < end && !found.load(std::memory_order_relaxed); begin += chunk) {
      bool here = false;
      for (std::int64_t i = begin; i < std::min(end, begin + chunk); ++i) here |= (values[i] & exponent) == exponent;
      if (here) found = true;
    }
  };
  constexpr std::int64_t worth_threads = 1 << 17;
  if (team == nullptr || count < worth_threads) {
    look(0, count, 0);
  } else {
    parallel_ranges(*team, count, look);
  }
  return found;
}

bool sum_is_nan(const Evaluator& evaluator, const Coords& at) {
  const Operands& operands = evaluator.operands();
  double sum = 0;
  for_each_term(evaluator.geometry(), at, [&](std::int64_t i, std::int64_t j) {
    sum += load_as_double(operands.a_type, operands.a, i) * load_as_double(operands.b_type, operands.b, j);
    return !std::isnan(sum);
  });
  return std::isnan(sum);
}

void repair(const ConvProblem& problem, const ConvArgs& args, bool all, void* out, ThreadTeam& team) {
  const Evaluator evaluator(problem, args);
  const Placement& placement = evaluator.geometry().out();
  parallel_ranges(team, placement.elements(), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Coords at = placement.coords(i);
      const bool is_nan = std::isnan(load_as_double(problem.out().type, out, placement.offset(at)));
      if (all || (is_nan && !sum_is_nan(evaluator, at))) evaluator.store(at, out);
    }
  });
}

}  // namespace

bool has_special_values(const TensorDesc& desc, const void* data, ThreadTeam* team) {
  const std::int64_t count = desc.storage_elements();
  switch (desc.type) {
    case DataType::f64:
      return has_exponent<std::uint64_t>(data, count, 0x7ff0000000000000U, team);
    case DataType::f32:
      return has_exponent<std::uint32_t>(data, count, 0x7f800000U, team);
    case DataType::bf16:
      return has_exponent<std::uint16_t>(data, count, 0x7f80U, team);
    case DataType::f16:
      return has_exponent<std::uint16_t>(data, count, 0x7c00U, team);
    default:
      return false;
  }
}

PaddingGuard::PaddingGuard(const ConvProblem& problem, Zeros zeros)
    : problem_(problem), zeros_(zeros), reads_padding_(problem.compute != DataType::s32 && reads_padding(problem)) {
  if (problem.compute == DataType::s32) zeros_ = {};
}

void PaddingGuard::keep(const void* weights) {
  constant_ = true;
  special_weights_ = reads_padding_ && has_special_values(problem_.w, weights);
  if (!zeros_.beside_data && !special_weights_) return;
  weights_.resize(static_cast<std::size_t>(problem_.w.bytes()));
  std::memcpy(weights_.data(), weights, weights_.size());
}

Result<void> PaddingGuard::run(const ConvArgs& args, ThreadTeam& team,
                               const std::function<Result<void>()>& execute) const {
  const bool wgrad = problem_.pass == Pass::wgrad;
  const TensorDesc& out = problem_.out();
  const auto special = [&] {
    if (!reads_padding_) return false;
    if (constant_) return special_weights_;
    return has_special_values(wgrad ? problem_.y : problem_.w, wgrad ? args.y : args.w, &team);
  };
  const auto special_data = [&] {
    return problem_.pass == Pass::dgrad ? has_special_values(problem_.y, args.y, &team)
                                        : has_special_values(problem_.x, args.x, &team);
  };
  if (!zeros_.beside_data && !reads_padding_) return execute();
  // What became of the output is sooner seen, unless its prior contents are needed then, or it shows nothing.
  const bool wait = !zeros_.hides_nan && (zeros_.beside_data || (wgrad && problem_.beta == 0));
  if (!wait && !special() && !(zeros_.beside_data && special_data())) return execute();
  ConvArgs before = args;
  if (constant_) before.w = weights_.data();
  std::vector<std::byte> prior;
  if (problem_.beta != 0) {
    const auto* first = static_cast<const std::byte*>(args.out);
    prior.assign(first, first + out.bytes());
    before.out = prior.data();
  }
  CONVOY_CHECK(execute());
  if (wait && !has_special_values(out, args.out, &team)) return {};
  if (wait && !zeros_.beside_data && !special()) return {};
  repair(problem_, before, zeros_.hides_nan, args.out, team);
  return {};
}

}  // namespace convoy::cpu
