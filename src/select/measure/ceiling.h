// The machine's ceiling, measured once and remembered, and the roofline of a problem under it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "convoy/convolution.h"
#include "convoy/measurement.h"

namespace convoy::selection {

// Rates a second; 0: not known.
struct MachineCeiling {
  double f32_flops = 0;
  double cache_bytes = 0;  // from the cache that cores share
  double memory_bytes = 0;
  std::string date;  // when it was measured, "2026-11-22"; empty on a GPU, where it is what predictions take
  bool kept = true;  // in the file; false where that can't be written
};

// The file that keeps them, a line for each processor, instruction set and number of threads:
// convoy/ceilings.txt in XDG_CACHE_HOME. Empty where there is no such folder.
std::string ceilings_file();

// Of the processor and threads, or the GPU, of the request. The first time on a CPU, or `again`: measured, which takes
// a third of a second.
MachineCeiling machine_ceiling(const PlanRequest& request, bool again = false);

// The least time the machine could take: all of flops() at its rate, or each tensor's bytes once: of what doesn't fit
// the threads' private caches at the shared cache's rate, or of all that doesn't fit half of that, at the memory's.
// Nothing where the rate of the problem's arithmetic isn't known (only f32's is; on a GPU only the bytes count).
// Winograd needs fewer operations and can be below it.
std::optional<double> least_seconds(const ConvProblem& problem, const MachineCeiling& ceiling,
                                    const PlanRequest& request);

// What a right candidate took. One sample says it: nothing makes a run faster than it can be.
struct Reached {
  ConvProblem problem;
  double seconds = 0;
  bool all_arithmetic = true;  // not where its notes say that it needs fewer operations
};
// Of a measurement; nothing where it failed.
std::optional<Reached> reached(const ConvProblem& problem, const Measurement& measurement,
                               std::span<const Engine* const> engines, const PlanRequest& request);

// The ceiling, raised to rates that a processor reached: it was measured while somebody else was in the way. A raised
// one has today's date and takes the other's place in the file.
MachineCeiling raised(const MachineCeiling& ceiling, std::span<const Reached> all, const PlanRequest& request);

}  // namespace convoy::selection
