#include "interposer/order.h"

#include <algorithm>
#include <limits>

#include "core/notes.h"

namespace convoy::interposer {
unsigned losses_of(const std::vector<std::string>& notes) {
  unsigned losses = 0;
  for (std::size_t i = 0; i < note::kLosses.size(); ++i) {
    for (const std::string& each : notes) losses |= each == note::kLosses[i] ? 1u << i : 0u;
  }
  return losses;
}

unsigned harmless_beside(unsigned accepted) { return accepted & losses_of({"TENSOR_CORE"}); }

std::vector<int> order_by_time(const std::vector<RankedConfiguration>& offered) {
  std::vector<int> left(offered.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(i);
  std::vector<int> order;
  while (!left.empty()) {
    auto next = left.begin();
    // Of all that cuDNN names before: the losses that every one has, and the least time.
    unsigned common = ~0u;
    std::optional<double> least;
    for (auto each = left.begin(); each != left.end(); ++each) {
      const RankedConfiguration& configuration = offered[*each];
      if (!configuration.seconds) break;  // nobody knows whether what follows is faster
      const unsigned losses = losses_of(configuration.notes);
      const bool fastest = !least || *configuration.seconds < *least;
      if (fastest && (losses & ~common) == 0) next = each;
      if (fastest) least = configuration.seconds;
      common &= losses;
    }
    order.push_back(*next);
    left.erase(next);
  }
  return order;
}

std::optional<std::size_t> place_in(const std::vector<RankedConfiguration>& ordered, const RankedConfiguration& more) {
  const unsigned losses = losses_of(more.notes);
  for (std::size_t place = 0; place < ordered.size(); ++place) {
    for (std::size_t i = place; i < ordered.size(); ++i) {
      const RankedConfiguration& passed = ordered[i];
      const unsigned own = losses_of(passed.notes);
      if (!passed.seconds || !(more.seconds < *passed.seconds) || (losses & ~own) != 0) break;
      if (own == losses && *passed.seconds < std::numeric_limits<double>::infinity()) return place;
    }
  }
  return std::nullopt;
}

std::vector<int> worth_timing(const std::vector<RankedConfiguration>& ordered, const RankedConfiguration& cudnns,
                              std::size_t least) {
  constexpr double kNear = 1.25;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto seconds = [&](std::size_t i) { return ordered[i].seconds.value_or(kInfinity); };
  std::vector<bool> kept(ordered.size());
  const unsigned most = losses_of(cudnns.notes);
  std::size_t count = 0, precise = 0;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const unsigned losses = losses_of(ordered[i].notes);
    double fastest = kInfinity;
    for (std::size_t j = 0; j < ordered.size(); ++j) {
      if ((losses_of(ordered[j].notes) & ~losses) == 0) fastest = std::min(fastest, seconds(j));
    }
    kept[i] = seconds(i) <= kNear * fastest && seconds(i) < kInfinity;
    count += kept[i];
    precise += kept[i] && (losses & ~most) == 0;
  }
  // In order, which has the fastest first; what failed only where nothing else is left.
  for (const bool failed : {false, true}) {
    for (std::size_t i = 0; i < ordered.size() && (count < least || precise == 0); ++i) {
      const bool as_precise = (losses_of(ordered[i].notes) & ~most) == 0;
      if (kept[i] || failed != (seconds(i) == kInfinity) || (count >= least && !as_precise)) continue;
      kept[i] = true;
      ++count;
      precise += as_precise;
    }
  }
  std::vector<int> indices;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (kept[i]) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

}  // namespace convoy::interposer
