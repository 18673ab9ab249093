// What of a network at home on a GPU its engines are asked for; in run/home_test.cc's program, on the fake driver.
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/cpu.h"
#include "core/refines.h"
#include "device/cuda/device.h"
#include "engines/reference/reference.h"
#include "network/testing/plans.h"
#include "network/testing/stream_engine.h"

namespace convoy::network {
namespace {

// As cuDNN's engines: a guess of 1 us at once, and who is asked counts. Problems with a residual take `with_residual`.
struct AskedEngine : testing_support::StreamEngine, RefinesEstimates {
  std::optional<Estimate> estimate(const ConvProblem&, const PlanRequest&) const override {
    return Estimate{{}, 1e-6, false};
  }
  std::optional<Estimate> refine(const ConvProblem& problem, const PlanRequest&, int) const override {
    {
      const std::lock_guard lock(mutex);
      asked.insert(print(problem));
    }
    return Estimate{{}, !problem.epilogue.narrow_bias ? wide : problem.epilogue.takes_z() ? with_residual : 1e-6, true};
  }
  double wide = 1e-6, with_residual = 1e-6;
  mutable std::mutex mutex;
  mutable std::set<std::string> asked;
};

TEST(HomeForms, OnlyWhatMayTakeLessIsAskedFor) {
  GraphBuilder b;
  const auto half = [](HostTensor tensor) {
    return *converted(tensor, TensorDesc::packed(DataType::f16, tensor.desc.dims));
  };
  const int x = b.input("x", {1, 4, 8, 8}, DataType::f16);
  const auto conv = [&](int from) {
    return b.node("Conv", {from, b.constant(half(spread({4, 4, 3, 3}, -0.1, 0.1))), b.constant(half(spread({4})))},
                  {{"pads", std::vector<std::int64_t>(4, 1)}});
  };
  const int first = b.node("Relu", {conv(x)});
  b.output(b.node("Relu", {b.node("Add", {conv(first), first})}));
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  NetworkOptions options = test_options();
  options.cuda = *cuda::describe(0);
  options.selection.filter.engines = "*";
  const auto bias_types = [&](const AskedEngine& engine) {
    const std::vector<const Engine*> engines = {&reference_engine(), &engine};
    const auto session = prepare_graph(b.graph, {.options = options, .engines = engines});
    if (!session.ok()) return session.error().message;
    std::string found;
    for (const NetworkStep& step : (*session)->steps()) {
      if (step.kind == "conv") found += step.problem.epilogue.narrow_bias ? "narrow " : "wide ";
      if (step.kind == "op") found += "op ";
    }
    return found;
  };
  // Each is the best that there can be: neither a bias of 32 bits is asked for nor what is left of a fusion. The first
  // is asked for with its input as it comes, too.
  const AskedEngine alike;
  EXPECT_EQ(bias_types(alike), "narrow narrow ");
  EXPECT_EQ(alike.asked.size(), 3U);
  for (const std::string& problem : alike.asked) EXPECT_NE(problem.find("bias=out"), std::string::npos) << problem;
  // The second is not, so it is asked for with the other bias, and without its Add and Relu.
  AskedEngine slow;
  slow.with_residual = 1;
  EXPECT_EQ(bias_types(slow), "narrow wide ");
  EXPECT_GT(slow.asked.size(), 3U);
  slow.asked.clear();
  slow.wide = 100;
  EXPECT_EQ(bias_types(slow), "narrow narrow ");
}

// Takes so long in each layout, and a second from one to another, if not said otherwise.
struct ByLayout : testing_support::StreamEngine {
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    if (problem.x.layout() != problem.y.layout()) return problem.y.layout() == Layout::nhwc ? to_nhwc : 1;
    return problem.x.layout() == Layout::nhwc ? nhwc : 50e-6;
  }
  double nhwc = 1e-6, to_nhwc = 1;
};

TEST(HomeForms, GlobalWeighsLayoutsWithTheirConversions) {
  GraphBuilder b;
  int x = b.input("x", {1, 4, 8, 8});
  for (int i = 0; i < 3; ++i) {
    x = b.node("Conv", {x, b.constant(spread({4, 4, 3, 3}, -0.1, 0.1))}, {{"pads", std::vector<std::int64_t>(4, 1)}});
  }
  b.output(x);
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  NetworkOptions options = test_options();
  options.cuda = *cuda::describe(0);
  options.selection.filter.engines = "*";
  ByLayout engine;
  const std::vector<const Engine*> engines = {&reference_engine(), &engine};
  const auto layouts = [&](const char* how) {
    options.how = how;
    const auto session = prepare_graph(b.graph, {.options = options, .engines = engines});
    if (!session.ok()) return session.error().message;
    std::string found;
    for (const NetworkStep& step : (*session)->steps()) {
      if (step.kind == "conv") found += std::string(name_of(step.problem.x.layout(), 2)) + "@" + step.device + " ";
    }
    return found;
  };
  EXPECT_EQ(layouts("global"), "nhwc@cuda:0 nhwc@cuda:0 nhwc@cuda:0 ");
  engine.nhwc = 49.9e-6;  // what three save is less than two conversions
  EXPECT_EQ(layouts("global"), "nchw@cuda:0 nchw@cuda:0 nchw@cuda:0 ");
  EXPECT_EQ(layouts("local"), "nhwc@cuda:0 nhwc@cuda:0 nhwc@cuda:0 ");
}

TEST(HomeForms, OfNarrowTypesTheFirstConvolutionMayReadTheInputAsItIs) {
  GraphBuilder b;
  int x = b.input("x", {1, 4, 8, 8}, DataType::f16);
  for (int i = 0; i < 2; ++i) {
    const auto weights = *converted(spread({4, 4, 3, 3}, -0.1, 0.1), TensorDesc::packed(DataType::f16, {4, 4, 3, 3}));
    x = b.node("Conv", {x, b.constant(weights)}, {{"pads", std::vector<std::int64_t>(4, 1)}});
  }
  b.output(x);
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  NetworkOptions options = test_options();
  options.cuda = *cuda::describe(0);
  options.selection.filter.engines = "*";
  ByLayout engine;
  const std::vector<const Engine*> engines = {&reference_engine(), &engine};
  const auto layouts = [&](const char* how) {
    options.how = how;
    const auto session = prepare_graph(b.graph, {.options = options, .engines = engines});
    if (!session.ok()) return session.error().message;
    std::string found;
    for (const NetworkStep& step : (*session)->steps()) {
      if (step.kind != "conv") continue;
      found += fmt::format("{}>{} ", name_of(step.problem.x.layout(), 2), name_of(step.problem.y.layout(), 2));
    }
    return found;
  };
  EXPECT_EQ(layouts("greedy"), "nhwc>nhwc nhwc>nhwc ") << "which takes a second otherwise";
  engine.to_nhwc = engine.nhwc;
  EXPECT_EQ(layouts("greedy"), "nchw>nhwc nhwc>nhwc ") << "as fast, and the input is not converted";
  EXPECT_EQ(layouts("uniform:nhwc"), "nhwc>nhwc nhwc>nhwc ");
}

// In tiles of few channels tensor cores have little to do.
TEST(HomeForms, OfNarrowTypesFewChannelsLieOnPlanesWhereThatTakesLess) {
  const auto layouts = [](std::int64_t channels, double nhwc) {
    GraphBuilder b;
    int x = b.input("x", {1, channels, 8, 8}, DataType::f16);
    for (int i = 0; i < 2; ++i) {
      const Dims filters{channels, channels, 3, 3};
      const auto weights = *converted(spread(filters, -0.1, 0.1), TensorDesc::packed(DataType::f16, filters));
      x = b.node("Conv", {x, b.constant(weights)}, {{"pads", std::vector<std::int64_t>(4, 1)}});
    }
    b.output(x);
    for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
    NetworkOptions options = test_options();
    options.cuda = *cuda::describe(0);
    options.selection.filter.engines = "*";
    ByLayout engine;
    engine.nhwc = nhwc;
    const std::vector<const Engine*> engines = {&reference_engine(), &engine};
    const auto session = prepare_graph(b.graph, {.options = options, .engines = engines});
    if (!session.ok()) return session.error().message;
    std::string found;
    for (const NetworkStep& step : (*session)->steps()) {
      if (step.kind == "conv") found += fmt::format("{} ", name_of(step.problem.x.layout(), 2));
    }
    return found;
  };
  EXPECT_EQ(layouts(16, 51e-6), "nchw nchw ");
  EXPECT_EQ(layouts(16, 49e-6), "nhwc nhwc ");
  EXPECT_EQ(layouts(17, 51e-6), "nhwc nhwc ");
}

// Takes its time to answer, as cuDNN does, and wants the thread that asks to be in the device.
struct SlowToAnswer : ByLayout {
  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    CUcontext context = nullptr;
    (*cuda::driver())->CtxGetCurrent(&context);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex);
    (std::this_thread::get_id() == first ? by_first : by_others) += 1;
    if (std::this_thread::get_id() != first && context == nullptr) ++outside;
    return ByLayout::predict_seconds(problem, knobs, request);
  }
  std::thread::id first = std::this_thread::get_id();
  mutable std::mutex mutex;
  mutable int by_first = 0, by_others = 0, outside = 0;
};

