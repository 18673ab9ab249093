#include "network/assign/memory_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

namespace convoy::network {
namespace {

// That are tried by each weight: a hundred, fewer of thousands of buffers.
constexpr std::size_t kMostOrders = 100, kMostPairs = 100'000'000;

// Each in its turn at the lowest offset that is free during its lifetime.
MemoryPlan placed_in(std::span<const Lifetime> buffers, std::span<const std::size_t> order) {
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t index : order) {
    const Lifetime& buffer = buffers[index];
    const std::int64_t bytes = aligned(buffer.bytes);
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      if (buffers[other].last < buffer.first || buffer.last < buffers[other].first) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + aligned(buffers[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](std::int64_t at, std::size_t other) { return at < plan.offsets[other]; }),
                  index);
  }
  return plan;
}

}  // namespace

std::int64_t most_alive(std::span<const Lifetime> buffers) {
  std::vector<std::int64_t> alive;
  for (const Lifetime& buffer : buffers) {
    alive.resize(std::max(alive.size(), static_cast<std::size_t>(buffer.last) + 1));
    for (int step = buffer.first; step <= buffer.last; ++step) alive[step] += aligned(buffer.bytes);
  }
  return alive.empty() ? 0 : *std::ranges::max_element(alive);
}

Result<void> check_memory(const std::string& what, std::int64_t bytes) {
  static const std::int64_t memory =
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
  if (bytes <= memory) return {};
  return Error{ErrorCode::out_of_memory,
               fmt::format("{} would need {} bytes, the machine has {}", what, bytes, memory)};
}

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  const std::int64_t least = most_alive(buffers);
  const std::size_t orders =
      std::min(kMostOrders, kMostPairs / std::max<std::size_t>(buffers.size() * buffers.size(), 1));
  const auto bytes = [&](std::size_t i) { return static_cast<double>(buffers[i].bytes); };
  const auto steps = [&](std::size_t i) { return static_cast<double>(buffers[i].last - buffers[i].first + 1); };
  const auto both = [&](std::size_t i) { return bytes(i) * steps(i); };
  std::optional<MemoryPlan> best;
  for (const std::function<double(std::size_t)>& weight :
       {std::function<double(std::size_t)>(bytes), {both}, {steps}}) {
    std::vector<std::size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), weight);
    for (std::size_t i = 0; i <= orders && !(best && best->arena_bytes <= least); ++i) {
      const MemoryPlan now = placed_in(buffers, order);
      if (!best || now.arena_bytes < best->arena_bytes) best = now;
      const auto top = std::ranges::max_element(
          order, {}, [&](std::size_t each) { return now.offsets[each] + aligned(buffers[each].bytes); });
      if (top != order.end()) std::rotate(order.begin(), top, top + 1);
    }
  }
  return *best;
}

}  // namespace convoy::network
