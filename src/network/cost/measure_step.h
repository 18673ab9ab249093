// Measuring an operator or a conversion: verified, then timed with the caches as a network leaves them.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "convoy/host_tensor.h"
#include "network/cost/step_problem.h"

namespace convoy::network {

struct StepMeasuring {
  CacheState caches = CacheState::cold;  // cold, warm or all_cold
  double budget_seconds = 1;             // for the samples
  bool beside_copy = false;              // times a parallel copy of as many bytes in turns with it
  bool energy = false;                   // measures that of one execution, too; `unsupported` where it can't be
  std::function<double()> clock = monotonic_seconds;  // of the samples and their budget
};

struct StepMeasurement {
  Measurement measurement;    // with `failure` where it failed to run, or its result is wrong
  std::string runs_on;        // "onednn.pooling", "convert to_inner"
  double copy_seconds = 0;    // beside_copy: the copy's median
  std::int64_t outliers = 0;  // samples that don't count
};

// On random data. Before it is timed its result is compared with that of another way: an operator's with the same
// operator on packed row-major tensors (floats within what another order of summation may change, 8-bit integers within
// 1), a conversion's with copy_tensor, bit by bit. The output holds other bytes beforehand in the two, so what is not
// written is found even where both are row-major. Errors: no memory, the problem is none that the operator plans.
Result<StepMeasurement> measure_step(const StepProblem& problem, const PlanRequest& request,
                                     const StepMeasuring& measuring);

// The largest difference of two tensors of the same type and dims, in units of what is allowed between an operator's
// results in two layouts: over 1 is wrong. A NaN is equal to a NaN only.
double difference(const HostTensor& expected, const HostTensor& actual);

// Measures those problems of `problems` that the store has no complete measurement of, one after the other, each for
// its share of the time (0: as long as it takes), and stores them. A failure is stored like a time. Problems that
// nothing can be measured of (no memory, an operator that can't be planned on random data) are passed over. `energy`:
// it is measured, too, and a measurement without it does not count.
Result<void> measure_steps(std::span<const StepProblem> problems, const PlanRequest& request, CacheState caches,
                           double budget_seconds, MeasurementStore& store, bool energy = false,
                           const std::function<double()>& clock = monotonic_seconds);

// The measurement that a store has of a problem, of few samples, too: a large step takes few within a budget, and they
// say more than a prediction, unless they seem disturbed. Nothing: there is none that counts, or its operator failed.
std::optional<Measurement> find_step(MeasurementStore& store, const StepProblem& problem, const PlanRequest& request,
                                     CacheState caches);

}  // namespace convoy::network
