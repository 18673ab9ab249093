// What a program would take with every tensor in one layout: predicted from times of its convolutions' twins, the same
// problems in that layout.
//
// A twin takes the least of its own fastest engine and of the other layout's fastest plus the copies of x, w and y
// there and back (bytes read and written / what the GPU copies a second). Engines lose no more than the one that ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/program_report.h"

namespace convoy::report {

struct LayoutTotal {
  Layout layout = Layout::nchw;
  int convolutions = 0;      // counted here: this layout's time and that of the run are known
  double seconds = 0;        // of their timed calls, in this layout
  double as_it_ran = 0;      // of the same calls
  double best_as_it_is = 0;  // of the same calls, with the best engines of the layouts that the program has
  int converted = 0;         // of these convolutions, those for which copies to the other layout and back are cheapest
  int missing = 0;           // convolutions with a time that have none in this layout
};

struct LayoutComparison {
  std::vector<LayoutTotal> totals;  // nchw, nhwc
  std::optional<double> bandwidth;  // bytes/s, read and written; nothing: unknown, so no copies are counted
  std::string twins;                // problem list of what is to be measured for the rest
};

// Bytes/s of a copy on a GPU, read and written counted, where it was measured.
std::optional<double> copy_bandwidth(const std::string& device);

// The problem with x, w and y packed in `layout`, at their alignments.
ConvProblem twin_of(ConvProblem problem, Layout layout);

// `bandwidth`: what the caller says instead of copy_bandwidth().
LayoutComparison compare_layouts(const ProgramReport& report, const KnownTimes& known, const NotesOf& notes_of,
                                 std::optional<double> bandwidth = std::nullopt);

}  // namespace convoy::report
