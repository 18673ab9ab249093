// A problem while it is being solved: nodes, alternatives and edges disappear, costs move between nodes, edges and the
// constant, and the cost of every assignment that is left stays what it was.
#pragma once

#include <cstddef>
#include <vector>

#include "solver/problem.h"

namespace convoy::solver {

struct Graph {
  struct Node {
    std::vector<double> costs;  // by alternative
    std::vector<int> live;      // the alternatives that are left, ascending
    std::vector<int> edges;     // that are present
    bool present = true;
  };
  struct Edge {
    int a = 0, b = 0;
    std::vector<double> costs;  // a's alternatives are the rows
    bool present = true;
  };

  double constant = 0;  // part of every assignment's cost
  std::vector<Node> nodes;
  std::vector<Edge> edges;

  Graph() = default;
  explicit Graph(const Problem& problem);  // every alternative is live, also forbidden ones

  int degree(int node) const { return static_cast<int>(nodes[node].edges.size()); }
  int live(int node) const { return static_cast<int>(nodes[node].live.size()); }
  std::vector<int> present() const;      // nodes, ascending
  int edge_between(int a, int b) const;  // -1: none
  int add_edge(int a, int b);            // of zeros
  void remove_edge(int edge);

  // The cost of an assignment of the nodes that are present.
  double cost(const std::vector<int>& choice) const;
};

// An edge as seen from one of its ends: at(i, j) is the cost of its own alternative i with the neighbour's j.
template <class Cost>
struct SideOf {
  int neighbour = 0;
  Cost* costs = nullptr;
  std::ptrdiff_t own = 0, other = 0;  // strides
  Cost& at(int i, int j) const { return costs[i * own + j * other]; }
};
using Side = SideOf<double>;
using ConstSide = SideOf<const double>;
Side side(Graph& graph, int edge, int node);
ConstSide side(const Graph& graph, int edge, int node);

// What an alternative of a node costs with each neighbour's alternative that is cheapest with it, the edge between them
// counted; the neighbours' other edges are not. kForbidden: with none.
double with_best_neighbours(const Graph& graph, int node, int alternative);

// Part of a graph as one of its own, with nothing in it but nodes that are present and alternatives that are live.
struct Subgraph {
  Graph graph;
  std::vector<int> nodes;                      // what its nodes were
  std::vector<std::vector<int>> alternatives;  // what theirs were

  // Writes an assignment of the part into one of the whole.
  void lift(const std::vector<int>& part, std::vector<int>& whole) const;
};
// `nodes`: present ones with all their neighbours. The constant is 0.
Subgraph extract(const Graph& graph, const std::vector<int>& nodes);

// The nodes that are present by connected component, ordered by their lowest node.
std::vector<std::vector<int>> components(const Graph& graph);

}  // namespace convoy::solver
