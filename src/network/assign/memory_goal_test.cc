// Limits on the memory of activations: what is counted is what lower() finds alive, what is found under a limit is what
// trying everything finds, and it runs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>

#include "base/testing/surroundings.h"
#include "network/assign/layout_rules.h"
#include "network/assign/live_bytes.h"
#include "network/assign/memory.h"
#include "network/run/lower.h"
#include "network/testing/graphs.h"
#include "solver/resources.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

// A value with three readers, one that is an output as well, operators in place, channels that don't fill a block.
Graph gated_branches() {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 3, 20, 20}), 3, 12, 3);
  const int left = b.node("Sigmoid", {x});
  const int sum = b.node("Mul", {b.conv(left, 12, 12, 1), x});
  const int both = b.node("Concat", {sum, x}, {{"axis", std::int64_t{1}}});
  b.output(b.node("MaxPool", {both}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}));
  b.output(sum);
  return b.graph;
}

// Transposes that may relabel. `read_beside`: what the first reads, something else reads later.
Graph transposed(bool read_beside) {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 8, 12, 12}), 8, 16, 3);
  const int last = b.node("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}});
  const int back = b.node("Transpose", {b.node("Exp", {last})}, {{"perm", Ints{0, 3, 1, 2}}});
  b.output(b.conv(read_beside ? b.node("Add", {back, x}) : back, 16, 4, 1));
  return b.graph;
}

class MemoryGoals : public ::testing::Test {
 protected:
  MemoryGoals() { options_.cpu.isa = std::min(options_.cpu.isa, Isa::avx2); }  // whose blocks are 8c

  // With each shared value as these layouts of nodes have it; false: a convolution that nothing runs is among them.
  static bool choose_shared(const LayoutProblem& layouts, std::vector<int>& choice) {
    for (const auto& [value, shared] : layouts.shared) {
      double least = solver::kForbidden;
      for (std::size_t i = 0; i < shared.alternatives.size(); ++i) {
        double cost = layouts.problem.nodes()[shared.number].costs[i];
        for (const solver::Problem::Edge& edge : layouts.problem.edges()) {
          if (edge.a != shared.number && edge.b != shared.number) continue;
          const int a = edge.a == shared.number ? static_cast<int>(i) : choice[edge.a];
          const int b = edge.b == shared.number ? static_cast<int>(i) : choice[edge.b];
          cost += edge.costs[a * layouts.problem.alternatives(edge.b) + b];
        }
        if (cost < least) choice[shared.number] = static_cast<int>(i), least = cost;
      }
    }
    return layouts.problem.cost(choice) < solver::kForbidden;
  }

  static std::int64_t counted(const LiveBytes& live, const std::vector<int>& choice) {
    double most = 0;
    for (std::size_t p = 0; p < live.points.size(); ++p) {
      most = std::max(most, live.fixed[p] + solver::used(live.points[p], choice));
    }
    return static_cast<std::int64_t>(most);
  }

  struct Plan {
    double seconds;
    ActivationBytes bytes;
  };
  // All that can be chosen.
  std::vector<Plan> all_plans(const Graph& graph, bool counts_all = true) {
    Chooser chooser(options_, {}, {});
    const auto layouts = layout_problem(graph, f32_of(graph), chooser, {.least = true});
    EXPECT_TRUE(layouts.ok());
    const LiveBytes live = live_bytes(graph, *layouts, {});
    std::vector<Plan> plans;
    std::vector<int> choice(layouts->problem.size());
    for (;;) {
      if (choose_shared(*layouts, choice)) {
        const auto bytes = activation_bytes(graph, layouts->chosen(choice).formats, {});
        EXPECT_TRUE(bytes.ok()) << bytes.error().message;
        EXPECT_LE(counted(live, choice), bytes->live);
        if (counts_all) {
          EXPECT_EQ(counted(live, choice), bytes->live);
        }
        plans.push_back({layouts->problem.cost(choice), *bytes});
      }
      std::size_t n = 0;
      for (; n < layouts->numbers.size(); ++n) {
        if (layouts->numbers[n] < 0) continue;
        int& alternative = choice[layouts->numbers[n]];
        if (++alternative < static_cast<int>(layouts->formats[n].size())) break;
        alternative = 0;
      }
      if (n == layouts->numbers.size()) return plans;
    }
  }

  NetworkOptions options_ = test_options(1);
};

