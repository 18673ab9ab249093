#include "solver/problem.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy::solver {
namespace {

Problem two_nodes() {
  Problem problem;
  (void)problem.add_node({1, 2}, "conv1");
  (void)problem.add_node({3, 4, 5});
  return problem;
}

template <class T>
std::string message(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

TEST(Problem, AddsCosts) {
  Problem problem = two_nodes();
  ASSERT_TRUE(problem.add_edge(0, 1, {10, 20, 30, 40, 50, 60}).ok());
  EXPECT_EQ(problem.cost({1, 2}), 2 + 5 + 60);
  ASSERT_TRUE(problem.add_costs(1, {0, 0, 100}).ok());
  EXPECT_EQ(problem.cost({1, 2}), 2 + 105 + 60);
}

TEST(Problem, ParallelEdgesAddUpInEitherDirection) {
  Problem problem = two_nodes();
  EXPECT_EQ(*problem.add_edge(0, 1, {10, 20, 30, 40, 50, 60}), 0);
  EXPECT_EQ(*problem.add_edge(1, 0, {1, 2, 3, 4, 5, 6}), 0);  // rows are node 1's
  ASSERT_EQ(problem.edges().size(), 1u);
  EXPECT_EQ(problem.edges()[0].costs, (std::vector<double>{11, 23, 35, 42, 54, 66}));
}

TEST(Problem, SaysWhatIsWrong) {
  Problem problem = two_nodes();
  EXPECT_EQ(message(problem.add_node({})), "node 2 has no alternative");
  EXPECT_EQ(message(problem.add_node({1, NAN}, "pool")), "node 2 ('pool'): alternative 1 costs nan");
  EXPECT_EQ(message(problem.add_node({-kForbidden})), "node 2: alternative 0 costs -inf");
  EXPECT_EQ(message(problem.add_edge(0, 2, {})), "edge 0-2: there is no node 2, only 2");
  EXPECT_EQ(message(problem.add_edge(0, 0, {1, 2, 3, 4})), "node 0 ('conv1') has an edge to itself");
  EXPECT_EQ(message(problem.add_edge(0, 1, {1, 2})), "edge from node 0 ('conv1') to node 1: 2 costs, not 2 x 3");
  EXPECT_EQ(message(problem.add_edge(1, 0, {1, 2, 3, NAN, 5, 6})),
            "edge from node 1 to node 0 ('conv1'): alternatives 1 and 1 cost nan");
  EXPECT_EQ(message(problem.add_costs(0, {1})), "node 0 ('conv1'): 1 costs for 2 alternatives");
  EXPECT_EQ(message(problem.check({0})), "an assignment of 1 nodes for a problem of 2");
  EXPECT_EQ(message(problem.check({0, 3})), "node 1 has 3 alternatives, not alternative 3");
  EXPECT_EQ(problem.size(), 2);
  EXPECT_TRUE(problem.edges().empty());
}

}  // namespace
}  // namespace convoy::solver
