// What differs in measuring on a processor and on a GPU, said once.
#pragma once

#include "convoy/engine.h"
#include "select/measure/energy.h"

namespace convoy::selection {

struct Habits {
  // Planning compiles kernels: slow, and done side by side on the host's threads. Otherwise a plan packs the weights.
  bool compiles = false;
  int planning_threads = 1;
  // A time stands: nobody else was in its way. Otherwise it may have been another process's slice of the processor.
  bool undisturbed = false;
  // Contents are made there and judged there, so a testbed takes no time worth counting.
  bool makes_data = false;
  // How long to run for the energy counter, which moves once a millisecond, a GPU's every 20 to 100 of them.
  double energy_seconds = 0.2;
};
Habits habits_on(const PlanRequest& request);

// The counter of the request's device.
Result<EnergyCounter> open_energy_counter(const PlanRequest& request);

// For messages: "2 threads, avx2", "cuda:0 NVIDIA H200".
std::string place_text(const PlanRequest& request);

}  // namespace convoy::selection
