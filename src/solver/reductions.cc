#include "solver/reductions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace convoy::solver {
namespace {

// What is left of a separable edge, relative to what was there, is rounding errors.
constexpr double kRounding = 16 * std::numeric_limits<double>::epsilon();

}  // namespace

void back_propagate(const Trail& trail, std::vector<int>& choice) {
  for (auto gone = trail.rbegin(); gone != trail.rend(); ++gone) {
    double least = kForbidden;
    choice[gone->node] = gone->live.front();
    for (const int i : gone->live) {
      double cost = gone->costs[i];
      for (const Eliminated::Reader& reader : gone->readers) {
        cost += reader.costs[i * reader.own + choice[reader.neighbour] * reader.other];
      }
      if (cost < least) {
        least = cost;
        choice[gone->node] = i;
      }
    }
  }
}

Reducer::Reducer(Graph& graph, Trail& trail, ReductionCounts& counts, const Rules& rules, bool fresh)
    : graph_(graph), trail_(trail), counts_(counts), rules_(rules) {
  for (const int node : graph_.present()) {
    file(node);
    if (!fresh) continue;
    touched_nodes_.insert(node);
    for (const int edge : graph_.nodes[node].edges) touched_edges_.insert(edge);
    for (const int i : std::vector<int>(graph_.nodes[node].live)) {
      if (graph_.nodes[node].costs[i] == kForbidden) {
        remove(node, i);
        ++counts_.forbidden;
      }
    }
  }
}

void Reducer::touch(int edge) {
  touched_edges_.insert(edge);
  touched_nodes_.insert(graph_.edges[edge].a);
  touched_nodes_.insert(graph_.edges[edge].b);
}

void Reducer::file(int node) {
  for (auto& nodes : by_degree_) nodes.erase(node);
  const int degree = graph_.degree(node);
  const bool reducible = degree == 0 || (degree == 1 && rules_.r1) || (degree == 2 && rules_.r2);
  if (graph_.nodes[node].present && reducible) by_degree_[degree].insert(node);
}

bool Reducer::run() {
  // Cheap ones first; dominance before RII, whose tables it makes smaller.
  const auto take = [](std::set<int>& nodes) { return nodes.extract(nodes.begin()).value(); };
  while (infeasible_ < 0) {
    if (!by_degree_[0].empty()) {
      eliminate(take(by_degree_[0]));
    } else if (!by_degree_[1].empty()) {
      eliminate(take(by_degree_[1]));
    } else if (!touched_edges_.empty()) {
      const int edge = take(touched_edges_);
      if (graph_.edges[edge].present) normalise(edge);
    } else if (rules_.dominance && !touched_nodes_.empty()) {
      const int node = take(touched_nodes_);
      if (graph_.nodes[node].present) remove_dominated(node);
    } else if (!by_degree_[2].empty()) {
      eliminate(take(by_degree_[2]));
    } else {
      return true;
    }
  }
  return false;
}

void Reducer::remove(int node, int alternative) {
  std::erase(graph_.nodes[node].live, alternative);
  if (graph_.nodes[node].live.empty()) infeasible_ = node;
  for (const int edge : graph_.nodes[node].edges) touch(edge);
}

void Reducer::choose(int node, int alternative) {
  for (const int i : std::vector<int>(graph_.nodes[node].live)) {
    if (i != alternative) remove(node, i);
  }
}

// ---- R0, RI, RII

void Reducer::eliminate(int node) {
  Graph::Node& gone = graph_.nodes[node];
  const std::vector<int> edges = gone.edges;
  if (edges.empty()) {
    double least = kForbidden;
    for (const int i : gone.live) least = std::min(least, gone.costs[i]);
    graph_.constant += least;
    ++counts_.r0;
  } else if (edges.size() == 1) {
    add_to_neighbour(node);
    ++counts_.r1;
  } else {
    add_between_neighbours(node);
    ++counts_.r2;
  }
  Eliminated step{.node = node, .live = gone.live, .costs = {}, .readers = {}};
  gone.present = false;
  for (const int edge : edges) {
    const Side from = side(graph_, edge, node);
    step.readers.push_back({.neighbour = from.neighbour,
                            .costs = std::move(graph_.edges[edge].costs),
                            .own = from.own,
                            .other = from.other});
    graph_.remove_edge(edge);
    file(from.neighbour);
    touched_nodes_.insert(from.neighbour);
  }
  step.costs = std::move(graph_.nodes[node].costs);
  trail_.push_back(std::move(step));
}

