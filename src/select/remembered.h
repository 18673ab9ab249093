// What a store of measurements saves a selection.
#pragma once

#include <span>
#include <vector>

#include "convoy/selection.h"

namespace convoy::selection {

// A candidate this many times slower than the best is not worth more samples: no noise here reaches that factor.
inline constexpr double hopeless = 3.0;

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
// first is among them (otherwise nobody knows whether the fastest of them is faster than that); else none.
Result<std::vector<Measurement>> recall_for_choice(MeasurementStore& store, const MeasurementKey& key,
                                                   std::span<const Candidate> ranked,
                                                   std::span<const Engine* const> engines);

}  // namespace convoy::selection
