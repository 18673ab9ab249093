// Threads of steps: which run on one, what a plan says of them, and that the others are not called then.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "network/testing/plans.h"

namespace convoy::network {
namespace {

std::string on_all_threads(std::string text) {
  const std::string word = " threads=1";
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) text.erase(at, word.size());
  return text;
}

bool same_bits(const PreparedRun& a, const PreparedRun& b) {
  return std::memcmp(a.outputs[0].data.get(), b.outputs[0].data.get(),
                     static_cast<std::size_t>(a.outputs[0].desc.bytes())) == 0;
}

// A layer of many millions of multiplications, and behind it layers of a thousand.
Graph tiny_layers() {
  GraphBuilder b;
  int x = b.node("GlobalAveragePool", {b.conv(b.input("x", {1, 32, 64, 64}), 32, 32, 3)});
  for (int i = 0; i < 4; ++i) x = b.node("Softmax", {b.conv(x, 32, 32, 1)}, {{"axis", std::int64_t{1}}});
  b.output(x);
  return b.graph;
}

TEST(Threads, TheLastStepsAreOnOneWhereTheyAreTiny) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = tiny_layers();
  const std::string text = plan_for(graph, options);
  const auto ran = prepared(graph, options);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->steps.front().threads, 2);
  EXPECT_EQ(ran->steps.back().threads, 1);
  EXPECT_TRUE(std::ranges::is_sorted(ran->steps, std::greater(), &NetworkStep::threads)) << text;
  const auto conv = std::ranges::find(ran->steps, "conv", &NetworkStep::kind);
  EXPECT_EQ(conv->threads, 2) << "the large one";

  // A plan that says nothing of them is obeyed, too.
  NetworkOptions all = test_options();
  ASSERT_NE(on_all_threads(text), text);
  all.plan = plan_in(on_all_threads(text));
  const auto on_all = prepared(graph, all);
  ASSERT_TRUE(on_all.ok()) << on_all.error().message;
  for (const NetworkStep& step : on_all->steps) EXPECT_EQ(step.threads, 2) << step.nodes;
  EXPECT_TRUE(same_bits(*ran, *on_all));

  EXPECT_EQ(plan_for(graph, test_options(1)).find("threads="), std::string::npos) << "all there is";
}

// A network for handwritten digits, small enough for one thread of AVX2: what shares 5x5 filters on 7x7 pixels best
// among threads is not what is fastest on one.
TEST(Threads, WhatRunsOnOneIsChosenForOne) {
  GraphBuilder b;
  const std::vector<std::int64_t> two = {2, 2};
  const int first = b.conv(b.input("x", {1, 1, 14, 14}), 1, 8, 5);
  const int small = b.node("MaxPool", {first}, {{"kernel_shape", two}, {"strides", two}});
  b.output(b.node("MaxPool", {b.conv(small, 8, 16, 5)}, {{"kernel_shape", two}, {"strides", two}}));
  const auto on = [&](int threads) {
    NetworkOptions options = test_options(threads);
    options.how = "uniform:nchw";  // layouts stay those that were chosen for all threads
    return prepared(b.graph, options);
  };
  const auto on_two = on(2), on_one = on(1);
  ASSERT_TRUE(on_two.ok() && on_one.ok());
  ASSERT_EQ(on_two->steps.size(), on_one->steps.size());
  for (std::size_t s = 0; s < on_two->steps.size(); ++s) {
    EXPECT_EQ(on_two->steps[s].threads, 1);
    EXPECT_EQ(on_two->steps[s].implementation, on_one->steps[s].implementation);
  }
}

TEST(Threads, ALineSaysThem) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = tiny_layers();
  const std::string text = plan_for(graph, options), line = line_of(text, "conv ");
  ASSERT_EQ(line.find("threads="), std::string::npos) << line;
  const auto before = prepared(graph, options);
  ASSERT_TRUE(before.ok());
  for (const auto& [threads, says] : {std::pair{1, "1"}, {2, "2"}}) {
    NetworkOptions replay = test_options();
    replay.plan = plan_in(replaced(text, line, with_threads(line, says)));
    const auto ran = prepared(graph, replay);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    EXPECT_EQ(std::ranges::find(ran->steps, "conv", &NetworkStep::kind)->threads, threads);
    EXPECT_TRUE(same_bits(*before, *ran));
  }
}

// Every line of a node may say one, one of a Transpose that costs nothing, too; conversions follow who wrote the value.
TEST(Threads, ARelabelMaySayThemAndConversionsFollowTheWriter) {
  const Graph graph = channels_last_block();
  NetworkOptions options = test_options();
  options.skip_passes = {"transpose_sinking"};
  const std::string text = plan_for(graph, options);
  ASSERT_NE(text.find("\nrelabel"), std::string::npos) << text;
  std::string on_one;
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const bool is_node = line.starts_with("conv ") || line.starts_with("op ") || line.starts_with("relabel ");
    on_one += (is_node ? with_threads(on_all_threads(line), "1") : line) + "\n";
  }
  NetworkOptions replay = options;
  replay.plan = plan_in(on_one);
  const auto ran = prepared(graph, replay);
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << on_one;
  for (const NetworkStep& step : ran->steps) EXPECT_EQ(step.threads, 1) << step.nodes;
  expect_right(graph, *ran);
}

// A team that counts how often it is called.
class CountingTeam final : public ThreadTeam {
 public:
  int size() const override { return team_->size(); }
  void run(FunctionRef<void(int thread)> body) override {
    ++calls;
    team_->run(body);
  }
  int calls = 0;

 private:
  std::unique_ptr<ThreadTeam> team_ = make_cpu_team(2);
};

TEST(Threads, WhatRunsOnOneDoesNotCallTheOthers) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const auto calls = [&](const Graph& graph, const std::string& plan) {
    options.plan = plan_in(plan);
    const auto team = std::make_shared<CountingTeam>();
    const auto session = prepare_graph(graph, {.options = options, .team = team});
    EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
    if (!session.ok()) return -1;
    const int before = team->calls;
    EXPECT_TRUE((*session)->run(inputs_for(graph)).ok());
    const auto trace = (*session)->trace(inputs_for(graph));
    EXPECT_TRUE(trace.ok());
    for (const RunTrace::Span& span : trace->threads) {
      EXPECT_LT(span.thread, (*session)->steps()[static_cast<std::size_t>(span.step)].threads);
    }
    return team->calls - before;
  };
  GraphBuilder b;
  int x = b.input("x", {1, 8, 6, 6});
  for (int i = 0; i < 4; ++i) x = b.conv(x, 8, 8, 1);
  b.output(x);
  const std::string text = plan_for(b.graph, options);
  EXPECT_EQ(calls(b.graph, text), 0) << text;
  EXPECT_GT(calls(b.graph, on_all_threads(text)), 0) << text;
}

TEST(Threads, WhatCanBeSwitchedKeepsAll) {
  NetworkOptions options = test_options();
  options.selection.filter.engines = "cpu.direct";
  const Graph graph = tiny_layers();
  const auto convolutions = list_convolutions(graph, {.options = options});
  ASSERT_TRUE(convolutions.ok());
  const std::vector<ConvolutionCandidates> candidates = {{convolutions->back().problem, {{"cpu.direct", {}}}}};
  const auto session = prepare_graph(graph, {.options = options, .candidates = candidates});
  ASSERT_TRUE(session.ok()) << session.error().message;
  for (const NetworkStep& step : (*session)->steps()) {
    if (step.kind == "conv") {
      EXPECT_EQ(step.threads, 2) << step.nodes;
    }
  }
}

}  // namespace
}  // namespace convoy::network
