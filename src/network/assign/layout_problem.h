// The choice of formats as a problem for the solver, and what its nodes mean.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "network/assign/assignment.h"
#include "network/assign/layout_rules.h"
#include "network/cost/chooser.h"
#include "solver/problem.h"

namespace convoy::network {

struct LayoutProblem {
  // A value that several read, or one and somebody who needs it row-major. It is a node of the problem.
  struct Shared {
    struct Held {  // an alternative
      Format written;
      Threads threads = Threads::all;  // by which, and converted by them
      std::vector<Format> all;         // that it exists in; `written` first
      std::vector<Format> read;  // by its readers, in their order, then at the end if it is needed there; may be empty:
                                 // not said
    };
    int number = -1;  // of the problem's node
    std::vector<int> readers;
    std::vector<Held> alternatives;
  };

  solver::Problem problem;
  std::vector<std::vector<NodeFormats>>
      formats;                            // by the graph's node: its alternatives; empty where it is not planned
  std::vector<std::vector<int>> unfused;  // likewise: what takes least with those formats, as Forms::unfused
  // Likewise, where weights' memory counts: a convolution's candidates that may be best with those formats, each an
  // alternative. Else no candidates: whichever takes least.
  std::vector<std::vector<Chooser::Option>> options;
  std::vector<std::vector<double>> seconds;                // likewise, of `formats`, without conversions
  std::vector<std::vector<std::optional<double>>> joules;  // likewise, of `formats`: where its energy was measured
  std::vector<int> numbers;                                // by the graph's node: the problem's; -1: none
  std::map<int, Shared> shared;                            // by value
  int costs = 0, measured = 0;                             // that the problem was made from

  Forms chosen(const std::vector<int>& choice) const;
};

// With a goal for activations a shared value's alternatives say who reads which format, where it has few readers. With
// any, no fusion is undone: what is alive in between is not counted.
Result<LayoutProblem> layout_problem(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser,
                                     const MemoryGoal& goal);

}  // namespace convoy::network
