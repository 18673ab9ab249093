#include "solver/incumbent.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace convoy::solver {
namespace {

// By this much of the sum of absolute costs a change must be better: rounding errors are no progress.
constexpr double kProgress = 1e-12;

// The alternative that is cheapest with each neighbour's cheapest.
int cheapest_locally(const Graph& graph, int node) {
  double least = kForbidden;
  int best = graph.nodes[node].live.front();
  for (const int i : graph.nodes[node].live) {
    const double cost = with_best_neighbours(graph, node, i);
    if (cost < least) {
      least = cost;
      best = i;
    }
  }
  return best;
}

// What each alternative of a node costs with what its neighbours have chosen, without one of its edges (-1: with all).
std::vector<double> costs_now(const Graph& graph, int node, const std::vector<int>& choice, int without = -1) {
  std::vector<double> costs = graph.nodes[node].costs;
  for (const int edge : graph.nodes[node].edges) {
    if (edge == without) continue;
    const ConstSide from = side(graph, edge, node);
    for (const int i : graph.nodes[node].live) costs[i] += from.at(i, choice[from.neighbour]);
  }
  return costs;
}

// The least decrease that counts.
double least_progress(const Graph& graph, const std::vector<int>& choice) {
  double sum = std::abs(graph.constant);
  const auto add = [&sum](double cost) { sum += cost == kForbidden ? 0 : std::abs(cost); };
  for (const int node : graph.present()) add(graph.nodes[node].costs[choice[node]]);
  for (const Graph::Edge& edge : graph.edges) {
    if (edge.present) add(edge.costs[choice[edge.a] * graph.nodes[edge.b].costs.size() + choice[edge.b]]);
  }
  return kProgress * sum;
}

bool choose_node_anew(const Graph& graph, int node, double progress, std::vector<int>& choice) {
  const std::vector<double> costs = costs_now(graph, node, choice);
  int best = choice[node];
  for (const int i : graph.nodes[node].live) {
    if (costs[i] < costs[best] - progress) best = i;
  }
  return std::exchange(choice[node], best) != best;
}

bool choose_pair_anew(const Graph& graph, int edge, double progress, std::vector<int>& choice) {
  const int a = graph.edges[edge].a, b = graph.edges[edge].b;
  const std::vector<double> of_a = costs_now(graph, a, choice, edge), of_b = costs_now(graph, b, choice, edge);
  const ConstSide from = side(graph, edge, a);
  double least = of_a[choice[a]] + of_b[choice[b]] + from.at(choice[a], choice[b]);
  bool changed = false;
  for (const int i : graph.nodes[a].live) {
    for (const int j : graph.nodes[b].live) {
      const double cost = of_a[i] + of_b[j] + from.at(i, j);
      if (cost >= least - progress) continue;
      least = cost;
      choice[a] = i;
      choice[b] = j;
      changed = true;
    }
  }
  return changed;
}

}  // namespace

std::vector<int> reduce_heuristically(Graph graph) {
  Trail trail;
  ReductionCounts counts;
  Reducer reducer(graph, trail, counts, {.dominance = false}, true);  // much time for little here
  while (reducer.run()) {
    const std::vector<int> left = graph.present();
    if (left.empty()) {
      std::vector<int> choice(graph.nodes.size(), -1);
      back_propagate(trail, choice);
      return choice;
    }
    const int node =
        *std::max_element(left.begin(), left.end(), [&](int a, int b) { return graph.degree(a) < graph.degree(b); });
    reducer.choose(node, cheapest_locally(graph, node));
  }
  return {};
}

void descend(const Graph& graph, std::vector<int>& choice) {
  const std::vector<int> nodes = graph.present();
  for (const int node : nodes) {
    const std::vector<int>& live = graph.nodes[node].live;
    if (!std::binary_search(live.begin(), live.end(), choice[node])) choice[node] = live.front();
  }
  const double progress = least_progress(graph, choice);
  bool changed = true;
  while (changed) {
    changed = false;
    for (const int node : nodes) changed |= choose_node_anew(graph, node, progress, choice);
    if (changed) continue;
    for (std::size_t edge = 0; edge < graph.edges.size(); ++edge) {
      if (graph.edges[edge].present) changed |= choose_pair_anew(graph, static_cast<int>(edge), progress, choice);
    }
  }
}

}  // namespace convoy::solver
