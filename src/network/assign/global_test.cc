// Global selection: what the solver finds is the least that trying everything finds, and what the plan's lines add up
// to.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <set>

#include "base/testing/surroundings.h"
#include "network/assign/in_place.h"
#include "network/assign/layout_problem.h"
#include "network/assign/layout_rules.h"
#include "network/assign/plan.h"
#include "network/assign/threads.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/testing/plans.h"
#include "select/testing/fake_engine.h"
#include "select/tune/rounds.h"
#include "solver/lp.h"
#include "solver/solver.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::array kLayouts{Layout::nchw, Layout::nhwc, Layout::nchw8c};

// Everything that the cost of layouts depends on: a chain, a value with two readers, a residual, an output that is read
// as well, an operator that joins.
Graph branches() {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 3, 20, 20}), 3, 16, 3);
  const int left = b.node("Relu", {b.conv(x, 16, 16, 1)});
  const int both = b.node("Concat", {left, x}, {{"axis", std::int64_t{1}}});
  b.output(b.node("MaxPool", {both}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}));
  b.output(x);
  return b.graph;
}

class Global : public ::testing::Test {
 protected:
  Global() { options_.cpu.isa = std::min(options_.cpu.isa, Isa::avx2); }  // whose blocks are 8c

  // What the lines of a plan add up to, and what its nodes hand over to other threads; infinite where a convolution
  // can't have its formats.
  static double total(const Graph& graph, const std::vector<NodeFormats>& formats, Chooser& chooser) {
    Assignment assignment;
    for (const NodeFormats& each : formats) assignment.nodes.push_back({.formats = each});
    put_in_place(graph, assignment);
    double seconds = 0;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (!is_static(graph, node) || assignment.nodes[n].in_place) continue;
      if (node.conv) {
        const auto cost = chooser.estimate(conv_query(graph, node, formats[n], chooser));
        if (!cost) return std::numeric_limits<double>::infinity();
        seconds += cost->seconds;
      } else if (const auto problem = step_problem(graph, node, formats[n])) {
        seconds += chooser.costs().of(*problem, formats[n].threads).seconds;
      }
      seconds += handed_over(graph, formats, n, chooser);
    }
    for (const auto& before : conversions(graph, assignment)) {
      for (const Conversion& each : before) {
        seconds += chooser.costs().seconds_of_conversion(each.from.desc, each.to.desc, each.threads);
      }
    }
    return seconds;
  }

  static double handed_over(const Graph& graph, const std::vector<NodeFormats>& formats, std::size_t node,
                            Chooser& chooser) {
    double seconds = 0;
    const auto producers = graph.producers();
    std::set<int> values(graph.nodes[node].inputs.begin(), graph.nodes[node].inputs.end());
    for (const int value : values) {
      const int producer = value == kAbsent ? kAbsent : producers[value];
      if (producer == kAbsent || formats[producer].threads == formats[node].threads) continue;
      seconds +=
          cache_transfer_seconds(described(graph.values[value], formats[producer].writes), chooser.request().threads);
    }
    return seconds;
  }

  static bool runs(const Graph& graph, std::size_t n, const NodeFormats& formats, Chooser& chooser) {
    const Node& node = graph.nodes[n];
    if (!node.conv) return true;
    return chooser.estimate(conv_query(graph, node, formats, chooser)).has_value();
  }

  // The least that trying all layouts, on these threads, finds.
  static double least_of_all(const Graph& graph, Chooser& chooser, std::initializer_list<Threads> threads) {
    std::vector<std::vector<NodeFormats>> can(graph.nodes.size());
    std::size_t combinations = 1;
    for (std::size_t n = 0; n < can.size(); ++n) {
      for (const Layout reads : kLayouts) {
        for (const Layout writes : kLayouts) {
          if (!can_work(graph, graph.nodes[n], {reads, writes}) || !runs(graph, n, {reads, writes}, chooser)) continue;
          for (const Threads each : threads) can[n].push_back({reads, writes, each});
        }
      }
      if (can[n].empty()) can[n] = {NodeFormats{}};
      combinations *= can[n].size();
    }
    EXPECT_GT(combinations, 500U);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < combinations; ++i) {
      std::vector<NodeFormats> formats;
      std::size_t rest = i;
      for (const std::vector<NodeFormats>& each : can) {
        formats.push_back(each[rest % each.size()]);
        rest /= each.size();
      }
      least = std::min(least, total(graph, formats, chooser));
    }
    return least;
  }

  NetworkOptions options_ = test_options(1);
};

