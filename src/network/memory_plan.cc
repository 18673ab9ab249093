#include "network/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace convoy::network {

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  constexpr std::int64_t kAlignment = 64;
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const Lifetime& buffer = buffers[index];
    const std::int64_t bytes = (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      if (buffers[other].last < buffer.first || buffer.last < buffers[other].first) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      const std::int64_t end = plan.offsets[other] + (buffers[other].bytes + kAlignment - 1) / kAlignment * kAlignment;
      offset = std::max(offset, end);
    }
    plan.offsets[index] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](std::int64_t at, std::size_t other) { return at < plan.offsets[other]; }),
                  index);
  }
  return plan;
}

}  // namespace convoy::network