TEST_F(MemoryGoals, AreKeptByTheFastestOfAllPlans) {
  if (!is_in_path("cbc")) GTEST_SKIP() << "skipped: no cbc";
  for (const Graph& built : {gated_branches(), transposed(false)}) {
    const Graph graph = with_passes(built, options_.cpu, {"transpose_sinking"});
    const std::vector<Plan> plans = all_plans(graph);
    ASSERT_GT(plans.size(), 500U);
    std::vector<std::int64_t> peaks;
    for (const Plan& plan : plans) peaks.push_back(plan.bytes.arena);
    std::ranges::sort(peaks);
    ASSERT_LT(peaks.front(), peaks.back());
    Chooser chooser(options_, {}, {});
    for (std::size_t i = 0; i <= 8; ++i) {
      const std::int64_t limit = peaks[i * (peaks.size() - 1) / 8];
      double least = std::numeric_limits<double>::infinity();
      for (const Plan& plan : plans) {
        if (plan.bytes.arena <= limit) least = std::min(least, plan.seconds);
      }
      const auto found = global_forms(graph, f32_of(graph), chooser, {.activation_limit = limit});
      ASSERT_TRUE(found.ok()) << found.error().message;
      EXPECT_LE(activation_bytes(graph, found->forms.formats, {})->arena, limit);
      EXPECT_GE(found->seconds, (1 - 1e-9) * least);
      if (found->proof.find("no other layouts within the limits take less") != std::string::npos) {
        EXPECT_NEAR(found->seconds, least, 1e-6 * least) << found->proof;
      }
      const auto exact = global_forms(graph, f32_of(graph), chooser, {.activation_limit = limit, .exact = true});
      ASSERT_TRUE(exact.ok()) << exact.error().message;
      EXPECT_NEAR(exact->seconds, least, 1e-6 * least) << exact->proof;
    }
    const auto smallest = global_forms(graph, f32_of(graph), chooser, {.least = true});
    ASSERT_TRUE(smallest.ok()) << smallest.error().message;
    EXPECT_EQ(activation_bytes(graph, smallest->forms.formats, {})->arena, peaks.front()) << smallest->proof;
    const auto none = global_forms(graph, f32_of(graph), chooser, {.activation_limit = peaks.front() - 1});
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, ErrorCode::unsupported);
    EXPECT_NE(none.error().message.find("least that was found is " + std::to_string(peaks.front()) + " bytes"),
              std::string::npos)
        << none.error().message;
  }
}

TEST_F(MemoryGoals, CountNoMoreThanThereIsBesideARelabelledValue) {
  EXPECT_GT(all_plans(with_passes(transposed(true), options_.cpu, {"transpose_sinking"}), false).size(), 100U);
}

TEST_F(MemoryGoals, CountWhatLoweringFindsAlive) {
  std::mt19937 random(1);
  for (const char* model : {"squeezenet1_1", "mobilenet_v2", "googlenet", "efficientnet_b0"}) {
    const Graph graph = zoo_graph(model, options_.cpu);
    Chooser chooser(options_, {}, {});
    const auto layouts = layout_problem(graph, f32_of(graph), chooser, {.least = true});
    ASSERT_TRUE(layouts.ok());
    const LiveBytes live = live_bytes(graph, *layouts, values_of_dynamic_subgraph(graph));
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<int> choice(layouts->problem.size());
      for (int& each : choice) {
        const int node = static_cast<int>(&each - choice.data());
        do {
          each = static_cast<int>(random() % layouts->problem.nodes()[node].costs.size());
        } while (layouts->problem.nodes()[node].costs[each] == solver::kForbidden);
      }
      ASSERT_TRUE(choose_shared(*layouts, choice)) << model;
      const auto bytes = activation_bytes(graph, layouts->chosen(choice).formats, values_of_dynamic_subgraph(graph));
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      EXPECT_EQ(counted(live, choice), bytes->live) << model;
    }
  }
}

// What is said is what a session allocates, and its answers are those without a limit.
TEST_F(MemoryGoals, SessionsKeepThem) {
  const Graph graph = gated_branches();
  NetworkOptions limited = options_;
  limited.how = "global";
  const auto prepared = [&] { return prepare_graph(graph, {.options = limited}); };
  const auto inputs = inputs_for(graph, -1, 1);
  limited.memory.least = true;
  auto least = prepared();
  ASSERT_TRUE(least.ok()) << least.error().message;
  limited.memory = {.activation_limit = static_cast<std::int64_t>((*least)->activation_bytes())};
  auto session = prepared();
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_EQ((*session)->activation_bytes(), (*least)->activation_bytes());
  limited.memory = {};
  auto free = prepared();
  ASSERT_TRUE(free.ok());
  const auto expected = (*free)->run(inputs), actual = (*session)->run(inputs);
  ASSERT_TRUE(expected.ok() && actual.ok());
  for (std::size_t i = 0; i < expected->size(); ++i) expect_close((*actual)[i], (*expected)[i], 1e-4);
  limited.memory = {.activation_limit = 1000};
  const auto none = prepared();
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("no plan was found within 1000 bytes"), std::string::npos)
      << none.error().message;
}

