// The memory of activations as what alternatives of a layout problem use. The schedule is fixed: nodes in the graph's
// order, each behind the conversions that it is the first to need (conversions() and lower()). So whether a value is
// alive in a layout while a step runs follows from the layouts of its writer and its readers.
#pragma once

#include <vector>

#include "network/assign/layout_problem.h"
#include "solver/resources.h"

namespace convoy::network {

// What is alive at each point of the schedule: there is one for each node and one for each conversion that may be
// needed before it, whether it is or not. No assignment uses more at any point than lower() finds alive, and at its
// peak it uses as much, but for these, of which less is counted: values that more read than LayoutProblem says layouts
// for, or one in two layouts; what is read beside a Transpose that relabels it; results that nobody named.
struct LiveBytes {
  std::vector<solver::Resource> points;  // named by what runs there
  std::vector<double> fixed;             // by point: whatever is chosen
};
LiveBytes live_bytes(const Graph& graph, const LayoutProblem& layouts, const std::vector<int>& exports);

// Values that nodes read whose sizes are known only when they run: kept until the end, row-major.
std::vector<int> values_of_dynamic_subgraph(const Graph& graph);

}  // namespace convoy::network
