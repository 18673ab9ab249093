#include "report/network_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::report {

double NetworkPlan::predicted_seconds() const {
  double sum = 0;
  for (const PlannedStep& each : steps) sum += each.cost ? turns * each.cost->seconds : 0;
  return sum;
}

int NetworkPlan::lines() const {
  return static_cast<int>(std::ranges::count_if(steps, [](const PlannedStep& each) { return each.cost.has_value(); }));
}

int NetworkPlan::measured_lines() const {
  return static_cast<int>(
      std::ranges::count_if(steps, [](const PlannedStep& each) { return each.cost && each.cost->measured; }));
}

int NetworkPlan::conversions() const {
  return static_cast<int>(
      std::ranges::count_if(steps, [](const PlannedStep& each) { return each.step.kind == "convert"; }));
}

std::vector<std::int64_t> NetworkPlan::live_bytes() const {
  std::vector<std::int64_t> live(steps.size(), 0);
  for (const ActivationBuffer& buffer : activations) {
    for (int step = buffer.first; step <= buffer.last && step < static_cast<int>(live.size()); ++step) {
      live[static_cast<std::size_t>(step)] += buffer.bytes;
    }
  }
  return live;
}

const NetworkPlan* NetworkReport::best_uniform() const {
  const NetworkPlan* best = nullptr;
  for (const NetworkPlan& plan : plans) {
    if (!plan.name.starts_with("uniform:")) continue;
    if (best == nullptr || plan.seconds.median < best->seconds.median) best = &plan;
  }
  return best;
}

std::string key_of(const NetworkStep& step) { return (step.kind == "convert" ? "convert " : "") + step.nodes; }

std::string side_text(const std::optional<TensorDesc>& side) {
  if (!side) return "-";
  return fmt::format("{},{}", name_of(side->type), name_of(side->layout(), side->spatial_dims()));
}

}  // namespace convoy::report