TEST(HomeForms, EnginesAreAskedSideBySideInTheDevice) {
  GraphBuilder b;
  int x = b.input("x", {1, 4, 8, 8});
  for (int i = 0; i < 3; ++i) {  // of different shapes: each is asked about
    x = b.node("Conv", {x, b.constant(spread({5 + i, 4 + i, 3, 3}, -0.1, 0.1))});
  }
  b.output(x);
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  NetworkOptions options = test_options();
  options.cuda = *cuda::describe(0);
  options.selection.filter.engines = "*";
  for (const char* how : {"global", "uniform:nhwc"}) {
    SCOPED_TRACE(how);
    options.how = how;
    const ByLayout quick;
    const SlowToAnswer slow;
    const auto planned = [&](const Engine& engine) {
      const std::vector<const Engine*> engines = {&reference_engine(), &engine};
      const auto plan = plan_of(b.graph, {.options = options, .engines = engines});
      return plan.ok() ? print(*plan) : plan.error().message;
    };
    const std::string expected = planned(quick);
    EXPECT_NE(expected.find("cuda:0"), std::string::npos) << expected;
    EXPECT_EQ(planned(slow), expected);
    EXPECT_EQ(planned(slow), expected);
    EXPECT_EQ(slow.outside, 0);
    if (detected_cpu_features().logical_cpus > 1) {
      EXPECT_GT(slow.by_others, 0);
    }
  }
}

}  // namespace
}  // namespace convoy::network