TEST_F(Global, IsTheLeastOfAllLayouts) {
  const Graph graph = with_passes(branches(), options_.cpu);
  Chooser chooser(options_, {}, {});
  const auto global = global_forms(graph, f32_of(graph), chooser);
  ASSERT_TRUE(global.ok()) << global.error().message;
  const double least = least_of_all(graph, chooser, {Threads::all});
  EXPECT_NEAR(global->seconds, least, 1e-9 * least);
  EXPECT_NEAR(total(graph, global->forms.formats, chooser), least, 1e-9 * least);
}

// Predicted to take a third on the threads of the test, but where there is next to nothing to compute.
struct EngineOfThreads : testing_support::FakeEngine {
  using FakeEngine::FakeEngine;
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const double alone = 4e-9 * static_cast<double>(problem.y.elements());
    return request.threads == 1 ? alone : 1.5e-6 + alone / 3;
  }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.x.layout() == problem.y.layout()) return std::nullopt;
    return Refusal{RefusalCode::layout, "x.layout and y.layout differ"};
  }
};

TEST_F(Global, ThreadsAreChosenWithTheLayouts) {
  options_.threads = 2;
  const EngineOfThreads engine("fake", {});
  const std::array<const Engine*, 1> engines = {&engine};
  GraphBuilder b;
  int x = b.conv(b.input("x", {1, 3, 12, 12}), 3, 16, 3);  // worth both
  const int y = b.conv(b.node("GlobalAveragePool", {x}), 16, 4, 1);
  b.output(b.node("Mul", {x, b.conv(y, 4, 16, 1)}));
  const Graph graph = with_passes(b.graph, options_.cpu);
  Chooser chooser(options_, {}, {}, engines);
  const auto global = global_forms(graph, f32_of(graph), chooser);
  ASSERT_TRUE(global.ok()) << global.error().message;
  const double least = least_of_all(graph, chooser, {Threads::all, Threads::one});
  EXPECT_NEAR(global->seconds, least, 1e-9 * least);
  EXPECT_NEAR(total(graph, global->forms.formats, chooser), least, 1e-9 * least);
  EXPECT_LT(least, least_of_all(graph, chooser, {Threads::all}));
  EXPECT_LT(least, least_of_all(graph, chooser, {Threads::one}));
}

TEST_F(Global, TakesNoMoreThanAnyOtherWayByTheSameCosts) {
  for (const char* model : {"squeezenet1_1", "resnet18", "mobilenet_v2", "densenet121"}) {
    const Graph graph = zoo_graph(model, options_.cpu);
    Chooser chooser(options_, {}, {});
    const auto global = global_forms(graph, f32_of(graph), chooser);
    ASSERT_TRUE(global.ok()) << global.error().message;
    EXPECT_NEAR(global->seconds, total(graph, global->forms.formats, chooser), 1e-9 * global->seconds) << model;
    EXPECT_NE(global->proof.find("no other layouts and fusions take less"), std::string::npos) << global->proof;
    for (const char* how : {"greedy", "local", "uniform:nhwc", "uniform:nchw", "uniform:nchw8c"}) {
      std::vector<std::string> remarks;
      const auto other = forms_by(how, graph, chooser, remarks);
      ASSERT_TRUE(other.ok());
      EXPECT_LE(global->seconds, (1 + 1e-9) * total(graph, other->formats, chooser)) << model << " " << how;
    }
  }
}

