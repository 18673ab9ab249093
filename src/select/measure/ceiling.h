// The machine's ceiling, measured once and remembered, and the roofline of a problem under it.
#pragma once

#include <optional>
#include <string>

#include "convoy/convolution.h"
#include "convoy/engine.h"

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

// The least time the machine could take: all of flops() at its rate, or each tensor's bytes once at the shared cache's
// rate, or where they don't fit it, the memory's. Nothing where the rate of the problem's arithmetic isn't known (only
// f32's is; on a GPU only the bytes count). Winograd needs fewer operations and can be below it.
std::optional<double> least_seconds(const ConvProblem& problem, const MachineCeiling& ceiling,
                                    const PlanRequest& request);

}  // namespace convoy::selection
