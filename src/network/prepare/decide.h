// What a graph runs on: as a plan says that is obeyed, else as a rule and the chooser have it.
#pragma once

#include <string>
#include <vector>

#include "convoy/network_plan.h"
#include "network/assign/assignment.h"
#include "network/graph/graph.h"

namespace convoy::network {

struct Decided {
  Graph graph;  // fusions that are not wanted are undone
  Assignment assignment;
  std::vector<std::string> remarks;
};

// By the chooser's options: their plan, the one that was kept, or `how`. The graph has had its passes, and `header` is
// that of plans for it. Errors: those of a plan that does not fit, and of choosing.
Result<Decided> decide(Graph graph, const NetworkPlanHeader& header, Chooser& chooser);

}  // namespace convoy::network
