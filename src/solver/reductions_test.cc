#include "solver/reductions.h"

#include <gtest/gtest.h>

#include "solver/bound.h"
#include "solver/elimination.h"
#include "solver/testing/random_problems.h"

namespace convoy::solver {
namespace {

using testing::Random;

constexpr Rules kNone{.r1 = false, .r2 = false, .separable = false, .dominance = false};

struct Reduced {
  Graph graph;
  Trail trail;
  ReductionCounts counts;
  bool allowed = false;
  int infeasible = -1;
};

Reduced reduce(const Problem& problem, const Rules& rules) {
  Reduced reduced{.graph = Graph(problem)};
  Reducer reducer(reduced.graph, reduced.trail, reduced.counts, rules, true);
  reduced.allowed = reducer.run();
  reduced.infeasible = reducer.infeasible();
  return reduced;
}

TEST(Reductions, ANodeWithoutNeighboursIsPartOfTheConstant) {
  Problem problem;
  (void)problem.add_node({5, 3, 3});
  const Reduced reduced = reduce(problem, kNone);
  EXPECT_EQ(reduced.counts.r0, 1);
  EXPECT_EQ(reduced.graph.constant, 3);
  std::vector<int> choice(1);
  back_propagate(reduced.trail, choice);
  EXPECT_EQ(choice[0], 1);  // of equal ones the first
}

TEST(Reductions, AChainIsSolvedFromItsEnds) {
  Problem problem;
  for (int node = 0; node < 3; ++node) (void)problem.add_node({0, 1});
  (void)problem.add_edge(0, 1, {9, 0, 0, 9});
  (void)problem.add_edge(1, 2, {9, 0, 0, 9});
  Rules rules = kNone;
  rules.r1 = true;
  const Reduced reduced = reduce(problem, rules);
  EXPECT_EQ(reduced.counts.r1, 2);
  EXPECT_EQ(reduced.counts.r0, 1);
  EXPECT_EQ(reduced.graph.constant, 1);
  std::vector<int> choice(3);
  back_propagate(reduced.trail, choice);
  EXPECT_EQ(choice, (std::vector<int>{0, 1, 0}));
}

TEST(Reductions, ANodeWithTwoNeighboursBecomesTheirEdge) {
  Random random(2);
  const Problem problem = testing::random_problem(random, 6, testing::cycle(6), {.alternatives = 5});
  Rules rules = kNone;
  rules.r2 = true;
  Reduced reduced = reduce(problem, rules);
  EXPECT_EQ(reduced.counts.r2, 4);  // two nodes with one edge between them are left
  EXPECT_EQ(reduced.graph.present().size(), 2u);
  rules.r1 = true;
  reduced = reduce(problem, rules);
  EXPECT_TRUE(reduced.graph.present().empty());
  EXPECT_EQ(reduced.graph.constant, testing::brute_force(problem));
  std::vector<int> choice(6);
  back_propagate(reduced.trail, choice);
  EXPECT_EQ(problem.cost(choice), reduced.graph.constant);
}

TEST(Reductions, ASeparableEdgeIsDissolved) {
  Problem problem;
  (void)problem.add_node({0, 0});
  (void)problem.add_node({0, 0, 0});
  (void)problem.add_edge(0, 1, {1.1, 2.2, 3.3, 11.1, 12.2, 13.3});  // {0, 10} + {1.1, 2.2, 3.3}, rounded
  Rules rules = kNone;
  rules.separable = true;
  const Reduced reduced = reduce(problem, rules);
  EXPECT_EQ(reduced.counts.separable, 1);
  EXPECT_EQ(reduced.counts.r0, 2);
  EXPECT_DOUBLE_EQ(reduced.graph.constant, 1.1);
}

TEST(Reductions, ADominatedAlternativeIsRemoved) {
  Problem problem;
  (void)problem.add_node({1, 4, 9});
  (void)problem.add_node({0, 0});
  // Alternative 1 saves at most 2 by the edge, for 3 more; 2 saves up to 9 for 8.
  (void)problem.add_edge(0, 1, {2, 9, 0, 8, 9, 0});
  Rules rules = kNone;
  rules.dominance = true;
  const Reduced reduced = reduce(problem, rules);
  EXPECT_EQ(reduced.graph.nodes[0].live, (std::vector<int>{0, 2}));
  EXPECT_EQ(reduced.counts.dominated, 1);
}

TEST(Reductions, OfEqualAlternativesTheFirstStays) {
  Problem problem;
  (void)problem.add_node({1, 1, 1});
  (void)problem.add_node({0, 0});
  (void)problem.add_edge(0, 1, {2, 5, 2, 5, 2, 5});
  Rules rules = kNone;
  rules.dominance = true;
  EXPECT_EQ(reduce(problem, rules).graph.nodes[0].live, (std::vector<int>{0}));
}

TEST(Reductions, WhatHasNoAllowedPairIsRemoved) {
  Problem problem;
  (void)problem.add_node({0, 0, kForbidden});
  (void)problem.add_node({0, 0});
  (void)problem.add_node({0, 0});
  (void)problem.add_edge(0, 1, {kForbidden, kForbidden, 0, 0, 0, 0});
  const Reduced reduced = reduce(problem, kNone);
  EXPECT_TRUE(reduced.allowed);
  EXPECT_EQ(reduced.counts.forbidden, 2);
  EXPECT_EQ(reduced.graph.nodes[0].live, (std::vector<int>{1}));

  (void)problem.add_edge(0, 2, {0, 0, kForbidden, kForbidden, 0, 0});
  const Reduced none = reduce(problem, kNone);
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(none.infeasible, 0);
}

TEST(Reductions, KeepTheOptimum) {
  Random random(3);
  for (int trial = 0; trial < 400; ++trial) {
    const int nodes = 2 + testing::up_to(random, 5);
    const Problem problem = testing::random_problem(random, nodes, testing::dense(random, nodes, 60),
                                                    {.alternatives = 4, .forbidden_percent = trial % 2 == 0 ? 0 : 20});
    const double optimum = testing::brute_force(problem);
    for (int mask = 0; mask < 16; ++mask) {
      const Reduced reduced = reduce(
          problem,
          {.r1 = (mask & 1) != 0, .r2 = (mask & 2) != 0, .separable = (mask & 4) != 0, .dominance = (mask & 8) != 0});
      if (!reduced.allowed) {
        EXPECT_EQ(optimum, kForbidden) << trial;
        continue;
      }
      EliminationResult rest = eliminate(reduced.graph, order_elimination(reduced.graph));
      EXPECT_EQ(rest.cost, optimum) << trial << ", rules " << mask;
      if (optimum == kForbidden) continue;
      back_propagate(reduced.trail, rest.choice);
      EXPECT_EQ(problem.cost(rest.choice), optimum) << trial << ", rules " << mask;
    }
  }
}

TEST(Elimination, OrdersByWidth) {
  Random random(4);
  const auto width = [&](int nodes, const testing::Edges& edges) {
    return order_elimination(Graph(testing::layout_problem(random, nodes, edges, 2))).width;
  };
  EXPECT_EQ(width(50, testing::tree(random, 50)), 1);
  EXPECT_EQ(width(50, testing::cycle(50)), 2);
  EXPECT_EQ(width(50, testing::series_parallel(random, 50)), 2);
  EXPECT_EQ(width(12, testing::dense(random, 12, 100)), 11);
  EXPECT_LE(width(100, testing::partial_k_tree(random, 100, 5)), 6);
}

TEST(Bound, IsNeverAboveTheOptimumAndChangesNoCost) {
  Random random(5);
  for (int trial = 0; trial < 500; ++trial) {
    const int nodes = 2 + testing::up_to(random, 5);
    const Problem problem = testing::random_problem(random, nodes, testing::dense(random, nodes, 70),
                                                    {.alternatives = 4, .forbidden_percent = trial % 2 == 0 ? 0 : 15});
    Reduced reduced = reduce(problem, kNone);
    if (!reduced.allowed || reduced.graph.present().empty()) continue;
    Graph& graph = reduced.graph;
    const double optimum = eliminate(graph, order_elimination(graph)).cost;
    raise_bound(graph, 20, kForbidden, 1e-3);
    if (optimum == kForbidden) continue;
    EXPECT_LE(graph.constant, optimum + 1e-9) << trial;
    EXPECT_NEAR(eliminate(graph, order_elimination(graph)).cost, optimum, 1e-9) << trial;
    for (const int node : graph.present()) {
      const std::vector<double> bounds = alternative_bounds(graph, node);
      for (std::size_t at = 0; at < bounds.size(); ++at) {
        Graph fixed = graph;
        fixed.nodes[node].live = {graph.nodes[node].live[at]};
        EXPECT_LE(bounds[at], eliminate(fixed, order_elimination(fixed)).cost + 1e-9) << trial;
      }
    }
  }
}

TEST(Bound, IsTheOptimumOfATree) {
  Random random(6);
  for (int trial = 0; trial < 50; ++trial) {
    const Problem problem =
        testing::random_problem(random, 8, testing::tree(random, 8), {.alternatives = 3, .largest = 100});
    Reduced reduced = reduce(problem, kNone);
    if (reduced.graph.present().empty()) continue;
    const double optimum = testing::brute_force(problem);
    raise_bound(reduced.graph, 200, kForbidden, 0);
    EXPECT_NEAR(reduced.graph.constant, optimum, 1e-6 * optimum);
  }
}

}  // namespace
}  // namespace convoy::solver
