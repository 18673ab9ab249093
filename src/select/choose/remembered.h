// What a store of measurements saves a selection.
#pragma once

#include <span>
#include <vector>

#include "convoy/selection.h"

namespace convoy::selection {

// A candidate this many times slower than the best is not worth more samples: no noise here reaches that factor.
inline constexpr double kHopeless = 3.0;

// Fastest first; those that were cut off after those that were not, failures last.
void sort_measurements(std::vector<Measurement>& measurements);

struct Remembered {
  std::vector<Measurement> settled;  // current measurements of contestants that need no more measuring
  std::vector<Candidate> open;       // contestants to measure, in the order given
};
// Contestants with a complete measurement are settled. So are those that were cut off, as long as no contestant is open
// or they are hopeless against the best complete one.
Result<Remembered> recall(MeasurementStore& store, const MeasurementKey& key, std::span<const Candidate> contestants,
                          std::span<const Engine* const> engines);

// For a choice without measuring: the current measurements of engines that `ranked` names, sorted, where the one ranked
// first is among them (otherwise nobody knows whether the fastest of them is faster than that); else none. What was
// measured with less aligned pointers serves where the problem's own alignment was not: an engine that runs there runs
// here, in that time or less. Failures there say nothing of here.
Result<std::vector<Measurement>> recall_for_choice(MeasurementStore& store, const ConvProblem& problem,
                                                   const PlanRequest& request, CacheState caches,
                                                   std::span<const Candidate> ranked,
                                                   std::span<const Engine* const> engines);

// Whether there is anything of that kind.
Result<bool> is_remembered(MeasurementStore& store, const ConvProblem& problem, const PlanRequest& request,
                           CacheState caches, std::span<const Engine* const> engines);

// The problem with less aligned pointers: no alignment over 32, over 16, .. bytes, down to the smallest element.
std::vector<ConvProblem> with_lower_alignments(const ConvProblem& problem);

}  // namespace convoy::selection
