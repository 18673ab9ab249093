// What the caches hold while a network runs.
#pragma once

#include "convoy/cpu.h"
#include "convoy/selection_options.h"
#include "network/graph/graph.h"

namespace convoy::network {

// Whether all that a run of the network touches stays in one core's L2 from run to run: its constants and the
// activations that are alive at once, as the graph has them, with a quarter left for what this doesn't count (packed
// weights are padded, steps have workspaces, code and the program around it are there, too). Then no step finds its
// data swept out by the others. Not where sizes are known only when it runs.
bool stays_in_cache(const Graph& graph, const CpuFeatures& cpu);

// Cold caches are what other layers leave. Where there are too few of them to leave any, costs are those of warm ones.
// For a graph after its passes; what was decided stays, for those that are parts of it.
void decide_caches(const Graph& graph, const CpuFeatures& cpu, SelectionOptions& selection);

}  // namespace convoy::network
