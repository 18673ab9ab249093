// What of a network at home on a GPU its engines are asked for; in run/home_test.cc's program, on the fake driver.
#include <set>

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
    asked.insert(print(problem));
    return Estimate{{}, !problem.epilogue.narrow_bias ? wide : problem.epilogue.takes_z() ? with_residual : 1e-6, true};
  }
  double wide = 1e-6, with_residual = 1e-6;
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
  // Each is the best that there can be: neither a bias of 32 bits is asked for nor what is left of a fusion.
  const AskedEngine alike;
  EXPECT_EQ(bias_types(alike), "narrow narrow ");
  EXPECT_EQ(alike.asked.size(), 2U);
  for (const std::string& problem : alike.asked) EXPECT_NE(problem.find("bias=out"), std::string::npos) << problem;
  // The second is not, so it is asked for with the other bias, and without its Add and Relu.
  AskedEngine slow;
  slow.with_residual = 1;
  EXPECT_EQ(bias_types(slow), "narrow wide ");
  EXPECT_GT(slow.asked.size(), 2U);
  slow.asked.clear();
  slow.wide = 100;
  EXPECT_EQ(bias_types(slow), "narrow narrow ");
}

}  // namespace
}  // namespace convoy::network
