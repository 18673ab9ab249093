// Assignments as plans (convoy/network_plan.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/network_plan.h"
#include "network/assign/assignment.h"

namespace convoy::network {

// By node of a graph whose passes have run: how many of its last fusions a plan has lines without
// (network/graph/unfuse.h).
std::vector<int> unfused_by(const NetworkPlan& plan, const Graph& graph);

// What preparing this graph with these options would have in the header, if the whole batch is run at once.
NetworkPlanHeader header_of(const Graph& graph, const NetworkOptions& options);

// The same for the same assignment and the same known times. The graph is that of a part, if the header has parts.
NetworkPlan plan_of(const Graph& graph, const Assignment& assignment, const NetworkPlanHeader& header,
                    Chooser& chooser);

// What a plan says, for this graph, its fusions undone as the plan has it. `own` is the header that fits. Strict:
// whatever does not fit is an error that names the line. Lenient: a node whose line does not fit, or that has none, is
// decided as `how` of the options decides, and `remarks` gets a line for each. It also gets one for each candidate that
// is written as before configurations had names.
Result<Assignment> assign(const Graph& graph, const NetworkPlan& plan, const NetworkPlanHeader& own,
                          const NetworkOptions& options, Chooser& chooser, std::vector<std::string>& remarks);

// The error with the number of the line that it is in; 0: of no file.
Error at_line(int number, const Error& error);
std::string in_quotes(std::string_view name);

}  // namespace convoy::network
