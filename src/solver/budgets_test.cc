#include "solver/budgets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "solver/testing/random_problems.h"

namespace convoy::solver {
namespace {

using testing::Random;

Resource random_resource(Random& random, const Problem& problem, int pairs) {
  Resource resource{.name = "bytes"};
  for (int node = 0; node < problem.size(); ++node) {
    for (int i = 0; i < problem.alternatives(node); ++i) {
      if (testing::up_to(random, 3) > 0) {
        resource.uses.push_back({node, i, static_cast<double>(testing::up_to(random, 10))});
      }
    }
  }
  for (int pair = 0; pair < pairs && problem.size() > 1; ++pair) {
    const int a = testing::up_to(random, problem.size() - 1);
    const int b = (a + 1 + testing::up_to(random, problem.size() - 2)) % problem.size();
    resource.pair_uses.push_back({a, b, testing::up_to(random, problem.alternatives(a) - 1),
                                  testing::up_to(random, problem.alternatives(b) - 1), 3.0});
  }
  return resource;
}

double brute_force(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits) {
  std::vector<int> choice(problem.size());
  double least = kForbidden;
  for (;;) {
    if (keeps(resources, limits, choice)) least = std::min(least, problem.cost(choice));
    int node = 0;
    while (node < problem.size() && ++choice[node] == problem.alternatives(node)) choice[node++] = 0;
    if (node == problem.size()) return least;
  }
}

TEST(Budgets, BoundAndCostEncloseTheOptimum) {
  Random random(1);
  int solved = 0, proved = 0, missed = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const int nodes = 2 + testing::up_to(random, 5);
    const Problem problem = testing::random_problem(random, nodes, testing::dense(random, nodes, 50),
                                                    {.alternatives = 4, .forbidden_percent = trial % 3 == 0 ? 10 : 0});
    std::vector<Resource> resources;
    std::vector<double> limits;
    const int count = 1 + trial % 3;
    for (int r = 0; r < count; ++r) {
      resources.push_back(random_resource(random, problem, trial % 2 == 0 ? 0 : 4));
      limits.push_back(testing::up_to(random, 6 * nodes));
    }
    const double optimum = brute_force(problem, resources, limits);
    const auto solution = solve_with_budgets(problem, resources, limits);
    if (!solution.ok()) {
      EXPECT_EQ(solution.error().code, ErrorCode::unsupported);
      EXPECT_EQ(optimum, kForbidden) << trial << ": " << solution.error().message;
      continue;
    }
    EXPECT_LE(solution->lower_bound, optimum + 1e-6) << trial;
    EXPECT_GE(solution->cost, optimum) << trial;
    if (solution->choice.empty()) {
      missed += optimum != kForbidden;
      continue;
    }
    ++solved;
    proved += solution->optimal;
    EXPECT_TRUE(keeps(resources, limits, solution->choice)) << trial;
    EXPECT_EQ(problem.cost(solution->choice), solution->cost) << trial;
    EXPECT_LE(solution->lower_bound, solution->cost);
    if (solution->optimal) {
      EXPECT_EQ(solution->cost, optimum) << trial;
    }
  }
  RecordProperty("proved", proved);
  RecordProperty("missed", missed);
  EXPECT_GT(solved, 200);
  EXPECT_GT(proved, solved / 4);
  EXPECT_LE(missed, solved / 50);
}

TEST(Budgets, ALooseBudgetCostsNothing) {
  Random random(2);
  const Problem problem = testing::random_problem(random, 20, testing::grid(4, 5), {.alternatives = 4});
  const Resource resource = random_resource(random, problem, 0);
  const auto solution = solve_with_budgets(problem, {resource}, {1e9});
  ASSERT_TRUE(solution.ok());
  EXPECT_TRUE(solution->optimal);
  EXPECT_EQ(solution->cost, solve(problem)->cost);
  EXPECT_EQ(solution->problems, 1);
  EXPECT_EQ(solution->prices, (std::vector<double>{0}));
}

TEST(Budgets, SaysWhatTheLeastIs) {
  Problem problem;
  (void)problem.add_node({1, 2});
  (void)problem.add_node({1, 2});
  const Resource resource{.name = "activations", .uses = {{0, 0, 10}, {0, 1, 4}, {1, 0, 10}, {1, 1, 5}}};
  const auto none = solve_with_budgets(problem, {resource}, {8});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().message, "the budget of 'activations' can't be kept: at least 9 is used, not 8");
  const auto least = solve_with_budgets(problem, {resource}, {9});
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(least->choice, (std::vector<int>{1, 1}));
  EXPECT_EQ(least->used, (std::vector<double>{9}));
}

