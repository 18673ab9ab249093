// One session, many threads. A program of its own, so that the thread sanitizer can run it: with one thread a run
// nothing here uses OpenMP, which that does not see into; tests that do are left out there.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <semaphore>
#include <thread>
#include <vector>

#include "core/shared_bytes.h"
#include "network/testing/graphs.h"

namespace convoy::network {
namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool kSeesIntoOpenMp = false;
#else
constexpr bool kSeesIntoOpenMp = true;
#endif

constexpr int kThreads = 8;
constexpr int kRuns = 25;

// Engines that the thread sanitizer sees into, and as many runs side by side as there are threads here.
NetworkOptions options_of(int threads) {
  NetworkOptions options = test_options(threads);
  options.cpu.logical_cpus = kThreads * threads;
  options.selection.filter.engines = "!onednn.*";
  return options;
}

// Residual blocks with a projection, a pool, a classifier: each buffer of the arena is written many times a run.
Graph residual_graph(std::int64_t images = 1) {
  GraphBuilder b;
  const auto block = [&](int x, std::int64_t in, std::int64_t out) {
    const int left = b.conv(b.node("Relu", {b.conv(x, in, out, 3)}), out, out, 3);
    return b.node("Relu", {b.node("Add", {left, in == out ? x : b.conv(x, in, out, 1)})});
  };
  int x = b.node("Relu", {b.conv(b.input("x", {images, 3, 32, 32}), 3, 16, 3)});
  x = block(block(block(x, 16, 16), 16, 32), 32, 32);
  x = b.node("Flatten", {b.node("GlobalAveragePool", {x})});
  b.output(b.node("Gemm", {x, b.constant(spread({32, 10}))}));
  return std::move(b.graph);
}

// What comes after NonZero is planned for as many elements as each input has.
Graph graph_with_a_dynamic_subgraph() {
  GraphBuilder b;
  const int x = b.node("Relu", {b.conv(b.input("x", {1, 3, 16, 16}), 3, 8, 3)});
  const int found = b.node("NonZero", {x});
  b.output(b.node("Mul", {b.node("Cast", {found}, {{"to", std::int64_t{1}}}), b.constant(spread({4, 1}))}));
  b.output(x);
  return std::move(b.graph);
}

std::unique_ptr<SwitchableSession> session_of(const Graph& graph, const NetworkOptions& options) {
  auto session = prepare_graph(graph, {.options = options});
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  return session.ok() ? std::move(*session) : nullptr;
}

bool same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (!(a[k].desc == b[k].desc)) return false;
    if (std::memcmp(a[k].data.get(), b[k].data.get(), static_cast<std::size_t>(a[k].desc.bytes())) != 0) return false;
  }
  return true;
}

// An input for each thread, and what the session makes of it alone.
struct Case {
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> expected;
};
std::vector<Case> cases_of(const Graph& graph, Session& session, int count) {
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    Case& made = cases.emplace_back();
    made.inputs = inputs_for(graph, -1 - i, 1 + 0.5 * i);
    auto outputs = session.run(made.inputs);
    EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
    if (outputs.ok()) made.expected = std::move(*outputs);
  }
  return cases;
}

