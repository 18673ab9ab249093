// Where each activation lies in one arena: greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep
// Neural Net Inference", 2020, section 5.2): largest first, each at the lowest offset that is free during its lifetime.
// Where that takes more than is ever alive at once, the buffer that ends highest goes first in another try, and so on a
// hundred times; then the same beginning with those that take most bytes times steps, and with those alive for longest.
// The best of all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy::network {

struct Lifetime {
  std::int64_t bytes = 0;
  int first = 0;  // step that writes it
  int last = 0;   // last step that reads it; >= first
};

struct MemoryPlan {
  std::vector<std::int64_t> offsets;  // one per lifetime, multiples of 64
  std::int64_t arena_bytes = 0;
};

// What a buffer of so many bytes takes of the arena.
constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The most of them that are alive during one step: no arena is smaller.
std::int64_t most_alive(std::span<const Lifetime> buffers);

// Nothing where the machine has that much memory; else out_of_memory, saying what would need it.
Result<void> check_memory(const std::string& what, std::int64_t bytes);

// Buffers that are alive during the same step do not overlap.
MemoryPlan plan_memory(std::span<const Lifetime> buffers);

}  // namespace convoy::network
