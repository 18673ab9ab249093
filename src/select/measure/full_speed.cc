#include "select/measure/full_speed.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace convoy::selection {
namespace {

constexpr int kFirstLooks = 100;
constexpr double kMargin = 1.2, kForgets = 1.0001;
constexpr double kNap = 0.5e-3, kMostPatience = 0.25;  // seconds

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

// The least that a look has taken on each of the machine's processors; it rises a little each time, since a core's
// clock goes down when it is warm. 0: none yet.
std::atomic<double>& fastest_here() {
  static std::array<std::atomic<double>, 1024> all = {};
  return all[static_cast<std::size_t>(sched_getcpu()) % all.size()];
}

bool is_full_speed() {
  std::atomic<double>& fastest = fastest_here();
  const double seconds = look(), known = fastest;
  const double least = known > 0 ? std::min(known * kForgets, seconds) : seconds;
  fastest = least;
  return seconds <= kMargin * least;
}

}  // namespace

FullSpeed::FullSpeed(ThreadTeam& team, double patience)
    : team_(&team),
      full_(static_cast<std::size_t>(team.size())),
      looks_(static_cast<int>(std::clamp(patience, 0.0, kMostPatience) / kNap)),
      left_(looks_) {
  team_->run([](int) {
    for (int i = 0; i < kFirstLooks; ++i) is_full_speed();
  });
}

bool FullSpeed::operator()(bool may_wait) {
  while (true) {
    team_->run([&](int thread) { full_[static_cast<std::size_t>(thread)].yes = is_full_speed(); });
    if (std::ranges::all_of(full_, &Full::yes)) {
      left_ = looks_;
      return true;
    }
    if (!may_wait || left_ == 0) return false;
    --left_;
    std::this_thread::sleep_for(std::chrono::duration<double>(kNap));
  }
}

}  // namespace convoy::selection
