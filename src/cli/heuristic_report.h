// Heuristic selection beside measured selection, for `convoy bench`.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cli/program.h"
#include "cli/tuning.h"

namespace convoy::cli {

struct HeuristicChoice {
  ConvProblem problem;
  std::optional<Prediction> prediction;
  double seconds = 0;               // that choosing took
  bool replaced = false;            // by select(), which asks the engine
  std::optional<double> over_best;  // its measured time by the fastest's; nothing where it was not measured
};

// What heuristic selection chooses for each, one after the other as when a network is planned, weights packed
// beforehand.
std::vector<HeuristicChoice> ask_heuristic(const std::vector<DistinctProblem>& problems,
                                           std::span<const Engine* const> engines, const SelectionFilter& filter,
                                           const PlanRequest& request);

// Sets over_best. `measurements` are those of its problem, fastest first.
void judge(HeuristicChoice& choice, const std::vector<Measurement>& measurements);

// How good and how quick it is on the whole; null where nothing could be judged.
Json say_heuristic(const Program& program, std::span<const HeuristicChoice> choices);

Json to_json(const HeuristicChoice& choice);

}  // namespace convoy::cli
