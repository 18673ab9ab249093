#include "report/refusals.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::report {
namespace {

constexpr std::size_t kNamed = 2;  // engines of a group

}  // namespace

void Refusals::add(const std::string& engine, const Refusal& refusal) {
  const auto same = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.refusal.code == refusal.code && group.refusal.reason == refusal.reason;
  });
  if (same != groups_.end()) {
    same->engines.push_back(engine);
  } else {
    groups_.push_back({{engine}, refusal});
  }
}

std::string Refusals::Group::names() const {
  if (engines.size() <= kNamed + 1) return fmt::format("{}", fmt::join(engines, ", "));
  return fmt::format("{}, ... ({})", fmt::join(engines.begin(), engines.begin() + kNamed, ", "), engines.size());
}

}  // namespace convoy::report
