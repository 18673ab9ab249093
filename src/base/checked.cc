#include "base/checked.h"

namespace convoy {

std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  return checked_add(a, b).value_or(a < 0 ? std::numeric_limits<std::int64_t>::min() : kMaxSize);
}

std::int64_t saturating_mul(std::int64_t a, std::int64_t b) {
  return checked_mul(a, b).value_or((a < 0) != (b < 0) ? std::numeric_limits<std::int64_t>::min() : kMaxSize);
}

std::int64_t round_up(std::int64_t a, std::int64_t b) { return saturating_mul(div_up(a, b), b); }

}  // namespace convoy