// Of each network of the zoo, on one thread and on two.
TEST_F(Global, AnIndependentSolverFindsTheSameOptimum) {
  if (!is_in_path("cbc")) GTEST_SKIP() << "skipped: no cbc";
  double slowest = 0;
  for (const std::string& model : zoo_names()) {
    for (const int threads : {1, 2}) {
      options_.threads = threads;
      const Graph graph = zoo_graph(model, options_.cpu);
      Chooser chooser(options_, {}, {});
      const auto layouts = layout_problem(graph, f32_of(graph), chooser, {});
      ASSERT_TRUE(layouts.ok()) << layouts.error().message;
      const auto own = solver::solve(layouts->problem);
      ASSERT_TRUE(own.ok()) << own.error().message;
      EXPECT_TRUE(own->optimal) << model;
      slowest = std::max(slowest, own->seconds);
      const auto theirs = solver::solve_by_cbc(layouts->problem, {}, {});
      ASSERT_TRUE(theirs.ok()) << theirs.error().message;
      EXPECT_TRUE(theirs->optimal) << model << ": " << theirs->status;
      EXPECT_NEAR(own->cost, theirs->cost, 1e-6 * own->cost) << model;
    }
  }
  std::printf("the slowest took %.3f s\n", slowest);
  EXPECT_LT(slowest, 10);
}

TEST_F(Global, APlanOfItIsObeyedAndSaysItsProof) {
  options_.how = "global";
  const Graph graph = branches();
  const std::string text = plan_for(graph, options_);
  EXPECT_NE(text.find("\n# global: "), std::string::npos) << text;
  EXPECT_EQ(plan_for(graph, options_), text);
  NetworkOptions replay = test_options(1);
  replay.cpu = options_.cpu;
  replay.plan = plan_in(text);
  const std::string again = plan_for(graph, replay);
  EXPECT_EQ(again, text.substr(0, text.find("# global")));
}

TEST_F(Global, MeasuresUntilWhatIsBestHasBeenMeasured) {
  options_.how = "global";
  options_.selection.mode = SelectionMode::measured;
  options_.selection.budget_seconds = 30;
  const std::string text = plan_for(branches(), options_);
  EXPECT_EQ(text.find(" predicted\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" measured\n"), std::string::npos) << text;
}

// Runs in one layout only.
struct EngineOfLayout : testing_support::FakeEngine {
  EngineOfLayout(std::string name, Layout layout, Behaviour behaviour)
      : FakeEngine(std::move(name), std::move(behaviour)), layout(layout) {}
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.x.layout() == layout && problem.y.layout() == layout) return std::nullopt;
    return Refusal{RefusalCode::layout, "x.layout is another one"};
  }
  Layout layout;
};

TEST_F(Global, ALayoutThatIsSlowerThanPredictedIsGivenUp) {
  options_.how = "global";
  options_.selection.mode = SelectionMode::measured;
  options_.selection.budget_seconds = 30;
  const EngineOfLayout hopeful("fake.nhwc", Layout::nhwc, {.predicted = 1e-9, .sleep_seconds = 20e-3});
  const EngineOfLayout modest("fake.nchw", Layout::nchw, {.predicted = 5e-3});
  const std::array<const Engine*, 2> engines = {&hopeful, &modest};
  GraphBuilder b;
  b.output(b.conv(b.input("x", {1, 8, 8, 8}), 8, 8, 1));
  NetworkOptions predicts = options_;
  predicts.selection.mode = SelectionMode::heuristic;
  const std::string before = plan_for(b.graph, predicts, engines);
  EXPECT_NE(before.find("fake.nhwc"), std::string::npos) << before;
  const std::string text = plan_for(b.graph, options_, engines);
  EXPECT_NE(text.find("fake.nchw"), std::string::npos) << text;
  EXPECT_EQ(text.find(" predicted\n"), std::string::npos) << text;
}

// 10% slower in nchw, by predictions.
struct EngineOfTwoLayouts : testing_support::FakeEngine {
  using FakeEngine::FakeEngine;
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    return problem.y.is_packed(Layout::nchw) ? 1.1e-3 : 1e-3;
  }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.x.layout() == problem.y.layout() && problem.y.channel_block == 1) return std::nullopt;
    return Refusal{RefusalCode::layout, "x.layout and y.layout differ"};
  }
};

