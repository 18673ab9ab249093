#include "solver/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace convoy::solver {
namespace {

// An index of a cost that is none, or -1.
int first_invalid(const std::vector<double>& costs) {
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (std::isnan(costs[i]) || costs[i] == -kForbidden) return static_cast<int>(i);
  }
  return -1;
}

std::string label(int node, const std::string& name) {
  return name.empty() ? fmt::format("node {}", node) : fmt::format("node {} ('{}')", node, name);
}

}  // namespace

std::string Problem::describe(int node) const { return label(node, nodes_[node].name); }

Result<int> Problem::add_node(std::vector<double> costs, std::string name) {
  const int node = size();
  if (costs.empty()) return invalid(label(node, name) + " has no alternative");
  if (const int bad = first_invalid(costs); bad >= 0) {
    return invalid(fmt::format("{}: alternative {} costs {}", label(node, name), bad, costs[bad]));
  }
  nodes_.push_back({.name = std::move(name), .costs = std::move(costs)});
  return node;
}

Result<void> Problem::add_costs(int node, const std::vector<double>& costs) {
  if (node < 0 || node >= size()) return invalid(fmt::format("there is no node {}", node));
  if (costs.size() != nodes_[node].costs.size()) {
    return invalid(fmt::format("{}: {} costs for {} alternatives", describe(node), costs.size(), alternatives(node)));
  }
  if (const int bad = first_invalid(costs); bad >= 0) {
    return invalid(fmt::format("{}: alternative {} costs {}", describe(node), bad, costs[bad]));
  }
  for (std::size_t i = 0; i < costs.size(); ++i) nodes_[node].costs[i] += costs[i];
  return {};
}

Result<int> Problem::add_edge(int a, int b, const std::vector<double>& costs) {
  for (const int node : {a, b}) {
    if (node < 0 || node >= size()) {
      return invalid(fmt::format("edge {}-{}: there is no node {}, only {}", a, b, node, size()));
    }
  }
  if (a == b) return invalid(fmt::format("{} has an edge to itself", describe(a)));
  const std::size_t rows = nodes_[a].costs.size(), columns = nodes_[b].costs.size();
  if (costs.size() != rows * columns) {
    return invalid(fmt::format("edge from {} to {}: {} costs, not {} x {}", describe(a), describe(b), costs.size(),
                               rows, columns));
  }
  if (const int bad = first_invalid(costs); bad >= 0) {
    return invalid(fmt::format("edge from {} to {}: alternatives {} and {} cost {}", describe(a), describe(b),
                               bad / columns, bad % columns, costs[bad]));
  }
  const auto [known, added] = edge_between_.try_emplace({std::min(a, b), std::max(a, b)}, edges_.size());
  if (added) edges_.push_back({.a = std::min(a, b), .b = std::max(a, b), .costs = std::vector<double>(costs.size())});
  Edge& edge = edges_[known->second];
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      edge.costs[a < b ? i * columns + j : j * rows + i] += costs[i * columns + j];
    }
  }
  return known->second;
}

Result<void> Problem::check(const std::vector<int>& choice) const {
  if (choice.size() != nodes_.size()) {
    return invalid(fmt::format("an assignment of {} nodes for a problem of {}", choice.size(), nodes_.size()));
  }
  for (int node = 0; node < size(); ++node) {
    if (choice[node] < 0 || choice[node] >= alternatives(node)) {
      return invalid(
          fmt::format("{} has {} alternatives, not alternative {}", describe(node), alternatives(node), choice[node]));
    }
  }
  return {};
}

double Problem::cost(const std::vector<int>& choice) const {
  double sum = 0;
  for (int node = 0; node < size(); ++node) sum += nodes_[node].costs[choice[node]];
  for (const Edge& edge : edges_) sum += edge.costs[choice[edge.a] * alternatives(edge.b) + choice[edge.b]];
  return sum;
}

double Problem::magnitude(const std::vector<int>& choice) const {
  double sum = 0;
  for (int node = 0; node < size(); ++node) sum += std::abs(nodes_[node].costs[choice[node]]);
  for (const Edge& edge : edges_) sum += std::abs(edge.costs[choice[edge.a] * alternatives(edge.b) + choice[edge.b]]);
  return sum;
}

}  // namespace convoy::solver