// Winograd's packed weights are several times as many.
TEST_F(MemoryGoals, OfWeightsAreKeptByTheFastestOfAllPlans) {
  if (!is_in_path("cbc")) GTEST_SKIP() << "skipped: no cbc";
  options_.selection.filter.engines = "cpu.gemm,cpu.winograd";
  options_.how = "global";
  GraphBuilder b;
  b.output(b.conv(b.conv(b.input("x", {1, 32, 28, 28}), 32, 64, 3), 64, 32, 3));
  const Graph graph = with_passes(b.graph, options_.cpu);
  Chooser chooser(options_, {}, {});
  const auto layouts = layout_problem(graph, f32_of(graph), chooser, {.weight_limit = 1 << 30});
  ASSERT_TRUE(layouts.ok()) << layouts.error().message;
  ASSERT_EQ(layouts->problem.size(), 2);
  const auto& options = layouts->options;
  const std::int64_t constants = activation_bytes(graph, layouts->chosen({0, 0}).formats, {})->constants;
  std::vector<std::pair<std::int64_t, double>> plans;  // bytes of weights, seconds
  for (int first = 0; first < layouts->problem.alternatives(0); ++first) {
    for (int second = 0; second < layouts->problem.alternatives(1); ++second) {
      plans.emplace_back(constants + options[0][first].weight_bytes + options[1][second].weight_bytes,
                         layouts->problem.cost({first, second}));
    }
  }
  std::ranges::sort(plans);
  const std::int64_t fewest = plans.front().first, most = plans.back().first;
  ASSERT_LT(2 * fewest, most);
  const std::vector<HostTensor> inputs = inputs_for(b.graph);
  const auto expected = run_graph(b.graph, inputs);
  std::set<double> times;
  for (int i = 0; i <= 4; ++i) {
    const std::int64_t limit = fewest + i * (most - fewest) / 4;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [bytes, seconds] : plans) {
      if (bytes <= limit) least = std::min(least, seconds);
    }
    options_.memory = {.weight_limit = limit, .exact = true};
    const auto found = global_forms(graph, f32_of(graph), chooser, options_.memory);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_NEAR(found->seconds, least, 1e-6 * least) << found->proof;
    times.insert(found->seconds);
    const auto session = prepare_graph(b.graph, {.options = options_});
    ASSERT_TRUE(session.ok()) << session.error().message;
    EXPECT_LE((*session)->weight_bytes(), static_cast<std::size_t>(limit));
    EXPECT_NE(found->proof.find(fmt::format("weights: {} bytes of {}", (*session)->weight_bytes(), limit)),
              std::string::npos)
        << found->proof;
    const auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    expect_close((*outputs)[0], expected[0], 1e-4);
  }
  EXPECT_GT(times.size(), 1U) << "fewer bytes take longer";
  options_.memory.weight_limit = fewest - 1;
  const auto none = prepare_graph(b.graph, {.options = options_});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find(fmt::format("no choice of engines keeps less than {} bytes", fewest)),
            std::string::npos)
      << none.error().message;
}

// Both limits at once.
TEST_F(MemoryGoals, OfWeightsAndActivationsAreKeptTogether) {
  options_.how = "global";
  options_.memory = {.least = true};
  const auto least = prepare_graph(gated_branches(), {.options = options_});
  ASSERT_TRUE(least.ok()) << least.error().message;
  const auto activations = static_cast<std::int64_t>((*least)->activation_bytes());
  options_.memory = {.weight_limit = 1};
  const auto none = prepare_graph(gated_branches(), {.options = options_});
  ASSERT_FALSE(none.ok());
  const std::string& text = none.error().message;
  const std::size_t at = text.find("less than ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::int64_t weights = std::stoll(text.substr(at + 10));
  options_.memory = {.activation_limit = activations, .weight_limit = weights};
  const auto both = prepare_graph(gated_branches(), {.options = options_});
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_LE((*both)->activation_bytes(), static_cast<std::size_t>(activations));
  EXPECT_LE((*both)->weight_bytes(), static_cast<std::size_t>(weights));
}

TEST_F(MemoryGoals, WhatIsReadBehindThePlanIsKeptUntilTheEnd) {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 3, 20, 20}), 3, 12, 3);
  b.output(b.conv(b.conv(b.conv(x, 12, 12, 3), 12, 12, 3), 12, 4, 1));
  b.output(b.node("NonZero", {x}));  // of a size that nobody knows before
  const Graph graph = with_passes(b.graph, options_.cpu);
  const std::vector<int> kept = values_of_dynamic_subgraph(graph);
  ASSERT_EQ(kept.size(), 1U);
  options_.how = "global";
  options_.memory.least = true;
  Chooser chooser(options_, {}, {});
  const auto formats = global_forms(graph, f32_of(graph), chooser, options_.memory);
  ASSERT_TRUE(formats.ok()) << formats.error().message;
  const auto bytes = activation_bytes(graph, formats->forms.formats, kept);
  const auto session = prepare_graph(b.graph, {.options = options_});
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_EQ((*session)->activation_bytes(), static_cast<std::size_t>(bytes->arena));
  EXPECT_LT(activation_bytes(graph, formats->forms.formats, {})->arena, bytes->arena);
}

