// Which of several measured candidates is best.
#pragma once

#include <span>

#include "convoy/selection.h"

namespace convoy::selection {

// The smallest of one kind among the candidates that may win: what a value is divided by.
struct ObjectiveScale {
  double seconds = 0;
  double workspace_bytes = 0;
  double joules = 0;  // 0 where any of them has no measured energy
};
ObjectiveScale scale_of(std::span<const Measurement> measurements);

// See Objective. A measurement without energy has an infinite score where energy has a weight.
double score(const Measurement& measurement, const Objective& objective, const ObjectiveScale& scale);

// The best of those that did not fail and that `may_win`; null where there is none (or, where energy has a weight, none
// whose energy is known). Among candidates that were cut off only if there are no others: their times are rough.
// `measurements` are sorted by sort_measurements, so that equal scores go to the faster. Where time alone counts, the
// first of `ranked` (best predicted first) that may win, the heuristic's choice, yields only to what is_faster()
// (select/evidence.h): among many that are nearly as fast the fastest measured is the one that was luckiest.
const Measurement* best_of(std::span<const Measurement> measurements, const Objective& objective,
                           std::span<const Candidate> ranked, DeviceKind device,
                           FunctionRef<bool(const Measurement&)> may_win);

}  // namespace convoy::selection
