// Stored measurements beside this machine: which speak for it, and one of them measured again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "convoy/selection.h"

namespace convoy::selection {

inline constexpr std::string_view kAnotherDevice = "another device";

// Why a stored measurement says nothing of what this build would run where `request` says, with any number of threads
// that it has: "another device", "an outdated engine or library". Nothing where it does.
std::optional<std::string> inapplicable(const MeasurementKey& key, const Measurement& measurement,
                                        const PlanRequest& request, std::span<const Engine* const> engines);

// Verifies and times the candidate once more, with the threads, weights and multiprocessors of the key. What was timed
// in a network is timed alone, with the caches that networks leave. Precondition: it is applicable. An error: it could
// not be measured; a candidate that fails or is wrong is a measurement.
Result<Measurement> measure_again(const MeasurementKey& key, const Candidate& candidate, const PlanRequest& request,
                                  std::span<const Engine* const> engines, double budget_seconds);

}  // namespace convoy::selection