TEST_F(Global, WhatWasNeverMeasuredIsAsFarOffAsItsEngine) {
  const EngineOfTwoLayouts engine("fake", {});
  const std::array<const Engine*, 1> engines = {&engine};
  GraphBuilder b;
  b.output(b.conv(b.input("x", {1, 8, 8, 8}), 8, 8, 1));
  const Graph graph = with_passes(b.graph, options_.cpu);
  const auto conv = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.conv.has_value(); });
  for (const auto& [seconds, layout] : {std::pair{2.5e-3, Layout::nhwc}, {5e-3, Layout::nchw}}) {
    selection::RoundStore store;  // of nhwc
    options_.selection.store = &store;
    Chooser chooser(options_, {}, {}, engines);
    const ConvQuery query = conv_query(graph, *conv, {Layout::nhwc, Layout::nhwc}, chooser);
    const ConvProblem& problem = query.problem;
    const PlanRequest request = chooser.costs().request_for(query);
    Measurement row{.candidate = {"fake", {{"tile", 4}}},
                    .revision = engine.info().revision,
                    .provider = engine.info().provider,
                    .median_seconds = seconds,
                    .samples = 9};
    row.state = MeasurementState::complete;
    ASSERT_TRUE(store.store(measurement_key(problem, request, options_.selection.caches), row).ok());
    const auto forms = global_forms(graph, f32_of(graph), chooser);
    ASSERT_TRUE(forms.ok()) << forms.error().message;
    EXPECT_EQ(forms->forms.formats[static_cast<std::size_t>(conv - graph.nodes.begin())].writes.layout, layout)
        << "up to 4 times as long";
  }
}

TEST_F(Global, EnergyIsWeighedWhereItIsKnown) {
  const EngineOfLayout fast("fake.nhwc", Layout::nhwc, {}), cool("fake.nchw", Layout::nchw, {});
  const std::array<const Engine*, 2> engines = {&fast, &cool};
  GraphBuilder b;
  b.output(b.conv(b.input("x", {1, 8, 8, 8}), 8, 8, 1));
  const Graph graph = with_passes(b.graph, options_.cpu);
  selection::RoundStore store;
  options_.selection.store = &store;
  const auto conv = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.conv.has_value(); });
  const auto layout_for = [&](const char* objective) -> Result<Layout> {
    options_.selection.objective = parse_network_objective(objective)->objective;
    Chooser chooser(options_, {}, {}, engines);
    CONVOY_TRY(const GlobalForms forms, global_forms(graph, f32_of(graph), chooser));
    return forms.forms.formats[static_cast<std::size_t>(conv - graph.nodes.begin())].writes.layout;
  };
  EXPECT_EQ(layout_for("energy").error().message,
            "objective 'energy=1': no step's energy is known; --budget measures it, where the processor's counter can "
            "be read");
  const auto know = [&](const EngineOfLayout& engine, double seconds, double joules) {
    Chooser chooser(options_, {}, {}, engines);
    const ConvQuery query = conv_query(graph, *conv, {engine.layout, engine.layout}, chooser);
    const ConvProblem& problem = query.problem;
    const PlanRequest request = chooser.costs().request_for(query);
    const Measurement row{.candidate = {engine.info().name, {{"tile", 4}}},
                          .revision = engine.info().revision,
                          .provider = engine.info().provider,
                          .median_seconds = seconds,
                          .samples = 9,
                          .state = MeasurementState::complete,
                          .energy_joules = joules};
    EXPECT_TRUE(store.store(measurement_key(problem, request, CacheState::cold), row).ok());
  };
  know(fast, 1e-3, 0.3);
  know(cool, 2e-3, 0.1);
  EXPECT_EQ(*layout_for("time"), Layout::nhwc);
  EXPECT_EQ(*layout_for("energy"), Layout::nchw);
  EXPECT_EQ(*layout_for("time=1,energy=0.4"), Layout::nhwc);  // 1 + 0.4 * 3 < 2 + 0.4
  EXPECT_EQ(*layout_for("time=1,energy=0.6"), Layout::nchw);  // 2 + 0.6 < 1 + 0.6 * 3
  options_.memory.least = true;
  Chooser chooser(options_, {}, {}, engines);
  EXPECT_FALSE(global_forms(graph, f32_of(graph), chooser, options_.memory).ok());
}

