// What the processor reaches at best, in f32: the ceiling that an engine's time is compared with.
#pragma once

#include <cstdint>

#include "convoy/cpu.h"
#include "convoy/thread_team.h"

namespace convoy::cpu {

struct Ceiling {
  double f32_flops = 0;     // a second: multiplications and additions of independent FMAs in registers
  double cache_bytes = 0;   // a second: read again and again from the shared cache; 0 where there is none
  double memory_bytes = 0;  // a second: read from memory
};

// Measures with the vectors of `cpu.isa` on all threads of the team, in about a third of a second. Each figure is the
// best of several slices, so a neighbour's burst of work doesn't lower it; one that lasts does. Out of memory, or a
// failed measurement, is a figure of 0.
Ceiling measure_ceiling(const CpuFeatures& cpu, ThreadTeam& team);

}  // namespace convoy::cpu
