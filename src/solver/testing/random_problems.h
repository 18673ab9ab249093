// Random problems for tests, and their optimum by trying everything.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "solver/problem.h"

namespace convoy::solver::testing {

using Random = std::mt19937_64;
using Edges = std::vector<std::pair<int, int>>;

// std::uniform_int_distribution differs between standard libraries.
inline int up_to(Random& random, int most) { return static_cast<int>(random() % (most + 1)); }

struct Costs {
  int alternatives = 4;       // at most, at least 1
  int largest = 20;           // whole numbers, whose sums are exact
  int forbidden_percent = 0;  // of node and edge costs
};

std::vector<double> random_costs(Random& random, std::size_t count, const Costs& costs);
Problem random_problem(Random& random, int nodes, const Edges& edges, const Costs& costs);

// Costs as networks have them: few layouts, conversions that cost nothing between equal ones. Real numbers.
Problem layout_problem(Random& random, int nodes, const Edges& edges, int alternatives);

// As networks have them with engines: an alternative for each pair of layouts read and written. Every third node, or
// so, writes what it reads (pooling, adds). An edge costs a conversion where its ends disagree, up to about
// `conversion`.
Problem engine_problem(Random& random, const Edges& edges, int layouts, double conversion);

Edges tree(Random& random, int nodes);
Edges cycle(int nodes);
Edges series_parallel(Random& random, int nodes);
Edges partial_k_tree(Random& random, int nodes, int width);
Edges dense(Random& random, int nodes, int percent);
Edges grid(int rows, int columns);
Edges flat_concats(int blocks, int length);  // each node of a block is read by all that follow it there
Edges skip_chain(int nodes);                 // a chain with edges over two nodes, every third node

// Graphs like those of networks that reductions don't finish.
Edges bifpn(int repeats, int levels);
Edges hrnet(int stages, int branches, int blocks);
Edges nasnet(Random& random, int cells);

// The same problem with its nodes in another order: node `order[i]` is the i-th.
Problem reordered(const Problem& problem, const std::vector<int>& order);

// kForbidden where there is no assignment.
double brute_force(const Problem& problem);

}  // namespace convoy::solver::testing
