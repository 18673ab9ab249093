#include "cli/heuristic_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"

namespace convoy::cli {

std::vector<HeuristicChoice> ask_heuristic(const std::vector<DistinctProblem>& problems,
                                           std::span<const Engine* const> engines, const SelectionFilter& filter,
                                           const PlanRequest& request) {
  static const float weights = 0;  // stands for those that are packed: choosing doesn't read them
  const auto packed = [&](const ConvProblem& problem) {
    PlanRequest packed = request;
    if (request.packs_weights(problem)) packed.constant_weights = &weights;
    return packed;
  };
  std::vector<HeuristicChoice> choices;
  // The first choice of a process sets up tables.
  static_cast<void>(
      predict_best(*parse_problem("fprop:x=f32,1x16x8x8,nhwc:w=f32,16x16x3x3"), engines, filter, request));
  for (const DistinctProblem& distinct : problems) {
    const PlanRequest own = packed(distinct.problem);
    HeuristicChoice choice{distinct.problem, {}, 0, false, {}};
    const double start = monotonic_seconds();
    choice.prediction = predict_best(distinct.problem, engines, filter, own);
    choice.seconds = monotonic_seconds() - start;
    choices.push_back(std::move(choice));
  }
  for (HeuristicChoice& choice : choices) {
    if (!choice.prediction) continue;
    SelectionOptions options;
    options.filter = filter;
    const auto selection = select(choice.problem, engines, options, packed(choice.problem));
    choice.replaced = !selection.ok() || selection->candidate != choice.prediction->candidate;
    if (selection.ok()) choice.prediction->candidate = selection->candidate;
  }
  return choices;
}

void judge(HeuristicChoice& choice, const std::vector<Measurement>& measurements) {
  if (!choice.prediction) return;
  const auto own = std::find_if(measurements.begin(), measurements.end(), [&](const Measurement& m) {
    return !m.failure && m.candidate == choice.prediction->candidate;
  });
  if (own != measurements.end()) choice.over_best = own->median_seconds / measurements.front().median_seconds;
}

Json say_heuristic(const Program& program, std::span<const HeuristicChoice> choices) {
  std::vector<double> losses, seconds;
  const HeuristicChoice* worst = nullptr;
  for (const HeuristicChoice& choice : choices) {
    if (choice.prediction) seconds.push_back(choice.seconds);
    if (!choice.over_best) continue;
    losses.push_back(*choice.over_best);
    if (worst == nullptr || *choice.over_best > *worst->over_best) worst = &choice;
  }
  if (worst == nullptr) return nullptr;
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  std::vector<double> logarithms;
  for (const double loss : losses) logarithms.push_back(std::log(loss));
  const double geomean = std::exp(mean(logarithms));
  const auto above_two = std::count_if(losses.begin(), losses.end(), [](double loss) { return loss > 2; });
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  const double median = seconds[seconds.size() / 2];
  program.say(fmt::format(
      "\nThe heuristic's choices take {:.3f} times as long as the fastest (geometric mean of {} problems; worst "
      "{:.2f}, {} above 2); choosing takes {:.1f} us (mean; median {:.1f})",
      geomean, losses.size(), *worst->over_best, above_two, mean(seconds) * 1e6, median * 1e6));
  return {{"problems", losses.size()},      {"geomean_over_best", geomean},
          {"worst", *worst->over_best},     {"worst_problem", print(worst->problem)},
          {"above_2", above_two},           {"mean_choice_seconds", mean(seconds)},
          {"median_choice_seconds", median}};
}

Json to_json(const HeuristicChoice& choice) {
  Json json = {{"candidate", print(choice.prediction->candidate)},
               {"predicted_seconds", choice.prediction->seconds},
               {"choice_seconds", choice.seconds}};
  if (choice.replaced) json["replaced"] = true;
  if (choice.over_best) json["over_best"] = *choice.over_best;
  return json;
}

}  // namespace convoy::cli
