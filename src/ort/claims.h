// Which nodes of a graph run as one: sets that can be replaced by a node each.
#pragma once

#include <span>
#include <vector>

namespace convoy::ort {

struct ClaimNode {
  std::vector<int> producers;  // nodes before it in the span that make its inputs
  bool wanted = false;
};

// Sets of wanted nodes, the largest first, each connected and convex: no path leaves it and comes back. `nodes` are in
// an order in which they can run.
std::vector<std::vector<int>> claims_of(std::span<const ClaimNode> nodes);

}  // namespace convoy::ort
