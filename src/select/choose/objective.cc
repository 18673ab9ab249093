#include "select/choose/objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "select/evidence.h"

namespace convoy {
namespace {

// Added to workspaces before they are compared: below this nobody cares, and none would otherwise be infinitely better
// than some.
constexpr double kWorkspaceFloor = 1 << 20;

Error bad_objective(std::string_view text, std::string_view what) {
  return {ErrorCode::invalid_argument, fmt::format("objective '{}': {}", text, what)};
}

}  // namespace

Result<Objective> parse_objective(std::string_view text) {
  Objective objective{.time = 0, .workspace = 0, .energy = 0};
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view term = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t equals = term.find('=');
    const std::string_view name = term.substr(0, equals);
    double* const weight = name == "time"        ? &objective.time
                           : name == "workspace" ? &objective.workspace
                           : name == "energy"    ? &objective.energy
                                                 : nullptr;
    if (weight == nullptr) {
      return bad_objective(text, fmt::format("'{}' is not one of time, workspace, energy", name));
    }
    *weight = 1;
    if (equals != std::string_view::npos) {
      const std::string_view number = term.substr(equals + 1);
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), *weight);
      if (error != std::errc{} || end != number.data() + number.size() || !std::isfinite(*weight) || *weight < 0) {
        return bad_objective(text, fmt::format("the weight '{}' of {} is not a number from 0", number, name));
      }
    }
  }
  if (objective.time == 0 && objective.workspace == 0 && objective.energy == 0) {
    return bad_objective(text, "no term has a weight");
  }
  return objective;
}

std::string print(const Objective& objective) {
  std::string text;
  for (const auto& [name, weight] : {std::pair("time", objective.time), std::pair("workspace", objective.workspace),
                                     std::pair("energy", objective.energy)}) {
    if (weight != 0) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, weight);
  }
  return text;
}

selection::ObjectiveScale selection::scale_of(std::span<const Measurement> measurements) {
  constexpr double none = std::numeric_limits<double>::infinity();
  ObjectiveScale scale{none, none, none};
  for (const Measurement& m : measurements) {
    if (m.failure) continue;
    scale.seconds = std::min(scale.seconds, m.median_seconds);
    scale.workspace_bytes = std::min(scale.workspace_bytes, static_cast<double>(m.workspace_bytes));
    if (m.energy_joules) scale.joules = std::min(scale.joules, *m.energy_joules);
  }
  return scale;
}

double selection::score(const Measurement& m, const Objective& objective, const ObjectiveScale& scale) {
  const auto ratio = [](double value, double least) { return least > 0 ? value / least : value > 0 ? 1e300 : 1; };
  double sum = objective.time * ratio(m.median_seconds, scale.seconds);
  sum += objective.workspace *
         ratio(static_cast<double>(m.workspace_bytes) + kWorkspaceFloor, scale.workspace_bytes + kWorkspaceFloor);
  if (objective.energy > 0) {
    sum += m.energy_joules ? objective.energy * ratio(*m.energy_joules, scale.joules)
                           : std::numeric_limits<double>::infinity();
  }
  return sum;
}

const Measurement* selection::best_of(std::span<const Measurement> measurements, const Objective& objective,
                                      std::span<const Candidate> ranked, DeviceKind device,
                                      FunctionRef<bool(const Measurement&)> may_win) {
  std::vector<const Measurement*> able;
  for (const Measurement& m : measurements) {
    if (!m.failure && may_win(m)) able.push_back(&m);
  }
  const bool all_cut_off =
      std::ranges::all_of(able, [](const Measurement* m) { return m->state == MeasurementState::cut_off; });
  std::vector<Measurement> racing;
  std::vector<const Measurement*> origins;
  for (const Measurement* m : able) {
    if (m->state == MeasurementState::cut_off && !all_cut_off) continue;
    racing.push_back(*m);
    origins.push_back(m);
  }
  const ObjectiveScale scale = scale_of(racing);
  const Measurement* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < racing.size(); ++i) {
    const double own = score(racing[i], objective, scale);
    if (own >= least) continue;
    least = own;
    best = origins[i];
  }
  if (best == nullptr || objective.workspace != 0 || objective.energy != 0) return best;
  for (const Candidate& candidate : ranked) {
    const auto favourite = std::ranges::find(able, candidate, &Measurement::candidate);
    if (favourite == able.end()) continue;
    return is_faster(*best, **favourite, device) ? best : *favourite;
  }
  return best;
}

}  // namespace convoy
