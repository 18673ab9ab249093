// A run of a network as a trace that Chrome (chrome://tracing) and Perfetto (ui.perfetto.dev) show: Google's Trace
// Event Format, as JSON.
#pragma once

#include <span>
#include <string>

#include "convoy/network.h"
#include "report/json.h"

namespace convoy::report {

// A row of steps, named by the ONNX nodes they compute, and a row for each of Convoy's threads.
Json trace_document(const std::string& network, int threads, std::span<const NetworkStep> steps, const RunTrace& trace);

}  // namespace convoy::report
