// What a network runs besides convolutions, as problems with strings, predictions and measurements: operators and
// conversions of activations.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "convert/problem.h"
#include "convoy/measurement.h"
#include "ops/problem.h"

namespace convoy::network {

struct StepProblem : std::variant<ConversionProblem, ops::OpProblem> {
  using variant::variant;
};

bool is_step_string(std::string_view text);  // begins with "op:" or "convert:"
std::string print(const StepProblem& problem);
// Errors name the field. An operator's outputs are inferred where they are left out, and checked where not.
Result<StepProblem> parse_step(std::string_view text);

// Bytes of all that is read and written, each once.
double bytes_moved(const StepProblem& problem);
double predict_seconds(const StepProblem& problem, const PlanRequest& request);

// What a measurement of it is stored with: "convert", "ops.MaxPool".
Candidate candidate_of(const StepProblem& problem);
MeasurementKey measurement_key(const StepProblem& problem, const PlanRequest& request, CacheState caches);

}  // namespace convoy::network