TEST(Budgets, SmallGapOnAChain) {
  // Time against memory: faster alternatives need more of it.
  Random random(3);
  Problem problem = testing::layout_problem(random, 300, testing::skip_chain(300), 8);
  Resource resource{.name = "bytes"};
  double most = 0;
  for (int node = 0; node < problem.size(); ++node) {
    for (int i = 0; i < 8; ++i) {
      const double bytes =
          std::floor(1e6 * (1 + testing::up_to(random, 100)) / (1 + 10 * problem.nodes()[node].costs[i]));
      resource.uses.push_back({node, i, bytes});
    }
  }
  most = used(resource, solve(problem)->choice);
  for (const double share : {0.9, 0.5, 0.2}) {
    const auto solution = solve_with_budgets(problem, {resource}, {share * most});
    ASSERT_TRUE(solution.ok());
    ASSERT_FALSE(solution->choice.empty());
    EXPECT_LE(solution->used[0], share * most);
    EXPECT_LE(solution->cost - solution->lower_bound, 0.01 * solution->cost) << share;
    EXPECT_LT(solution->problems, 30);
  }
}

TEST(Budgets, APeakOverStepsIsARowAStep) {
  Random random(4);
  const Problem problem = testing::layout_problem(random, 60, testing::skip_chain(60), 6);
  std::vector<std::vector<double>> bytes(60);
  for (std::vector<double>& node : bytes) {
    for (int i = 0; i < 6; ++i) node.push_back(1000.0 * (1 + testing::up_to(random, 20)));
  }
  std::vector<Resource> steps;
  for (int step = 0; step < 60; ++step) {
    Resource& live = steps.emplace_back();
    live.name = "step " + std::to_string(step);
    for (int node = std::max(0, step - 3); node <= step; ++node) {
      for (int i = 0; i < 6; ++i) live.uses.push_back({node, i, bytes[node][i]});
    }
  }
  const auto unlimited = solve(problem);
  double peak = 0;
  for (const Resource& step : steps) peak = std::max(peak, used(step, unlimited->choice));
  const auto solution = solve_with_budgets(problem, steps, std::vector<double>(60, 0.6 * peak), {.iterations = 300});
  ASSERT_TRUE(solution.ok()) << solution.error().message;
  ASSERT_FALSE(solution->choice.empty());
  EXPECT_TRUE(keeps(steps, std::vector<double>(60, 0.6 * peak), solution->choice));
  EXPECT_GE(solution->lower_bound, unlimited->cost - 1e-9);
  EXPECT_LE(solution->cost - solution->lower_bound, 0.05 * solution->cost);
}

TEST(Budgets, SaysWhatIsWrong) {
  Problem problem;
  (void)problem.add_node({1, 2}, "conv1");
  const auto message = [&](const Resource& resource, const std::vector<double>& limits) {
    const auto solution = solve_with_budgets(problem, {resource}, limits);
    return solution.ok() ? "" : solution.error().message;
  };
  EXPECT_EQ(message({.name = "a"}, {}), "0 limits for 1 resources");
  EXPECT_EQ(message({.name = "a"}, {NAN}), "resource 'a': the limit is nan");
  EXPECT_EQ(message({.name = "a", .uses = {{1, 0, 1}}}, {1}), "resource 'a': there is no node 1");
  EXPECT_EQ(message({.name = "a", .uses = {{0, 2, 1}}}, {1}),
            "resource 'a': node 0 ('conv1') has 2 alternatives, not alternative 2");
  EXPECT_EQ(message({.name = "a", .uses = {{0, 1, kForbidden}}}, {1}),
            "resource 'a': node 0 ('conv1'): alternative 1 uses inf");
  EXPECT_EQ(message({.name = "a", .pair_uses = {{0, 0, 0, 0, 1}}}, {1}),
            "resource 'a': node 0 ('conv1') is paired with itself");
}

}  // namespace
}  // namespace convoy::solver