void Reducer::add_to_neighbour(int node) {
  const Graph::Node& gone = graph_.nodes[node];
  const Side from = side(graph_, gone.edges[0], node);
  Graph::Node& neighbour = graph_.nodes[from.neighbour];
  for (const int j : std::vector<int>(neighbour.live)) {
    double least = kForbidden;
    for (const int i : gone.live) least = std::min(least, gone.costs[i] + from.at(i, j));
    neighbour.costs[j] += least;
    if (neighbour.costs[j] == kForbidden) {
      remove(from.neighbour, j);
      ++counts_.forbidden;
    }
  }
}

void Reducer::add_between_neighbours(int node) {
  const int first = side(graph_, graph_.nodes[node].edges[0], node).neighbour;
  const int second = side(graph_, graph_.nodes[node].edges[1], node).neighbour;
  int between = graph_.edge_between(first, second);
  if (between < 0) between = graph_.add_edge(first, second);
  touch(between);
  const Graph::Node& gone = graph_.nodes[node];
  const Side to_first = side(graph_, gone.edges[0], node), to_second = side(graph_, gone.edges[1], node);
  const Side sum = side(graph_, between, first);
  std::vector<double> least(graph_.nodes[second].costs.size());
  for (const int j : graph_.nodes[first].live) {
    std::fill(least.begin(), least.end(), kForbidden);
    for (const int i : gone.live) {
      const double cost = gone.costs[i] + to_first.at(i, j);
      if (cost == kForbidden) continue;
      for (const int k : graph_.nodes[second].live) least[k] = std::min(least[k], cost + to_second.at(i, k));
    }
    for (const int k : graph_.nodes[second].live) sum.at(j, k) += least[k];
  }
}

// ---- edges and alternatives

void Reducer::normalise(int edge) {
  const int ends[] = {graph_.edges[edge].a, graph_.edges[edge].b};
  double before = 0, left = 0;
  for (const int node : ends) {
    const Side from = side(graph_, edge, node);
    for (const int i : std::vector<int>(graph_.nodes[node].live)) {
      double least = kForbidden;
      for (const int j : graph_.nodes[from.neighbour].live) least = std::min(least, from.at(i, j));
      if (least == kForbidden) {
        remove(node, i);
        ++counts_.forbidden;
        if (infeasible_ >= 0) return;
        continue;
      }
      graph_.nodes[node].costs[i] += least;
      for (const int j : graph_.nodes[from.neighbour].live) {
        double& cost = from.at(i, j);
        if (cost == kForbidden) continue;
        before = std::max(before, std::abs(cost));
        cost -= least;
      }
    }
  }
  if (!rules_.separable) return;
  for (const int i : graph_.nodes[ends[0]].live) {
    for (const int j : graph_.nodes[ends[1]].live) left = std::max(left, side(graph_, edge, ends[0]).at(i, j));
  }
  if (left > before * kRounding) return;
  graph_.remove_edge(edge);
  ++counts_.separable;
  for (const int node : ends) file(node);
}

// Whether `worse` never costs less than `better`: not by itself, and not by any edge, each at its worst for `better`.
bool Reducer::dominates(int node, int better, int worse) const {
  const Graph::Node& own = graph_.nodes[node];
  double gain = own.costs[worse] - own.costs[better];
  if (gain < 0) return false;
  for (const int edge : own.edges) {
    const ConstSide from = side(static_cast<const Graph&>(graph_), edge, node);
    double least = kForbidden;
    for (const int j : graph_.nodes[from.neighbour].live) {
      const double cost = from.at(worse, j);
      if (cost != kForbidden) least = std::min(least, cost - from.at(better, j));
    }
    gain += least;
    // Edges are normalised: where `worse` costs nothing, `better` costs no less, so that no edge can make up for
    // others.
    if (gain < 0) return false;
  }
  return true;
}

void Reducer::remove_dominated(int node) {
  // From the last, so that of equal alternatives the first stays.
  const std::vector<int> candidates = graph_.nodes[node].live;
  for (auto worse = candidates.rbegin(); worse != candidates.rend(); ++worse) {
    for (const int better : graph_.nodes[node].live) {
      if (better == *worse || !dominates(node, better, *worse)) continue;
      remove(node, *worse);
      ++counts_.dominated;
      break;
    }
  }
}

}  // namespace convoy::solver
