#include "select/measure/full_speed.h"

#include <algorithm>

#include "base/clock.h"

namespace convoy::selection {
namespace {

constexpr int kFirstLooks = 100;
constexpr double kMargin = 1.2, kForgets = 1.0001;

// As many chains as registers and more than latency asks for, so that what counts is how much a core does at once.
double look() {
  using Lanes = float __attribute__((vector_size(16)));
  constexpr int kChains = 12, kSteps = 1200;
  const double start = monotonic_seconds();
  Lanes chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = Lanes{} + static_cast<float>(start + i);
  for (int step = 0; step < kSteps; ++step) {
    for (Lanes& chain : chains) chain = chain * 0.5F + 1.0F;
  }
  Lanes sum = {};
  for (const Lanes& chain : chains) sum += chain;
  [[maybe_unused]] const volatile float used = sum[0] + sum[1] + sum[2] + sum[3];
  return monotonic_seconds() - start;
}

}  // namespace

FullSpeed::FullSpeed(ThreadTeam& team) : team_(&team), cores_(static_cast<std::size_t>(team.size())) {
  team_->run([&](int thread) {
    Core& core = cores_[static_cast<std::size_t>(thread)];
    core.fastest = look();
    for (int i = 1; i < kFirstLooks; ++i) core.fastest = std::min(core.fastest, look());
  });
}

bool FullSpeed::operator()() {
  team_->run([&](int thread) {
    Core& core = cores_[static_cast<std::size_t>(thread)];
    const double seconds = look();
    core.fastest = std::min(core.fastest * kForgets, seconds);
    core.full = seconds <= kMargin * core.fastest;
  });
  return std::ranges::all_of(cores_, [](const Core& core) { return core.full; });
}

}  // namespace convoy::selection