// Every thread runs its inputs, and in turn those of others, so that what an execution was used for last differs.
void expect_right_from_threads(const Graph& graph, Session& session, int count = kThreads, int runs = kRuns) {
  const std::vector<Case> cases = cases_of(graph, session, count);
  std::atomic<int> wrong = 0, failed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (int run = 0; run < runs; ++run) {
        const Case& mine = cases[static_cast<std::size_t>((t + run) % count)];
        RunStatistics statistics;
        const auto outputs = session.run(mine.inputs, run % 2 == 0 ? &statistics : nullptr);
        if (!outputs.ok()) {
          ++failed;
        } else if (!same_bits(*outputs, mine.expected)) {
          ++wrong;
        }
        if (run % 2 == 0 && statistics.step_seconds.size() != session.steps().size()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(wrong, 0) << "of " << count * runs;
}

TEST(SessionThreads, EightGetTheBitsOfOne) {
  const Graph graph = residual_graph();
  const auto session = session_of(graph, options_of(1));
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->runs_at_once(), 1);
  expect_right_from_threads(graph, *session);
  EXPECT_GT(session->runs_at_once(), 1);
  EXPECT_LE(session->runs_at_once(), kThreads);
}

TEST(SessionThreads, EachHasADynamicSubgraphOfItsOwn) {
  const Graph graph = graph_with_a_dynamic_subgraph();
  const auto session = session_of(graph, options_of(1));
  ASSERT_NE(session, nullptr);
  ASSERT_EQ(session->steps().back().implementation, "planned at run time") << session->steps().back().nodes;
  expect_right_from_threads(graph, *session, kThreads, 10);
}

TEST(SessionThreads, PartsOfABatchStayApart) {
  const Graph graph = residual_graph(4);
  NetworkOptions options = options_of(1);
  options.parts = BatchParts{.images = 2};
  const auto session = session_of(graph, options);
  ASSERT_NE(session, nullptr);
  expect_right_from_threads(graph, *session, 4, 10);
}

TEST(SessionThreads, RunsOnSeveralThreadsEach) {
  if (!kSeesIntoOpenMp) GTEST_SKIP();
  const Graph graph = residual_graph(4);
  for (const BatchParts parts : {BatchParts{}, BatchParts{.images = 1, .a_thread_each = true}}) {
    NetworkOptions options = options_of(2);
    options.selection.filter.engines = "*";
    options.parts = parts;
    const auto session = session_of(graph, options);
    ASSERT_NE(session, nullptr);
    expect_right_from_threads(graph, *session, 4, 10);
  }
}

TEST(SessionThreads, TracesAreOfTheirOwnRun) {
  const Graph graph = residual_graph();
  const auto session = session_of(graph, options_of(1));
  ASSERT_NE(session, nullptr);
  const auto inputs = inputs_for(graph);
  std::atomic<int> odd = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int run = 0; run < 5; ++run) {
        const auto trace = session->trace(inputs);
        if (!trace.ok() || trace->steps.size() != session->steps().size()) ++odd;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
}

// Of every run that may go on at once the arena counts.
TEST(SessionThreads, ALimitOfActivationsHoldsForAllRunsTogether) {
  const Graph graph = residual_graph();
  NetworkOptions options = options_of(1);
  options.how = "global";
  const auto free = session_of(graph, options);
  ASSERT_NE(free, nullptr);
  const auto bytes = static_cast<std::int64_t>(free->activation_bytes());
  options.memory.activation_limit = 2 * bytes + bytes / 2;
  const auto session = session_of(graph, options);
  ASSERT_NE(session, nullptr);
  expect_right_from_threads(graph, *session);
  EXPECT_LE(session->runs_at_once() * static_cast<std::int64_t>(session->activation_bytes()),
            *options.memory.activation_limit);
}

// Two parts, one after another; says how many were in it at once, and may hold its callers up.
class LentTeam final : public ThreadTeam {
 public:
  int size() const override { return 2; }
  void run(FunctionRef<void(int thread)> body) override {
    most = std::max<int>(most, ++inside);
    if (holds) {
      ++held;
      while (holds) std::this_thread::yield();
    }
    body(0);
    body(1);
    --inside;
  }

  std::atomic<bool> holds = false;
  std::atomic<int> inside = 0, held = 0, most = 0;
};

NetworkOptions lent_options(const std::shared_ptr<LentTeam>& team) {
  NetworkOptions options = options_of(2);
  options.team = team;
  return options;
}

Graph wide_graph() {  // not so tiny that its steps have one thread
  GraphBuilder b;
  int x = b.input("x", {1, 32, 56, 56});
  for (int i = 0; i < 3; ++i) x = b.node("Relu", {b.conv(x, 32, 32, 3)});
  b.output(x);
  return std::move(b.graph);
}

TEST(SessionThreads, ALentTeamServesOneRunAtATime) {
  const auto team = std::make_shared<LentTeam>();
  const Graph graph = wide_graph();
  const auto session = session_of(graph, lent_options(team));
  ASSERT_NE(session, nullptr);
  expect_right_from_threads(graph, *session, 4, 5);
  EXPECT_EQ(team->most, 1);
  EXPECT_EQ(session->runs_at_once(), 1);
}

// One thread runs, one waits for it: the child of a fork has neither, and runs all the same.
TEST(SessionThreads, AForkedProcessDoesNotWaitForRunsOfItsParent) {
  if (!kSeesIntoOpenMp) GTEST_SKIP() << "the thread sanitizer wants no threads where a process forks";
  const auto team = std::make_shared<LentTeam>();
  const Graph graph = wide_graph();
  auto session = session_of(graph, lent_options(team));
  ASSERT_NE(session, nullptr);
  const auto inputs = inputs_for(graph);
  const auto expected = session->run(inputs);
  ASSERT_TRUE(expected.ok());
  team->held = 0;
  team->holds = true;
  std::atomic<int> right = 0;
  const auto run = [&] {
    const auto outputs = session->run(inputs);
    if (outputs.ok() && same_bits(*outputs, *expected)) ++right;
  };
  std::thread runs(run);
  while (team->held == 0) std::this_thread::yield();
  std::thread waits(run);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    team->holds = false;
    run();
    session.reset();
    _exit(right == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  team->holds = false;
  runs.join();
  waits.join();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(right, 2);
}

// Bytes, counted: another size of the same network has an arena of its own and little else.
TEST(SharedWeights, AnotherSizeOfANetworkPacksNothingAnew) {
  const auto network = Network::load("zoo:resnet18");
  ASSERT_TRUE(network.ok());
  const auto prepare = [&](std::int64_t size) {
    auto session = (*network)->prepare({{TensorDesc::packed(DataType::f32, {1, 3, size, size})}}, options_of(1));
    EXPECT_TRUE(session.ok());
    return std::move(*session);
  };
  const std::size_t before = shared_bytes_held();
  const auto first = prepare(224);
  const std::size_t of_one = shared_bytes_held() - before;
  EXPECT_GE(of_one, first->weight_bytes() - 4096);  // alone it shares nothing with itself
  const auto again = prepare(224);
  EXPECT_EQ(shared_bytes_held() - before, of_one);
  const auto other = prepare(192);  // for which its large convolutions take the same candidates
  EXPECT_LT(shared_bytes_held() - before, of_one + of_one / 16);
}

}  // namespace
}  // namespace convoy::network
