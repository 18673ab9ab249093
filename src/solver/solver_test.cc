#include "solver/solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "solver/testing.h"

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

struct Way {
  const char* name;
  Options options;
};

std::vector<Way> ways() {
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
  for (const Way& way : ways()) {
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
    const Problem problem =
        testing::random_problem(random, nodes, edges_of_kind(random, kind, nodes), costs);
    expect_optimum(problem, "trial " + std::to_string(trial) + ", ");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace convoy::solver
