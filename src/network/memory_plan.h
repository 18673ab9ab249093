// Where each activation lies in one arena: greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep
// Neural Net Inference", 2020, section 5.2): largest first, each at the lowest offset that is free during its lifetime.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// Buffers that are alive during the same step do not overlap.
MemoryPlan plan_memory(std::span<const Lifetime> buffers);

}  // namespace convoy::network
