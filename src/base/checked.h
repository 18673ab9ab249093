// 64-bit size arithmetic that can't overflow unnoticed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

namespace convoy {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int64_t>::max();

// The result, or nothing where it doesn't fit into 64 bits.
std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b);

// The result, or the nearest 64-bit value.
std::int64_t saturating_add(std::int64_t a, std::int64_t b);
std::int64_t saturating_mul(std::int64_t a, std::int64_t b);

// a >= 0, b > 0; round_up saturates.
constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }
std::int64_t round_up(std::int64_t a, std::int64_t b);

}  // namespace convoy
