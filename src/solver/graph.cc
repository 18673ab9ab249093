#include "solver/graph.h"

#include <algorithm>
#include <numeric>

namespace convoy::solver {

Graph::Graph(const Problem& problem) {
  for (const Problem::Node& node : problem.nodes()) {
    Node& own = nodes.emplace_back();
    own.costs = node.costs;
    own.live.resize(node.costs.size());
    std::iota(own.live.begin(), own.live.end(), 0);
  }
  for (const Problem::Edge& edge : problem.edges()) edges[add_edge(edge.a, edge.b)].costs = edge.costs;
}

std::vector<int> Graph::present() const {
  std::vector<int> found;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].present) found.push_back(static_cast<int>(node));
  }
  return found;
}

int Graph::edge_between(int a, int b) const {
  if (degree(b) < degree(a)) std::swap(a, b);
  for (const int edge : nodes[a].edges) {
    if (edges[edge].a == b || edges[edge].b == b) return edge;
  }
  return -1;
}

int Graph::add_edge(int a, int b) {
  const int edge = static_cast<int>(edges.size());
  edges.push_back({.a = a, .b = b, .costs = std::vector<double>(nodes[a].costs.size() * nodes[b].costs.size())});
  nodes[a].edges.push_back(edge);
  nodes[b].edges.push_back(edge);
  return edge;
}

void Graph::remove_edge(int edge) {
  edges[edge].present = false;
  std::erase(nodes[edges[edge].a].edges, edge);
  std::erase(nodes[edges[edge].b].edges, edge);
  edges[edge].costs = {};
}

double Graph::cost(const std::vector<int>& choice) const {
  double sum = constant;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].present) sum += nodes[node].costs[choice[node]];
  }
  for (const Edge& edge : edges) {
    if (edge.present) sum += edge.costs[choice[edge.a] * nodes[edge.b].costs.size() + choice[edge.b]];
  }
  return sum;
}

namespace {

template <class Cost, class AnyGraph>
SideOf<Cost> side_of(AnyGraph& graph, int edge, int node) {
  auto& e = graph.edges[edge];
  const auto columns = static_cast<std::ptrdiff_t>(graph.nodes[e.b].costs.size());
  if (e.a == node) return {.neighbour = e.b, .costs = e.costs.data(), .own = columns, .other = 1};
  return {.neighbour = e.a, .costs = e.costs.data(), .own = 1, .other = columns};
}

}  // namespace

Side side(Graph& graph, int edge, int node) { return side_of<double>(graph, edge, node); }
ConstSide side(const Graph& graph, int edge, int node) { return side_of<const double>(graph, edge, node); }

double with_best_neighbours(const Graph& graph, int node, int alternative) {
  double sum = graph.nodes[node].costs[alternative];
  for (const int edge : graph.nodes[node].edges) {
    const ConstSide from = side(graph, edge, node);
    const Graph::Node& neighbour = graph.nodes[from.neighbour];
    double least = kForbidden;
    for (const int j : neighbour.live) least = std::min(least, from.at(alternative, j) + neighbour.costs[j]);
    sum += least;
  }
  return sum;
}

void Subgraph::lift(const std::vector<int>& part, std::vector<int>& whole) const {
  for (std::size_t node = 0; node < nodes.size(); ++node) whole[nodes[node]] = alternatives[node][part[node]];
}

Subgraph extract(const Graph& graph, const std::vector<int>& nodes) {
  Subgraph part;
  part.nodes = nodes;
  std::vector<int> number(graph.nodes.size(), -1);
  for (const int node : nodes) {
    number[node] = static_cast<int>(part.graph.nodes.size());
    const Graph::Node& from = graph.nodes[node];
    part.alternatives.push_back(from.live);
    Graph::Node& to = part.graph.nodes.emplace_back();
    for (const int i : from.live) to.costs.push_back(from.costs[i]);
    to.live.resize(from.live.size());
    std::iota(to.live.begin(), to.live.end(), 0);
  }
  for (const int node : nodes) {
    for (const int edge : graph.nodes[node].edges) {
      const ConstSide from = side(graph, edge, node);
      if (from.neighbour < node) continue;
      Graph::Edge& to = part.graph.edges[part.graph.add_edge(number[node], number[from.neighbour])];
      auto next = to.costs.begin();
      for (const int i : graph.nodes[node].live) {
        for (const int j : graph.nodes[from.neighbour].live) *next++ = from.at(i, j);
      }
    }
  }
  return part;
}

std::vector<std::vector<int>> components(const Graph& graph) {
  std::vector<std::vector<int>> found;
  std::vector<bool> seen(graph.nodes.size());
  for (const int start : graph.present()) {
    if (seen[start]) continue;
    std::vector<int>& component = found.emplace_back(std::vector<int>{start});
    seen[start] = true;
    for (std::size_t next = 0; next < component.size(); ++next) {
      const int node = component[next];
      for (const int edge : graph.nodes[node].edges) {
        const int neighbour = side(graph, edge, node).neighbour;
        if (!seen[neighbour]) component.push_back(neighbour);
        seen[neighbour] = true;
      }
    }
    std::sort(component.begin(), component.end());
  }
  return found;
}

}  // namespace convoy::solver
