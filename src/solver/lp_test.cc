#include "solver/lp.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/testing/surroundings.h"
#include "solver/budgets.h"
#include "solver/solver.h"
#include "solver/testing/random_problems.h"

namespace convoy::solver {
namespace {

using testing::Random;

Problem small_problem() {
  Problem problem;
  (void)problem.add_node({0.5, kForbidden, 0.25}, "conv1");
  (void)problem.add_node({0, 1});
  (void)problem.add_edge(0, 1, {0, kForbidden, 0, 0, 2, 0});
  return problem;
}

const std::vector<Resource> kBytes{
    {.name = "bytes", .uses = {{0, 0, 4096}, {1, 1, 1024}}, .pair_uses = {{1, 0, 1, 2, 1024}}}};

TEST(Lp, IsAsWritten) {
  std::ostringstream text;
  write_lp(small_problem(), kBytes, {2048}, text);
  EXPECT_EQ(text.str(), R"(\ costs are multiplied by 2^8
Minimize
 cost: + 128 x_0_0 + 64 x_0_2 + 256 x_1_1 + 512 y_0_1_2_0
Subject To
node_0: + 1 x_0_0 + 1 x_0_2 = 1
node_1: + 1 x_1_0 + 1 x_1_1 = 1
edge_0_1_0: + 1 y_0_1_0_0 - 1 x_0_0 = 0
edge_0_1_2: + 1 y_0_1_2_0 + 1 y_0_1_2_1 - 1 x_0_2 = 0
edge_1_0_0: + 1 y_0_1_0_0 + 1 y_0_1_2_0 - 1 x_1_0 = 0
edge_1_0_1: + 1 y_0_1_2_1 - 1 x_1_1 = 0
\ 'bytes' is multiplied by 2^-3
limit_0: + 512 x_0_0 + 128 x_1_1 + 128 y_0_1_2_1 <= 256
Bounds
 0 <= y_0_1_0_0 <= 1
 0 <= y_0_1_2_0 <= 1
 0 <= y_0_1_2_1 <= 1
Binaries
 x_0_0
 x_0_2
 x_1_0
 x_1_1
End
)");
}

Result<IlpSolution> read(const std::string& text) {
  std::istringstream stream(text);
  return read_cbc_solution(small_problem(), kBytes, {2048}, stream);
}

TEST(Lp, ReadsWhatCbcWrites) {
  const auto solution = read(
      "Optimal - objective value 320.00000000\n"
      "      1 x_0_2                  1                      64\n"
      "      3 x_1_1         0.99999999                     256\n"
      "      6 y_0_1_2_1              1                       0\n");
  ASSERT_TRUE(solution.ok()) << solution.error().message;
  EXPECT_TRUE(solution->optimal);
  EXPECT_EQ(solution->choice, (std::vector<int>{2, 1}));
  EXPECT_EQ(solution->cost, 1.25);

  const auto stopped = read("Stopped on time - objective value 320.00000000\n 1 x_0_2 1 64\n 3 x_1_1 1 256\n");
  ASSERT_TRUE(stopped.ok());
  EXPECT_FALSE(stopped->optimal);
  EXPECT_EQ(stopped->status, "Stopped on time");
  const auto nothing =
      read("Stopped on time (no integer solution - continuous used) - objective value 3\n 1 x_0_2 1 64\n");
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->choice.empty());
}

TEST(Lp, DoesNotBelieveEverything) {
  const std::string optimal = "Optimal - objective value 320.00000000\n";
  const auto code = [](const Result<IlpSolution>& result) {
    return result.ok() ? ErrorCode::internal : result.error().code;
  };
  EXPECT_EQ(code(read("Infeasible - objective value 0\n")), ErrorCode::unsupported);
  EXPECT_EQ(code(read("Integer infeasible - objective value 0\n")), ErrorCode::unsupported);
  EXPECT_EQ(code(read("")), ErrorCode::corrupt);
  EXPECT_EQ(code(read("Hello\n")), ErrorCode::corrupt);
  EXPECT_EQ(code(read(optimal + " 1 x_0_2 1 64\n")), ErrorCode::corrupt);                    // a node is missing
  EXPECT_EQ(code(read(optimal + " 1 x_0_2\n")), ErrorCode::corrupt);                         // cut off
  EXPECT_EQ(code(read(optimal + " 1 x_0_9 1 0\n 3 x_1_1 1 0\n")), ErrorCode::corrupt);       // no such alternative
  EXPECT_EQ(code(read(optimal + " 1 x_7_0 1 0\n 3 x_1_1 1 0\n")), ErrorCode::corrupt);       // no such node
  EXPECT_EQ(code(read(optimal + " 0 x_0_0 1 0\n 3 x_1_1 1 0\n")), ErrorCode::corrupt);       // forbidden pair
  EXPECT_EQ(code(read(optimal + " 0 x_0_0 1 0\n 2 x_1_0 1 0\n")), ErrorCode::wrong_result);  // 4096 of 2048
}

TEST(Cbc, FindsTheSameOptimum) {
  if (!is_in_path("cbc")) GTEST_SKIP() << "skipped: no cbc";
  Random random(1);
  for (int trial = 0; trial < 12; ++trial) {
    const int nodes = trial % 2 == 0 ? 12 : 20;
    const auto edges = trial % 2 == 0 ? testing::dense(random, nodes, 30) : testing::grid(4, 5);
    const Problem problem = testing::random_problem(
        random, nodes, edges, {.alternatives = 4, .largest = 100, .forbidden_percent = trial % 3});
    const auto ours = solve(problem);
    const auto theirs = solve_by_cbc(problem, {}, {});
    ASSERT_EQ(theirs.ok(), ours.ok()) << trial << ": "
                                      << (theirs.ok() ? ours : Result<Solution>(theirs.error())).error().message;
    if (ours.ok()) {
      EXPECT_TRUE(theirs->optimal);
      EXPECT_EQ(theirs->cost, ours->cost) << trial;
    }
  }
}

TEST(Cbc, ClosesTheGapOfBudgets) {
  if (!is_in_path("cbc")) GTEST_SKIP() << "skipped: no cbc";
  Random random(2);
  for (int trial = 0; trial < 6; ++trial) {
    const Problem problem =
        testing::random_problem(random, 15, testing::grid(3, 5), {.alternatives = 4, .largest = 100});
    Resource resource{.name = "bytes"};
    for (int node = 0; node < problem.size(); ++node) {
      for (int i = 0; i < problem.alternatives(node); ++i) {
        resource.uses.push_back({node, i, 1e6 * testing::up_to(random, 50)});
      }
    }
    resource.pair_uses.push_back({0, 14, 0, 0, 1e6});
    const double limit = 0.7 * used(resource, solve(problem)->choice);
    const auto priced = solve_with_budgets(problem, {resource}, {limit});
    const auto exact = solve_by_cbc(problem, {resource}, {limit});
    if (!exact.ok()) {
      EXPECT_EQ(exact.error().code, ErrorCode::unsupported);
      EXPECT_TRUE(!priced.ok() || priced->choice.empty());
      continue;
    }
    ASSERT_TRUE(priced.ok()) << priced.error().message;
    EXPECT_LE(priced->lower_bound, exact->cost + 1e-9);
    EXPECT_GE(priced->cost, exact->cost);
    EXPECT_LE(used(resource, exact->choice), limit);
  }
}

TEST(Cbc, SaysWhereItWasLookedFor) {
  const auto none = solve_by_cbc(small_problem(), {}, {}, {.program = "/nowhere/cbc"});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("/nowhere/cbc"), std::string::npos) << none.error().message;

  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere:/neither", 1);
  const auto unknown = solve_by_cbc(small_problem(), {}, {});
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  EXPECT_NE(unknown.error().message.find("coinor-cbc"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("/nowhere:/neither"), std::string::npos);
}

}  // namespace
}  // namespace convoy::solver
