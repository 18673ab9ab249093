#include "select/measure/habits.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::selection {
namespace {

constexpr int kMostPlanningThreads = 16;

}  // namespace

Habits habits_on(const PlanRequest& request) {
  if (request.kind() == DeviceKind::cpu) return {};
  return {.compiles = true,
          .planning_threads = std::clamp(request.cpu.logical_cpus, 1, kMostPlanningThreads),
          .undisturbed = true,
          .makes_data = true,
          .energy_seconds = 0.5};
}

Result<EnergyCounter> open_energy_counter(const PlanRequest& request) {
  return request.cuda ? EnergyCounter::open_gpu(request.cuda->ordinal) : EnergyCounter::open();
}

std::string place_text(const PlanRequest& request) {
  if (request.cuda) return fmt::format("cuda:{} {}", request.cuda->ordinal, request.cuda->name);
  return fmt::format("{} threads, {}", request.threads, name_of(request.cpu.isa));
}

}  // namespace convoy::selection
