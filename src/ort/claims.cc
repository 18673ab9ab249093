#include "ort/claims.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace convoy::ort {

std::vector<std::vector<int>> claims_of(std::span<const ClaimNode> nodes) {
  // How often a path from a wanted node to this one goes through nodes that are not wanted, at most. It never falls
  // along a path, so nodes of one number that follow each other are convex.
  constexpr int kNone = -1;  // behind no wanted node
  std::vector<int> left(nodes.size(), kNone);
  std::vector<int> set(nodes.size());
  std::iota(set.begin(), set.end(), 0);
  const auto set_of = [&](int node) {
    while (set[node] != node) node = set[node] = set[set[node]];
    return node;
  };
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    if (nodes[n].wanted) left[n] = 0;
    for (const int from : nodes[n].producers) {
      const bool returns = nodes[n].wanted && !nodes[from].wanted && left[from] != kNone;
      left[n] = std::max(left[n], left[from] + (returns ? 1 : 0));
    }
    if (!nodes[n].wanted) continue;
    for (const int from : nodes[n].producers) {
      if (nodes[from].wanted && left[from] == left[n]) set[set_of(from)] = set_of(n);
    }
  }
  std::map<int, std::vector<int>> found;
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    if (nodes[n].wanted) found[set_of(n)].push_back(n);
  }
  std::vector<std::vector<int>> claims;
  for (auto& each : found) claims.push_back(std::move(each.second));
  std::ranges::stable_sort(claims, std::ranges::greater(), &std::vector<int>::size);
  return claims;
}

}  // namespace convoy::ort
