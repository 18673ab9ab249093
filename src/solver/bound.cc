#include "solver/bound.h"

#include <algorithm>

namespace convoy::solver {
namespace {

// What the node's edges ask at least for each of its alternatives becomes the node's, and the node's least cost the
// constant's.
void pull(Graph& graph, int node) {
  Graph::Node& own = graph.nodes[node];
  for (const int edge : own.edges) {
    const Side from = side(graph, edge, node);
    const std::vector<int>& theirs = graph.nodes[from.neighbour].live;
    for (const int i : own.live) {
      double least = kForbidden;
      for (const int j : theirs) least = std::min(least, from.at(i, j));
      if (least == 0 || least == kForbidden) continue;
      own.costs[i] += least;
      for (const int j : theirs) from.at(i, j) -= least;  // infinity stays
    }
  }
  double least = kForbidden;
  for (const int i : own.live) least = std::min(least, own.costs[i]);
  for (const int i : own.live) own.costs[i] -= least;
  graph.constant += least;
}

// A share of the node's costs goes to each edge towards nodes that come later in the order, so that they see them.
void push(Graph& graph, int node, bool forward) {
  Graph::Node& own = graph.nodes[node];
  int later = 0;
  for (const int edge : own.edges) later += (side(graph, edge, node).neighbour > node) == forward;
  if (later == 0) return;
  const int earlier = static_cast<int>(own.edges.size()) - later;
  const double share = 1.0 / std::max(earlier, later);
  std::vector<double> given(own.costs.size());
  for (const int i : own.live) given[i] = own.costs[i] * share;
  for (const int edge : own.edges) {
    const Side from = side(graph, edge, node);
    if ((from.neighbour > node) != forward) continue;
    for (const int i : own.live) {
      if (given[i] == 0) continue;
      for (const int j : graph.nodes[from.neighbour].live) from.at(i, j) += given[i];
    }
  }
  for (const int i : own.live) own.costs[i] = std::max(0.0, own.costs[i] - later * given[i]);
}

}  // namespace

std::int64_t raise_bound(Graph& graph, int passes, double upper, double least_gain) {
  const std::vector<int> nodes = graph.present();
  std::int64_t entries = 0;
  for (const Graph::Edge& edge : graph.edges) {
    if (edge.present) entries += static_cast<std::int64_t>(graph.live(edge.a)) * graph.live(edge.b);
  }
  std::int64_t seen = 0;
  // Costs may be negative at first, and then minima that move are, too: once through, they are not.
  for (const int node : nodes) pull(graph, node);
  seen += 2 * entries;
  for (int pass = 0; pass < passes && graph.constant < upper; ++pass) {
    const double before = graph.constant;
    for (const int node : nodes) {
      pull(graph, node);
      push(graph, node, true);
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      pull(graph, *node);
      push(graph, *node, false);
    }
    seen += 6 * entries;
    const double missing = upper == kForbidden ? graph.constant - before : upper - before;
    if (graph.constant - before <= least_gain * missing) break;
  }
  for (const int node : nodes) pull(graph, node);
  return seen + 2 * entries;
}

std::vector<double> alternative_bounds(const Graph& graph, int node) {
  std::vector<double> bounds;
  for (const int i : graph.nodes[node].live) bounds.push_back(graph.constant + with_best_neighbours(graph, node, i));
  return bounds;
}

}  // namespace convoy::solver
