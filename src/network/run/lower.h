// From a graph whose passes have run, and an assignment, to a program: it decides nothing. Nodes whose outputs are not
// known are left to the caller.
#pragma once

#include <span>

#include "network/assign/assignment.h"
#include "network/graph/graph.h"
#include "network/run/program.h"

namespace convoy::network {

struct Lowered {
  Program program;
  // A slot (packed nchw) for each value of `exports` asked for: alive until the end of the program.
  std::vector<int> export_slots;
};

// Where nodes run, and by whom plans are made.
struct Makers {
  std::span<const Place> places;
  std::span<const Engine* const> engines;
};

// Lowers the nodes whose outputs are known, in the graph's order, as the assignment says. Constants are released from
// the graph as soon as their last reader has been lowered, but for those in `exports` (values that later nodes read).
Result<Lowered> lower(Graph& graph, const Assignment& assignment, std::span<const int> exports, const Makers& makers);

// The bytes of the arena that a program with these layouts gets on the processor, without making its steps, and the
// most of them that are alive during one: placing buffers may leave gaps. Convolutions need no engine yet.
struct ActivationBytes {
  std::int64_t arena = 0;
  std::int64_t live = 0;
  std::int64_t constants = 0;  // besides: those that steps read as they are, weights that convolutions pack left out
};
Result<ActivationBytes> activation_bytes(const Graph& graph, const std::vector<NodeFormats>& formats,
                                         std::span<const int> exports);

}  // namespace convoy::network