// Computes no activation itself.
struct EngineWithoutActivation : testing_support::FakeEngine {
  using FakeEngine::FakeEngine;
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.epilogue.activation.kind == ActivationKind::identity) return std::nullopt;
    return Refusal{RefusalCode::epilogue, "activation"};
  }
};

TEST_F(Global, AFusionIsUndoneWhereThatTakesLess) {
  const EngineWithoutActivation plain("fake.plain", {.predicted = 1e-5});
  const testing_support::FakeEngine full("fake.full", {.predicted = 5e-3});
  const std::array<const Engine*, 2> engines = {&plain, &full};
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 8, 8, 8}), 8, 8, 1);
  b.output(b.node("Relu", {b.node("Add", {b.conv(x, 8, 8, 3), x})}));
  const std::vector<HostTensor> inputs = inputs_for(b.graph);
  std::vector<std::vector<HostTensor>> outputs;
  std::vector<std::uint64_t> graphs;
  constexpr std::string_view kKnobs = "{tile=4}";  // which fake engines have, but do not declare
  for (const char* how : {"greedy", "global", "local"}) {
    options_.how = how;
    options_.plan.reset();
    const std::string text = plan_for(b.graph, options_, engines);
    const bool is_whole = text.find("\"Conv_1+Add_2+Relu_3\"  fake.full") != std::string::npos;
    const bool is_apart = text.find("\"Conv_1+Add_2\"  fake.plain") != std::string::npos &&
                          text.find("op       \"Relu_3\"") != std::string::npos;
    EXPECT_EQ(is_whole, options_.how == "greedy") << text;
    EXPECT_EQ(is_apart, options_.how != "greedy") << text;
    std::string without = text;
    for (std::size_t at = 0; (at = without.find(kKnobs)) != std::string::npos;) without.erase(at, kKnobs.size());
    options_.plan = plan_in(without);
    graphs.push_back(options_.plan->header.graph);
    const auto session = prepare_graph(b.graph, {.options = options_, .engines = engines});
    ASSERT_TRUE(session.ok()) << session.error().message;
    outputs.push_back(*(*session)->run(inputs));
    const auto& steps = (*session)->steps();
    EXPECT_EQ(std::ranges::count(steps, "Relu_3", &NetworkStep::nodes), is_apart ? 1 : 0);
  }
  EXPECT_EQ(graphs, std::vector(3, graphs.front())) << "a plan is for the same graph whatever is fused";
  expect_close(outputs[1][0], outputs[0][0]);
  expect_close(outputs[2][0], outputs[0][0]);
}

// Of a chain, so many fusions are undone as take least, found by trying all.
TEST_F(Global, SoManyFusionsAreUndoneAsTakeLeast) {
  const EngineWithoutActivation plain("fake.plain", {.predicted = 1e-5});
  const std::array<const Engine*, 1> engines = {&plain};
  GraphBuilder b;
  const int x = b.input("x", {1, 8, 8, 8});
  b.output(b.node("Relu", {b.node("Add", {b.conv(x, 8, 8, 3), x})}));
  const Graph graph = with_passes(b.graph, options_.cpu);
  Chooser chooser(options_, {}, {}, engines);
  const auto global = global_forms(graph, f32_of(graph), chooser);
  ASSERT_TRUE(global.ok()) << global.error().message;
  EXPECT_EQ(global->forms.unfused, std::vector{1});  // nothing runs the activation, and Add costs something
  EXPECT_TRUE(global->forms.candidates.empty()) << "they would be of the graph as it was";
  Graph taken = graph;
  const std::vector<NodeFormats> formats = take_form(taken, global->forms);
  ASSERT_EQ(taken.nodes.size(), 2U);
  EXPECT_EQ(taken.nodes[0].fusion.residual, 3);
  EXPECT_EQ(taken.nodes[1].desc.op, "Relu");
  EXPECT_NEAR(global->seconds, total(taken, formats, chooser), 1e-9 * global->seconds);
}

}  // namespace
}  // namespace convoy::network
