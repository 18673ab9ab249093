#include "solver/testing.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace convoy::solver::testing {

std::vector<double> random_costs(Random& random, std::size_t count, const Costs& costs) {
  std::vector<double> drawn(count);
  for (double& cost : drawn) {
    cost = up_to(random, 99) < costs.forbidden_percent ? kForbidden : up_to(random, costs.largest);
  }
  return drawn;
}

Problem random_problem(Random& random, int nodes, const Edges& edges, const Costs& costs) {
  Problem problem;
  for (int node = 0; node < nodes; ++node) {
    (void)problem.add_node(random_costs(random, 1 + up_to(random, costs.alternatives - 1), costs));
  }
  for (const auto& [a, b] : edges) {
    const std::size_t pairs = problem.nodes()[a].costs.size() * problem.nodes()[b].costs.size();
    (void)problem.add_edge(a, b, random_costs(random, pairs, costs));
  }
  return problem;
}

Problem layout_problem(Random& random, int nodes, const Edges& edges, int alternatives) {
  const auto real = [&random] { return static_cast<double>(random() >> 11) / 9007199254740992.0; };
  Problem problem;
  std::vector<std::vector<int>> layouts(nodes);
  for (int node = 0; node < nodes; ++node) {
    const double scale = 0.05 + real();
    std::vector<double> costs(alternatives);
    for (int i = 0; i < alternatives; ++i) {
      costs[i] = scale * (1 + real());
      layouts[node].push_back(i % 4);
    }
    (void)problem.add_node(costs);
  }
  for (const auto& [a, b] : edges) {
    const double bytes = 0.3 * real();
    std::vector<double> costs;
    for (const int from : layouts[a]) {
      for (const int to : layouts[b]) costs.push_back(from == to ? 0 : bytes * (1 + 0.2 * real()));
    }
    (void)problem.add_edge(a, b, costs);
  }
  return problem;
}

Edges tree(Random& random, int nodes) {
  Edges edges;
  for (int node = 1; node < nodes; ++node) edges.emplace_back(up_to(random, node - 1), node);
  return edges;
}

Edges cycle(int nodes) {
  Edges edges;
  for (int node = 0; node < nodes; ++node) edges.emplace_back(node, (node + 1) % nodes);
  return edges;
}

Edges series_parallel(Random& random, int nodes) {
  // Each node is put between the ends of an edge, in series or, where the edge stays, in parallel.
  Edges edges{{0, 1}};
  for (int node = 2; node < nodes; ++node) {
    const int at = up_to(random, static_cast<int>(edges.size()) - 1);
    const auto [a, b] = edges[at];
    if (up_to(random, 1) == 0) edges.erase(edges.begin() + at);
    edges.emplace_back(a, node);
    edges.emplace_back(node, b);
  }
  return edges;
}

Edges partial_k_tree(Random& random, int nodes, int width) {
  // Each node has neighbours in a clique of `width` earlier ones; a few of these edges are left out.
  Edges edges;
  std::vector<std::vector<int>> cliques;
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> clique;
    if (node <= width) {
      for (int other = 0; other < node; ++other) clique.push_back(other);
    } else {
      clique = cliques[up_to(random, static_cast<int>(cliques.size()) - 1)];
      if (clique.size() > static_cast<std::size_t>(width)) clique.erase(clique.begin() + up_to(random, width));
    }
    for (const int other : clique) {
      if (up_to(random, 9) > 0) edges.emplace_back(other, node);
    }
    clique.push_back(node);
    if (node >= width) cliques.push_back(clique);
  }
  return edges;
}

Edges dense(Random& random, int nodes, int percent) {
  Edges edges;
  for (int a = 0; a < nodes; ++a) {
    for (int b = a + 1; b < nodes; ++b) {
      if (up_to(random, 99) < percent) edges.emplace_back(a, b);
    }
  }
  return edges;
}

Edges grid(int rows, int columns) {
  Edges edges;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const int node = row * columns + column;
      if (column + 1 < columns) edges.emplace_back(node, node + 1);
      if (row + 1 < rows) edges.emplace_back(node, node + columns);
    }
  }
  return edges;
}

Edges flat_concats(int blocks, int length) {
  Edges edges;
  for (int block = 0; block < blocks; ++block) {
    const int first = block * length;
    for (int a = 0; a < length; ++a) {
      for (int b = a + 1; b < length; ++b) edges.emplace_back(first + a, first + b);
    }
    if (block > 0) edges.emplace_back(first - 1, first);
  }
  return edges;
}

Edges skip_chain(int nodes) {
  Edges edges;
  for (int node = 1; node < nodes; ++node) edges.emplace_back(node - 1, node);
  for (int node = 0; node + 3 < nodes; node += 3) edges.emplace_back(node, node + 3);
  return edges;
}

Problem reordered(const Problem& problem, const std::vector<int>& order) {
  Problem other;
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int>(i);
    (void)other.add_node(problem.nodes()[order[i]].costs);
  }
  for (const Problem::Edge& edge : problem.edges()) (void)other.add_edge(place[edge.a], place[edge.b], edge.costs);
  return other;
}

double brute_force(const Problem& problem) {
  std::vector<int> choice(problem.size());
  double least = kForbidden;
  for (;;) {
    least = std::min(least, problem.cost(choice));
    int node = 0;
    while (node < problem.size() && ++choice[node] == problem.alternatives(node)) choice[node++] = 0;
    if (node == problem.size()) return least;
  }
}

}  // namespace convoy::solver::testing
