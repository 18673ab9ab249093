// Measurements of what a network runs besides convolutions: operators (candidate "ops.MaxPool", problem "op:...") and
// conversions (candidate "convert", problem "convert:..."). The stores of measurements keep them with the others; the
// problems themselves are known to src/network/cost only.
#pragma once

#include <string>
#include <string_view>

#include "convoy/measurement.h"

namespace convoy::selection {

// Raised when an operator or a conversion becomes clearly faster or slower: older measurements are made again.
inline constexpr int kStepRevision = 6;

bool is_step(const Candidate& candidate);
bool is_step_problem(std::string_view problem);

// oneDNN with its version: pooling and softmax run through it.
std::string step_provider();

// As measurement_key: `problem` is the problem string.
MeasurementKey step_key(std::string problem, const PlanRequest& request, CacheState caches);

}  // namespace convoy::selection
