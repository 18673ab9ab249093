#include "solver/testing/random_problems.h"

#include <algorithm>
#include <utility>

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

namespace {

// In [0, 1); std::uniform_real_distribution differs between standard libraries, too.
double real(Random& random) { return static_cast<double>(random() >> 11) / 9007199254740992.0; }

}  // namespace

Problem layout_problem(Random& random, int nodes, const Edges& edges, int alternatives) {
  Problem problem;
  std::vector<std::vector<int>> layouts(nodes);
  for (int node = 0; node < nodes; ++node) {
    const double scale = 0.05 + real(random);
    std::vector<double> costs(alternatives);
    for (int i = 0; i < alternatives; ++i) {
      costs[i] = scale * (1 + real(random));
      layouts[node].push_back(i % 4);
    }
    (void)problem.add_node(costs);
  }
  for (const auto& [a, b] : edges) {
    const double bytes = 0.3 * real(random);
    std::vector<double> costs;
    for (const int from : layouts[a]) {
      for (const int to : layouts[b]) costs.push_back(from == to ? 0 : bytes * (1 + 0.2 * real(random)));
    }
    (void)problem.add_edge(a, b, costs);
  }
  return problem;
}

Problem engine_problem(Random& random, const Edges& edges, int layouts, double conversion) {
  int nodes = 0;
  for (const auto& [a, b] : edges) nodes = std::max({nodes, a + 1, b + 1});
  Problem problem;
  for (int node = 0; node < nodes; ++node) {
    const double scale = 0.05 + real(random);
    const bool light = up_to(random, 2) == 0;
    std::vector<double> costs;
    for (int reads = 0; reads < layouts; ++reads) {
      for (int writes = 0; writes < layouts; ++writes) {
        const double some = scale * (1 + 0.5 * real(random));
        costs.push_back(reads == writes ? (light ? 0.05 * some : some) : light ? kForbidden : some + 0.1 * scale);
      }
    }
    (void)problem.add_node(costs);
  }
  for (const auto& [a, b] : edges) {
    const double scale = conversion * (0.2 + real(random));
    std::vector<double> conversions;  // from a layout to another
    for (int from = 0; from < layouts; ++from) {
      for (int to = 0; to < layouts; ++to) conversions.push_back(from == to ? 0 : scale * (1 + 0.2 * real(random)));
    }
    std::vector<double> costs;
    for (int i = 0; i < layouts * layouts; ++i) {
      for (int j = 0; j < layouts * layouts; ++j) costs.push_back(conversions[i % layouts * layouts + j / layouts]);
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

Edges bifpn(int repeats, int levels) {
  Edges edges;
  int next = levels;
  std::vector<int> inputs(levels);
  for (int level = 0; level < levels; ++level) inputs[level] = level;
  for (int level = 1; level < levels; ++level) edges.emplace_back(level - 1, level);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<int> down(levels), up(levels);
    for (int level = levels - 1; level >= 0; --level) {
      down[level] = next++;
      edges.emplace_back(inputs[level], down[level]);
      if (level + 1 < levels) edges.emplace_back(down[level + 1], down[level]);
    }
    for (int level = 0; level < levels; ++level) {
      up[level] = next++;
      edges.emplace_back(down[level], up[level]);
      edges.emplace_back(inputs[level], up[level]);
      if (level > 0) edges.emplace_back(up[level - 1], up[level]);
    }
    inputs = up;
  }
  return edges;
}

Edges hrnet(int stages, int branches, int blocks) {
  Edges edges;
  int next = branches;
  std::vector<int> ends(branches);
  for (int branch = 0; branch < branches; ++branch) ends[branch] = branch;
  for (int branch = 1; branch < branches; ++branch) edges.emplace_back(branch - 1, branch);
  for (int stage = 0; stage < stages; ++stage) {
    for (int& end : ends) {
      for (int block = 0; block < blocks; ++block) {  // residual ones
        edges.emplace_back(end, next);
        edges.emplace_back(next, next + 1);
        edges.emplace_back(end, next + 1);
        end = next + 1;
        next += 2;
      }
    }
    std::vector<int> sums(branches);
    for (int& sum : sums) {
      sum = next++;
      for (const int end : ends) edges.emplace_back(end, sum);
    }
    ends = sums;
  }
  return edges;
}

Edges nasnet(Random& random, int cells) {
  Edges edges{{0, 1}};
  int next = 2, before = 0, last = 1;
  for (int cell = 0; cell < cells; ++cell) {
    std::vector<int> values{before, last}, sums;
    for (int block = 0; block < 5; ++block) {
      const int first = next++, second = next++, sum = next++;
      for (const int node : {first, second}) {
        edges.emplace_back(values[up_to(random, static_cast<int>(values.size()) - 1)], node);
        edges.emplace_back(node, sum);
      }
      values.push_back(sum);
      sums.push_back(sum);
    }
    const int concat = next++;
    for (const int sum : sums) edges.emplace_back(sum, concat);
    before = std::exchange(last, concat);
  }
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
