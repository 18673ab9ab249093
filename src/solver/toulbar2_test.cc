// Against an independent exact solver, toulbar2 (Debian's package of that name), where it is installed. With
// CONVOY_TEST_FULL: 2,000 problems.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/environment.h"
#include "solver/solver.h"
#include "solver/testing/random_problems.h"

namespace convoy::solver {
namespace {

using testing::Random;

// As toulbar2 reads it (https://toulbar2.github.io/toulbar2/formats/wcspformat.html). Costs are whole numbers.
void write_wcsp(const Problem& problem, const std::string& file) {
  std::ofstream stream(file);
  std::int64_t forbidden = 1;  // more than any assignment costs
  std::size_t most = 0;
  const auto count_largest = [&](const std::vector<double>& costs) {
    double largest = 0;
    for (const double cost : costs) largest = std::max(largest, cost == kForbidden ? 0 : cost);
    forbidden += static_cast<std::int64_t>(largest);
  };
  for (const Problem::Node& node : problem.nodes()) {
    count_largest(node.costs);
    most = std::max(most, node.costs.size());
  }
  for (const Problem::Edge& edge : problem.edges()) count_largest(edge.costs);
  const auto whole = [&](double cost) { return cost == kForbidden ? forbidden : static_cast<std::int64_t>(cost); };
  stream << "problem " << problem.size() << ' ' << most << ' ' << problem.nodes().size() + problem.edges().size() << ' '
         << forbidden << '\n';
  for (const Problem::Node& node : problem.nodes()) stream << node.costs.size() << ' ';
  stream << '\n';
  for (int node = 0; node < problem.size(); ++node) {
    const std::vector<double>& costs = problem.nodes()[node].costs;
    stream << "1 " << node << " 0 " << costs.size() << '\n';
    for (std::size_t i = 0; i < costs.size(); ++i) stream << i << ' ' << whole(costs[i]) << '\n';
  }
  for (const Problem::Edge& edge : problem.edges()) {
    const std::size_t columns = problem.nodes()[edge.b].costs.size();
    stream << "2 " << edge.a << ' ' << edge.b << " 0 " << edge.costs.size() << '\n';
    for (std::size_t pair = 0; pair < edge.costs.size(); ++pair) {
      stream << pair / columns << ' ' << pair % columns << ' ' << whole(edge.costs[pair]) << '\n';
    }
  }
}

// Its optimum; kForbidden where it says that there is none. Nothing: it is not there, or has not answered.
std::optional<double> toulbar2(const Problem& problem) {
  const auto file = std::filesystem::temp_directory_path() / ("convoy-" + std::to_string(::getpid()) + ".wcsp");
  write_wcsp(problem, file);
  std::optional<double> answer;
  FILE* output = ::popen(("timeout 60 toulbar2 " + file.string() + " 2>&1").c_str(), "r");
  char line[4096];
  while (output != nullptr && std::fgets(line, sizeof line, output) != nullptr) {
    const std::string text = line;
    if (text.starts_with("Optimum: ")) answer = std::strtod(line + 9, nullptr);
    if (text.starts_with("No solution")) answer = kForbidden;
  }
  if (output != nullptr) ::pclose(output);
  std::filesystem::remove(file);
  return answer;
}

Problem in_whole_numbers(const Problem& problem) {
  const auto whole = [](std::vector<double> costs) {
    for (double& cost : costs) cost = std::floor(1e6 * cost);
    return costs;
  };
  Problem rounded;
  for (const Problem::Node& node : problem.nodes()) (void)rounded.add_node(whole(node.costs));
  for (const Problem::Edge& edge : problem.edges()) (void)rounded.add_edge(edge.a, edge.b, whole(edge.costs));
  return rounded;
}

Problem problem_of(int trial) {
  Random random(1000 + trial);
  const int kind = trial % 6;
  const int nodes = kind == 4 ? 60 : kind == 5 ? 40 : 10 + testing::up_to(random, 60);
  const int alternatives = kind == 4 ? 2 + testing::up_to(random, 2) : 2 + testing::up_to(random, 6);
  const testing::Edges edges = kind == 0   ? testing::tree(random, nodes)
                               : kind == 1 ? testing::series_parallel(random, nodes)
                               : kind == 4 ? testing::flat_concats(2, 30)
                               : kind == 5 ? testing::grid(4, 10)
                                           : testing::partial_k_tree(random, nodes, 3 + testing::up_to(random, 5));
  if (kind == 4 || trial / 6 % 2 == 1) {
    return in_whole_numbers(testing::layout_problem(random, nodes, edges, alternatives));
  }
  const int forbidden = 7 * testing::up_to(random, 2);
  return testing::random_problem(random, nodes, edges,
                                 {.alternatives = alternatives, .largest = 1000, .forbidden_percent = forbidden});
}

TEST(Toulbar2, FindsTheSameOptimum) {
  if (std::system("toulbar2 --version >/dev/null 2>&1") == 127 * 256) GTEST_SKIP() << "skipped: there is no toulbar2";
  const int trials = environment(Variable::test_full).has_value() ? 2000 : 120;
  int not_allowed = 0;
  double slowest = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Problem problem = problem_of(trial);
    const auto theirs = toulbar2(problem);
    ASSERT_TRUE(theirs.has_value()) << trial;
    const auto ours = solve(problem);
    EXPECT_EQ(ours.ok() ? ours->cost : kForbidden, *theirs) << trial;
    EXPECT_TRUE(!ours.ok() || ours->optimal) << trial;
    not_allowed += !ours.ok();
    if (ours.ok()) slowest = std::max(slowest, ours->seconds);
  }
  std::printf("%d problems, %d without an assignment; the slowest took %.3f s\n", trials, not_allowed, slowest);
}

}  // namespace
}  // namespace convoy::solver