// Of what has no choice a session says it.
TEST_F(MemoryGoals, AnOperatorBeyondTheWorkspaceLimitIsARemark) {
  GraphBuilder b;
  const int x = b.node("Relu", {b.input("x", {1, 8, 6, 6})});
  std::vector<int> inputs = {x};
  for (int i = 0; i < 4; ++i) inputs.push_back(b.constant(spread({8}, 0.5, 1)));
  b.output(b.node("BatchNormalization", inputs));
  options_.selection.filter.workspace_limit = 1 << 20;
  const auto within = prepare_graph(b.graph, {.options = options_});
  ASSERT_TRUE(within.ok()) << within.error().message;
  EXPECT_TRUE((*within)->remarks().empty());
  ASSERT_GT((*within)->workspace_bytes(), 0U);
  options_.selection.filter.workspace_limit = 0;
  const auto beyond = prepare_graph(b.graph, {.options = options_});
  ASSERT_TRUE(beyond.ok()) << beyond.error().message;
  ASSERT_EQ((*beyond)->remarks().size(), 1U);
  EXPECT_NE((*beyond)->remarks()[0].find("BatchNormalization"), std::string::npos) << (*beyond)->remarks()[0];
}

// Time and memory, each over the least there is.
TEST_F(MemoryGoals, MayBeWeighedBesideTime) {
  const Graph graph = with_passes(gated_branches(), options_.cpu);
  const std::vector<Plan> plans = all_plans(graph);
  double seconds = solver::kForbidden;
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
  for (const Plan& plan : plans) {
    seconds = std::min(seconds, plan.seconds);
    bytes = std::min(bytes, plan.bytes.arena);
  }
  for (const double weight : {0.01, 0.3, 1.0, 30.0}) {
    const auto score = [&](double takes, std::int64_t needs) {
      return takes / seconds + weight * static_cast<double>(needs) / static_cast<double>(bytes);
    };
    double least = solver::kForbidden;
    for (const Plan& plan : plans) least = std::min(least, score(plan.seconds, plan.bytes.arena));
    Chooser chooser(options_, {}, {});
    const auto found = global_forms(graph, f32_of(graph), chooser, {.weight = weight});
    ASSERT_TRUE(found.ok()) << found.error().message;
    const auto needs = activation_bytes(graph, found->forms.formats, {});
    ASSERT_TRUE(needs.ok());
    EXPECT_LE(score(found->seconds, needs->arena), 1.002 * least) << weight << ": " << found->proof;
    EXPECT_GE(score(found->seconds, needs->arena), 0.999999 * least) << weight << ": " << found->proof;
    EXPECT_NE(found->proof.find("; time=1,memory="), std::string::npos) << found->proof;
  }
}

TEST(NetworkObjectives, AreReadAndWrongOnesNamed) {
  const auto both = parse_network_objective("time=2,memory=0.5");
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->objective.time, 2);
  EXPECT_EQ(both->memory, 0.25);
  EXPECT_FALSE(both->least_memory);
  EXPECT_TRUE(parse_network_objective("memory")->least_memory);
  EXPECT_TRUE(parse_network_objective("memory=3")->least_memory);
  EXPECT_EQ(parse_network_objective("energy=2")->objective.energy, 2);
  EXPECT_EQ(parse_network_objective("time=1,memory=0")->memory, 0);
  for (const auto& [text, what] : {std::pair{"time=1,memory=", "the weight '' of memory is not a number from 0"},
                                   {"time=1,memory=-1", "the weight '-1' of memory is not a number from 0"},
                                   {"memory=0", "no term has a weight"},
                                   {"energy=1,memory=1", "memory is weighed beside time only"},
                                   {"time=1,workspace=1,memory=1", "memory is weighed beside time only"},
                                   {"speed", "'speed' is not one of time, workspace, energy"}}) {
    const auto wrong = parse_network_objective(text);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_NE(wrong.error().message.find(what), std::string::npos) << wrong.error().message;
  }
}

TEST_F(MemoryGoals, OtherWaysDontTakeThem) {
  options_.how = "greedy";
  options_.memory.activation_limit = 1 << 20;
  const auto refused = plan_of(gated_branches(), {.options = options_});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.error().message.find("how='greedy'"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace convoy::network
