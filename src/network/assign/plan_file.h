// Assignments as text (convoy/network_plan.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/network_plan.h"
#include "network/assign/assignment.h"

namespace convoy::network {

// A line of a node or conversion.
struct PlanLine {
  int number = 0;                           // in the file, from 1
  std::string kind;                         // "conv", "op", "relabel", "inplace", "convert"
  std::string name;                         // of the nodes, or of a conversion's value
  std::string runs_on;                      // a candidate, an operator's name, "-"
  std::string from, to;                     // "f32,nchw"; "-" where no activation is read, or written
  std::optional<Selector::Cost> cost = {};  // as it is written there, for people; nothing: "-"
  Threads threads = Threads::all;           // one: "threads=1"
  // Wherever they are, and however a candidate is written: what it says has been obeyed before lines are compared.
  friend bool operator==(const PlanLine& a, const PlanLine& b) {
    return a.kind == b.kind && a.name == b.name && (a.kind == "conv" || a.runs_on == b.runs_on) && a.from == b.from &&
           a.to == b.to;
  }
};

struct PlanFile {
  NetworkPlanHeader header;
  std::vector<PlanLine> lines;
};

// Errors name the line and what is wrong in it.
Result<PlanFile> parse_plan(std::string_view text);

// By node of a graph whose passes have run: how many of its last fusions a plan has lines without
// (network/graph/unfuse.h).
std::vector<int> unfused_by(const PlanFile& plan, const Graph& graph);

// What preparing this graph with these options would have in the header, if the whole batch is run at once.
NetworkPlanHeader header_of(const Graph& graph, const NetworkOptions& options);

// The same text for the same assignment and the same known times. The graph is that of a part, if the header has parts.
std::string plan_text(const Graph& graph, const Assignment& assignment, const NetworkPlanHeader& header,
                      Selector& selector);

// What a plan says, for this graph, its fusions undone as the plan has it. `own` is the header that fits. Strict:
// whatever does not fit is an error that names the line. Lenient: a node whose line does not fit, or that has none, is
// decided as `how` of the options decides, and `remarks` gets a line for each. It also gets one for each candidate that
// is written as before configurations had names.
Result<Assignment> assign(const Graph& graph, const PlanFile& plan, const NetworkPlanHeader& own,
                          const NetworkOptions& options, Selector& selector, std::vector<std::string>& remarks);

}  // namespace convoy::network
