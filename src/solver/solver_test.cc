#include "solver/solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

#include "solver/testing/random_problems.h"

namespace convoy::solver {
namespace {

using testing::Costs;
using testing::Edges;
using testing::Random;

Edges edges_of_kind(Random& random, int kind, int nodes) {
  switch (kind) {
    case 0:
      return testing::tree(random, nodes);
    case 1:
      return nodes > 2 ? testing::cycle(nodes) : testing::tree(random, nodes);
    case 2:
      return nodes > 1 ? testing::series_parallel(random, nodes) : Edges{};
    case 3:
      return testing::partial_k_tree(random, nodes, 3);
    case 4:
      return testing::dense(random, nodes, 50);
    default:
      return testing::dense(random, nodes, 100);
  }
}

struct Variant {
  const char* name;
  Options options;
};

std::vector<Variant> ways() {
  const Rules none{.r1 = false, .r2 = false, .separable = false, .dominance = false};
  return {
      {"automatic", {}},
      {"elimination", {.method = Method::elimination}},
      {"elimination alone", {.method = Method::elimination, .rules = none}},
      {"branch and bound", {.method = Method::branch_and_bound}},
      {"branch and bound alone", {.method = Method::branch_and_bound, .rules = none}},
      {"R1", {.method = Method::branch_and_bound, .rules = {.r2 = false, .separable = false, .dominance = false}}},
      {"R2", {.method = Method::branch_and_bound, .rules = {.r1 = false, .separable = false, .dominance = false}}},
      {"separable", {.method = Method::elimination, .rules = {.r1 = false, .r2 = false, .dominance = false}}},
      {"dominance", {.method = Method::elimination, .rules = {.r1 = false, .r2 = false, .separable = false}}},
  };
}

void expect_optimum(const Problem& problem, const std::string& where) {
  const double optimum = testing::brute_force(problem);
  for (const Variant& way : ways()) {
    const auto solution = solve(problem, way.options);
    if (optimum == kForbidden) {
      ASSERT_FALSE(solution.ok()) << where << way.name;
      EXPECT_EQ(solution.error().code, ErrorCode::unsupported);
      EXPECT_NE(solution.error().message.find("no assignment is allowed"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(solution.ok()) << where << way.name << ": " << solution.error().message;
    EXPECT_EQ(solution->cost, optimum) << where << way.name;
    EXPECT_EQ(problem.cost(solution->choice), optimum) << where << way.name;
    EXPECT_EQ(solution->lower_bound, optimum) << where << way.name;
    EXPECT_TRUE(solution->optimal) << where << way.name;
  }
}

TEST(Solver, FindsWhatTryingEverythingFinds) {
  Random random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const int kind = trial % 6;
    const int nodes = 1 + testing::up_to(random, 6);
    const int forbidden[] = {0, 0, 15, 40};
    const int largest[] = {1, 20, 1000};
    const Costs costs{.alternatives = 4,
                      .largest = largest[testing::up_to(random, 2)],
                      .forbidden_percent = forbidden[testing::up_to(random, 3)]};
    const Problem problem = testing::random_problem(random, nodes, edges_of_kind(random, kind, nodes), costs);
    expect_optimum(problem, "trial " + std::to_string(trial) + ", ");
    if (HasFailure()) return;
  }
}

TEST(Solver, OrderOfNodesChangesNoCost) {
  Random random(2);
  for (int trial = 0; trial < 60; ++trial) {
    const int nodes = 30;
    const Edges edges = trial % 2 == 0 ? testing::partial_k_tree(random, nodes, 4) : testing::dense(random, nodes, 15);
    const Problem problem = testing::random_problem(random, nodes, edges, {.alternatives = 5, .largest = 1000});
    std::vector<int> order(nodes);
    std::iota(order.begin(), order.end(), 0);
    for (int i = nodes - 1; i > 0; --i) std::swap(order[i], order[testing::up_to(random, i)]);
    const auto one = solve(problem), other = solve(testing::reordered(problem, order));
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_TRUE(one->optimal && other->optimal);
    EXPECT_EQ(one->cost, other->cost) << trial;
  }
}

TEST(Solver, TablesAndBranchAndBoundAgree) {
  Random random(3);
  for (int trial = 0; trial < 12; ++trial) {
    const bool grid = trial % 2 == 0;
    const Edges edges = grid ? testing::grid(4, 10) : testing::dense(random, 16, 40);
    const Problem problem =
        testing::random_problem(random, grid ? 40 : 16, edges, {.alternatives = 6, .largest = 1000});
    const Rules rules{.r2 = false, .dominance = false};
    const auto by_tables = solve(problem, {.method = Method::elimination, .rules = rules});
    const auto by_branches = solve(problem, {.method = Method::branch_and_bound, .rules = rules});
    const auto by_both = solve(problem);
    ASSERT_TRUE(by_tables.ok() && by_branches.ok() && by_both.ok());
    EXPECT_GT(by_tables->table_entries, 0);
    EXPECT_EQ(by_branches->table_entries, 0);
    EXPECT_TRUE(by_branches->optimal && by_both->optimal);
    EXPECT_EQ(by_tables->cost, by_branches->cost) << trial;
    EXPECT_EQ(by_tables->cost, by_both->cost) << trial;
  }
}

TEST(Solver, SameProblemSameAnswer) {
  Random random(4);
  const Problem problem =
      testing::random_problem(random, 60, testing::flat_concats(3, 20), {.alternatives = 6, .largest = 3});
  const Options options{.branch_nodes = 200};
  const auto one = solve(problem, options), other = solve(problem, options);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->choice, other->choice);
  EXPECT_EQ(one->lower_bound, other->lower_bound);
  EXPECT_EQ(one->branch_nodes, other->branch_nodes);
  EXPECT_EQ(one->work, other->work);
}

TEST(Solver, WhereALimitIsHitItReturnsABound) {
  Random random(5);
  int stopped = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const Problem problem =
        testing::random_problem(random, 14, testing::dense(random, 14, 80), {.alternatives = 6, .largest = 100});
    const auto optimum = solve(problem);
    ASSERT_TRUE(optimum.ok() && optimum->optimal);
    for (const Options& options : {Options{.method = Method::branch_and_bound, .branch_nodes = trial},
                                   Options{.method = Method::branch_and_bound, .work = 20000 * trial},
                                   Options{.method = Method::branch_and_bound, .seconds = 0}}) {
      const auto some = solve(problem, options);
      ASSERT_TRUE(some.ok());
      EXPECT_LE(some->lower_bound, optimum->cost + 1e-6);
      EXPECT_GE(some->cost, optimum->cost);
      EXPECT_EQ(problem.cost(some->choice), some->cost);
      EXPECT_TRUE(!some->optimal || some->cost == optimum->cost);
      stopped += !some->optimal;
    }
  }
  EXPECT_GT(stopped, 20);
}

TEST(Solver, IsNeverWorseThanTheGivenAssignment) {
  Random random(6);
  const Problem problem =
      testing::random_problem(random, 30, testing::dense(random, 30, 100), {.alternatives = 8, .largest = 1000});
  const auto best = solve(problem, {.work = 200'000'000});
  ASSERT_TRUE(best.ok());
  const auto again = solve(problem, {.branch_nodes = 0, .incumbent = best->choice});
  ASSERT_TRUE(again.ok());
  EXPECT_LE(again->cost, best->cost);

  const auto wrong = solve(problem, {.incumbent = {1, 2, 3}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "incumbent: an assignment of 3 nodes for a problem of 30");
}

TEST(Solver, NamesWhatIsNotAllowed) {
  Problem problem;
  (void)problem.add_node({0, kForbidden}, "conv1");
  (void)problem.add_node({kForbidden, 0}, "conv2");
  (void)problem.add_edge(0, 1, {0, kForbidden, 0, 0});
  const auto none = solve(problem);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  EXPECT_NE(none.error().message.find("'conv"), std::string::npos) << none.error().message;

  // Three nodes that must all differ, with two alternatives.
  Problem triangle;
  for (int node = 0; node < 3; ++node) (void)triangle.add_node({0, 0});
  for (const auto& [a, b] : testing::cycle(3)) (void)triangle.add_edge(a, b, {kForbidden, 0, 0, kForbidden});
  for (const Variant& way : ways()) EXPECT_FALSE(solve(triangle, way.options).ok()) << way.name;
}

TEST(Solver, TablesBeyondTheLimitAreAnError) {
  Random random(7);
  const Problem problem = testing::random_problem(random, 16, testing::dense(random, 16, 100), {.alternatives = 6});
  const Rules rules{.dominance = false};
  const auto large = solve(problem, {.method = Method::elimination, .rules = rules, .table_entries = 1000});
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("induced width of"), std::string::npos) << large.error().message;
  EXPECT_FALSE(solve(problem, {.method = Method::elimination, .rules = rules, .width = 3}).ok());
}

TEST(Solver, AnEmptyProblemCostsNothing) {
  const auto nothing = solve(Problem{});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->cost, 0);
  EXPECT_TRUE(nothing->optimal);
}

TEST(Solver, LongChainsTakeWellUnderASecond) {
  Random random(8);
  const Problem layouts = testing::layout_problem(random, 1000, testing::skip_chain(1000), 20);
  const Problem arbitrary =
      testing::random_problem(random, 1000, testing::skip_chain(1000), {.alternatives = 20, .largest = 1000000});
  for (const Problem& problem : {layouts, arbitrary}) {
    const auto solution = solve(problem);
    ASSERT_TRUE(solution.ok());
    EXPECT_TRUE(solution->optimal);
    EXPECT_LE(solution->width, 2);
    EXPECT_EQ(solution->left, 0);
    RecordProperty("milliseconds", static_cast<int>(1000 * solution->seconds));
    EXPECT_LT(solution->seconds, 5);  // 0.04 s; slower with sanitizers and beside other tests
  }
}

TEST(Solver, FlatConcatsOfThirtyAreProved) {
  Random random(9);
  const Problem problem = testing::layout_problem(random, 120, testing::flat_concats(4, 30), 4);
  const auto solution = solve(problem);
  ASSERT_TRUE(solution.ok());
  EXPECT_TRUE(solution->optimal);
  EXPECT_GE(solution->width, 20);
}

TEST(Solver, GraphsLikeNetworksAreProved) {
  Random random(10);
  for (const double conversion : {0.02, 0.1, 0.4}) {
    for (const Edges& edges : {testing::bifpn(7, 5), testing::hrnet(8, 4, 4), testing::nasnet(random, 18)}) {
      const Problem problem = testing::engine_problem(random, edges, 4, conversion);
      const auto solution = solve(problem);
      ASSERT_TRUE(solution.ok()) << solution.error().message;
      EXPECT_TRUE(solution->optimal);
      std::printf("%d nodes of 16 alternatives, %zu edges, width %d: %.3f s, %d branch nodes\n", problem.size(),
                  problem.edges().size(), solution->width, solution->seconds, static_cast<int>(solution->branch_nodes));
    }
  }
}

}  // namespace
}  // namespace convoy::solver
