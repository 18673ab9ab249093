// Nodes in narrower types than the model's: what is narrowed, what that computes, and how types are chosen within an
// error.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "convoy/network_precision.h"
#include "network/assign/layout_rules.h"
#include "network/assign/plan.h"
#include "network/graph/infer.h"
#include "network/graph/pass.h"
#include "network/testing/on_engines.h"
#include "network/testing/plans.h"
#include "select/testing/fake_engine.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

// Runs where all that is read and written has one type; computes with the oracle.
struct EngineOfType : testing_support::FakeEngine {
  EngineOfType(std::string name, DataType type, double predicted)
      : FakeEngine(std::move(name), {.predicted = predicted}), type(type) {}
  Configurations configurations(const ConvProblem&, const PlanRequest&) const override { return {}; }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.x.type == type && problem.w.type == type && problem.y.type == type) return std::nullopt;
    return Refusal{RefusalCode::data_type, "x.type is another one"};
  }
  DataType type;
};
const EngineOfType wide("fake.f32", DataType::f32, 50e-6), narrow("fake.bf16", DataType::bf16, 10e-6);
const std::array<const Engine*, 2> both{&wide, &narrow};
const std::array<const Engine*, 1> wide_only{&wide};

int conv_with_bias(GraphBuilder& b, int x, std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return b.node("Conv", {x, b.constant(spread({out, in, kernel, kernel}, -0.2, 0.3)), b.constant(spread({out}))},
                {{"pads", Ints(4, kernel / 2)}});
}

// A residual, a concatenation, pooling, an operator with a constant operand and one whose constant stays f32, a
// constant residual, and a tail of rank 2, which has no layout and keeps its type.
Graph network() {
  GraphBuilder b;
  const int x = b.node("Relu", {conv_with_bias(b, b.input("x", {1, 3, 12, 12}), 3, 8, 3)});
  const int sum = b.node("Relu", {b.node("Add", {conv_with_bias(b, x, 8, 8, 3), x})});
  const int joined = b.node("Concat", {sum, conv_with_bias(b, x, 8, 8, 1)}, {{"axis", std::int64_t{1}}});
  const int pooled = b.node("MaxPool", {joined}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const int scaled = b.node("Mul", {pooled, b.constant(spread({1, 16, 1, 1}, 0.5, 1.5))});
  const int none = b.constant(spread({0}));
  const int larger = b.node("Resize", {scaled, none, b.constant(tensor_of(DataType::f32, {4}, {1, 1, 2, 2}))},
                            {{"mode", std::string("nearest")}});
  const int last = b.node("Add", {conv_with_bias(b, larger, 16, 16, 1), b.constant(spread({1, 16, 12, 12}))});
  const int mean = b.node("Flatten", {b.node("GlobalAveragePool", {last})});
  b.output(b.node("Gemm", {mean, b.constant(spread({16, 5})), b.constant(spread({5}))}));
  b.output(pooled);
  return b.graph;
}

class Precision : public ::testing::Test {
 protected:
  Precision() { options_.cpu.isa = std::min(options_.cpu.isa, Isa::avx2); }

  std::string plan(std::span<const Engine* const> engines = both) { return plan_for(network(), options_, engines); }

  std::vector<HostTensor> run(std::span<const Engine* const> engines = both) {
    const Graph graph = network();
    auto session = prepare_graph(graph, {.options = options_, .engines = engines});
    EXPECT_TRUE(session.ok()) << session.error().message;
    if (!session.ok()) return {};
    const auto outputs = (*session)->run(inputs_for(graph));
    EXPECT_TRUE(outputs.ok()) << outputs.error().message;
    return outputs.ok() ? *outputs : std::vector<HostTensor>();
  }

  NetworkOptions options_ = test_options(1);
};

// How many lines of a kind read or write a type.
int lines_in(const NetworkPlan& plan, std::string_view kind, std::string_view type) {
  return static_cast<int>(std::ranges::count_if(plan.lines, [&](const NetworkPlanLine& line) {
    return line.kind == kind && (line.from.starts_with(type) || line.to.starts_with(type));
  }));
}
int lines_in(const std::string& plan, std::string_view kind, std::string_view type) {
  return lines_in(plan_in(plan), kind, type);
}

TEST_F(Precision, AllThatCanRunsNarrowHoweverLayoutsAreChosen) {
  const std::vector<HostTensor> expected = run();
  options_.precision = DataType::bf16;
  for (const char* how : {"greedy", "local", "global", "uniform:nhwc", "uniform:nchw", "uniform:nchw8c"}) {
    SCOPED_TRACE(how);
    options_.how = how;
    const std::string text = plan();
    EXPECT_EQ(lines_in(text, "conv", "f32"), 0) << text;
    EXPECT_EQ(lines_in(text, "conv", "bf16"), 4) << text;
    const bool chooses = std::string_view(how) == "global" || std::string_view(how) == "local";
    for (const char* op : {"Concat", "MaxPool", "Mul", "Resize", "GlobalAveragePool"}) {
      if (chooses) break;  // what is faster in f32 stays so
      const std::size_t at = text.find(std::string("  ") + op + " ");
      ASSERT_NE(at, std::string::npos) << op << "\n" << text;
      EXPECT_NE(text.substr(at, text.find('\n', at) - at).find("bf16"), std::string::npos) << text;
    }
    EXPECT_NE(text.find("\nprecision bf16\n"), std::string::npos);
    const std::vector<HostTensor> outputs = run();
    ASSERT_EQ(outputs.size(), expected.size());
    const double error = relative_error(outputs, expected);
    EXPECT_GT(error, 1e-5);
    EXPECT_LT(error, 2e-2);

    NetworkOptions replay = test_options(1);
    replay.cpu = options_.cpu;
    replay.precision = DataType::bf16;
    replay.plan = plan_in(text);
    std::swap(replay, options_);
    const std::vector<HostTensor> again = run();
    ASSERT_EQ(again.size(), outputs.size());
    for (std::size_t i = 0; i < again.size(); ++i) expect_close(again[i], outputs[i], 0, 0);
    EXPECT_EQ(plan(), text.substr(0, text.find("# ")));
    std::swap(replay, options_);
  }
}

TEST_F(Precision, WithoutAnEngineEverythingStaysAsItIs) {
  const std::vector<HostTensor> expected = run(wide_only);
  options_.precision = DataType::bf16;
  const std::string text = plan(wide_only);
  EXPECT_NE(text.find("# no engine here runs a convolution of this network in bf16"), std::string::npos) << text;
  EXPECT_EQ(text.find("bf16,"), std::string::npos) << text;
  const std::vector<HostTensor> outputs = run(wide_only);
  for (std::size_t i = 0; i < outputs.size(); ++i) expect_close(outputs[i], expected[i], 0, 0);
}

TEST_F(Precision, ANodeThatHasNoEngineIsBetweenConversions) {
  // Refuses 1x1: those run in f32.
  struct Without1x1 final : EngineOfType {
    using EngineOfType::EngineOfType;
    std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
      if (problem.w.dims[2] == 1) return Refusal{RefusalCode::filter, "w.dims[2]=1"};
      return EngineOfType::check(problem, request);
    }
  };
  const Without1x1 some("fake.bf16", DataType::bf16, 10e-6);
  const std::array<const Engine*, 2> engines{&wide, &some};
  options_.precision = DataType::bf16;
  for (const char* how : {"greedy", "global", "uniform:nhwc"}) {
    options_.how = how;
    const std::string text = plan(engines);
    EXPECT_EQ(lines_in(text, "conv", "f32"), 2) << text;
    EXPECT_EQ(lines_in(text, "conv", "bf16"), 2) << text;
    EXPECT_LT(relative_error(run(engines), run(wide_only)), 2e-2);
  }
}

TEST_F(Precision, APlansTypesAreObeyedAndWrongOnesNamed) {
  options_.precision = DataType::bf16;
  options_.how = "uniform:nchw";
  std::string text = plan();
  const auto obeyed = [&](const std::string& changed) {
    const auto parsed = parse_plan(changed);
    if (!parsed.ok()) return parsed.error().message;
    options_.plan = *parsed;
    const auto session = prepare_graph(network(), {.options = options_, .engines = both});
    return session.ok() ? std::string() : session.error().message;
  };
  EXPECT_EQ(obeyed(text), "");
  const std::size_t flatten = text.find("  Flatten ");
  ASSERT_NE(flatten, std::string::npos);
  std::string wrong = text;
  wrong.replace(wrong.find("f32,", flatten), 4, "bf16,");  // its output has rank 2
  EXPECT_NE(obeyed(wrong).find("Flatten"), std::string::npos) << obeyed(wrong);
  wrong = text;
  wrong.replace(wrong.find("precision bf16"), 14, "precision s8  ");
  EXPECT_NE(obeyed(wrong).find("precision s8: it is bf16 or f16"), std::string::npos) << obeyed(wrong);
  wrong = text;
  const std::size_t first = wrong.find("conv     ");
  wrong.replace(wrong.find("bf16,", first), 5, "f16,");  // no engine reads f16 and writes bf16
  EXPECT_NE(obeyed(wrong).find("line "), std::string::npos) << obeyed(wrong);
}

TEST_F(Precision, TypesKeepTheErrorThatIsAllowed) {
  Graph graph = network();
  const auto team = make_cpu_team(1);
  ASSERT_TRUE(run_passes(graph, PassContext{*team, options_.cpu}).ok());
  options_.precision = DataType::bf16;
  options_.how = "global";
  double square = 1;
  for (const Node& node : graph.nodes) {
    if (node.conv) options_.precision_errors[joined(node.sources)] = std::sqrt(square *= 2);  // 2, 4, 8, 16
  }
  double before = std::numeric_limits<double>::infinity();
  for (const double limit : {0.0, 2.0, 6.5, 14.0, 31.0}) {
    options_.error_limit = std::sqrt(limit);
    Chooser chooser(options_, {}, {}, both);
    std::vector<std::string> remarks;
    const auto types = node_types(graph, chooser, remarks);
    const auto global = global_forms(graph, types, chooser);
    ASSERT_TRUE(global.ok()) << global.error().message;
    double used = 0;
    int count = 0;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!global->forms.formats[n].reads.narrows() && !global->forms.formats[n].writes.narrows()) continue;
      EXPECT_TRUE(graph.nodes[n].conv.has_value());  // the others are not listed
      used += types[n].error * types[n].error;
      ++count;
    }
    EXPECT_LE(used, limit * (1 + 1e-9));
    EXPECT_LE(global->seconds, before) << limit;
    before = global->seconds;
    if (limit == 0 || limit == 31) {  // nothing is left to choose between
      EXPECT_EQ(count, limit == 0 ? 0 : 4);
      EXPECT_NE(global->proof.find("within the limit"), std::string::npos) << global->proof;
    }
  }
}

TEST_F(Precision, AnErrorIsFoundByALineWithFewerFusions) {
  Graph graph = network();
  const auto team = make_cpu_team(1);
  ASSERT_TRUE(run_passes(graph, PassContext{*team, options_.cpu}).ok());
  const auto fused = std::ranges::find_if(graph.nodes, [](const Node& node) { return node.conv && node.fused; });
  ASSERT_NE(fused, graph.nodes.end());
  options_.precision = DataType::bf16;
  options_.precision_errors = {{joined(fused->fused->conv.sources), 0.5}};
  Chooser chooser(options_, {}, {}, both);
  std::vector<std::string> remarks;
  const auto types = node_types(graph, chooser, remarks);
  for (std::size_t n = 0; n < types.size(); ++n) {
    const bool is_it = &graph.nodes[n] == &*fused;
    EXPECT_EQ(types[n].types.size(), is_it ? 2U : 1U);
    EXPECT_EQ(types[n].error, is_it ? 0.5 : 0);
  }
}

TEST_F(Precision, AnErrorThatIsAllowedIsKeptAndUsed) {
  const OnEngines net(network(), both);
  const std::vector<NetworkInputs> inputs{inputs_for(network()), inputs_for(network(), -1, 3)};
  options_.precision = DataType::bf16;
  std::vector<std::string> shown;  // also where no node is looked at by itself
  const auto all =
      choose_precision(net, inputs, options_, 1, [&](double, std::string_view what) { shown.emplace_back(what); });
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(shown, (std::vector<std::string>{"the plan in f32", "its outputs", "the fastest plan and its outputs"}));
  EXPECT_EQ(lines_in(all->plan, "conv", "f32"), 0) << print(all->plan);
  EXPECT_TRUE(all->nodes.empty());  // nothing to look at one by one
  EXPECT_EQ(all->error, all->narrow_error);
  EXPECT_LT(all->predicted_seconds, all->f32_seconds);

  const auto half = choose_precision(net, inputs, options_, all->narrow_error / 2);
  ASSERT_TRUE(half.ok()) << half.error().message;
  EXPECT_FALSE(half->nodes.empty());
  EXPECT_LE(half->error, all->narrow_error / 2);
  EXPECT_GT(half->error, 0);
  EXPECT_GT(half->narrowed, 0);
  EXPECT_LT(half->predicted_seconds, half->f32_seconds);
  EXPECT_GE(half->predicted_seconds, half->narrow_seconds);
  // The error is that of the plan as anybody runs it.
  options_.plan = half->plan;
  const std::vector<HostTensor> outputs = run();
  options_ = test_options(1);
  options_.cpu.isa = std::min(options_.cpu.isa, Isa::avx2);
  EXPECT_LE(relative_error(outputs, run(wide_only)), half->error * (1 + 1e-6));

  options_.precision = DataType::bf16;
  const auto none = choose_precision(net, inputs, options_, 0);
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ(none->error, 0);
  EXPECT_EQ(none->predicted_seconds, none->f32_seconds);
  // Nodes were looked at in the order of what they gain.
  const auto costs_in = [](const NetworkPlan& plan) {
    std::map<std::string, double> costs;
    for (const NetworkPlanLine& line : plan.lines) {
      if (line.kind != "convert" && line.cost) costs[line.name] = line.cost->seconds;
    }
    return costs;
  };
  const auto wide = costs_in(none->plan), narrow = costs_in(all->plan);
  EXPECT_TRUE(std::ranges::is_sorted(half->nodes, std::greater<>(), [&](const auto& node) {
    return wide.at(node.name) - narrow.at(node.name);
  })) << print(all->plan);
  options_.precision = DataType::f32;
  EXPECT_EQ(choose_precision(net, inputs, options_, 1).error().code, ErrorCode::invalid_argument);
  options_.precision = DataType::bf16;
  EXPECT_EQ(choose_precision(net, inputs, options_, -1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(choose_precision(net, {}, options_, 1).error().code, ErrorCode::invalid_argument);
  options_.memory.least = true;
  EXPECT_EQ(choose_precision(net, inputs, options_, 1).error().code, ErrorCode::unsupported);
}

// In bf16 activations are steps of their own, in f32 they are fused: it is one node that is looked at.
TEST_F(Precision, ANodeIsLookedAtWithAllOfItsFusions) {
  struct : EngineOfType {
    using EngineOfType::EngineOfType;
    double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
      return problem.epilogue.activation.kind == ActivationKind::identity ? 10e-6 : 1;
    }
  } const fuses_badly("fake.bf16", DataType::bf16, 10e-6);
  const std::array<const Engine*, 2> engines{&wide, &fuses_badly};
  const OnEngines net(network(), engines);
  const std::vector<NetworkInputs> inputs{inputs_for(network())};
  options_.precision = DataType::bf16;
  const auto all = choose_precision(net, inputs, options_, 1);
  ASSERT_TRUE(all.ok()) << all.error().message;
  const auto half = choose_precision(net, inputs, options_, all->narrow_error / 2);
  ASSERT_TRUE(half.ok()) << half.error().message;
  const auto fused = [](const NarrowedNode& node) { return node.name.find('+') != std::string::npos; };
  EXPECT_TRUE(std::ranges::any_of(half->nodes, fused));
  for (const NarrowedNode& node : half->nodes) EXPECT_TRUE(!fused(node) || node.error > 0) << node.name;
  EXPECT_GT(half->narrowed, 0);
  EXPECT_LE(half->error, all->narrow_error / 2);
}

// Gives up f32's precision where that is allowed.
struct CutsOff final : testing_support::FakeEngine {
  CutsOff() : FakeEngine("fake.tf32", {.predicted = 10e-6, .notes = {std::string(note::tf32)}}) {}
  struct Plan final : ConvPlan {
    std::unique_ptr<ConvPlan> right;
    std::int64_t elements = 0;
    Candidate candidate() const override { return {"fake.tf32", {}}; }
    std::size_t workspace_bytes() const override { return right->workspace_bytes(); }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      CONVOY_CHECK(right->execute(args, context));
      float* const out = static_cast<float*>(args.out);
      for (std::int64_t i = 0; i < elements; ++i) out[i] *= i % 2 == 0 ? 1.001F : 0.999F;
      return {};
    }
  };
  Configurations configurations(const ConvProblem&, const PlanRequest&) const override { return {}; }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.x.type == DataType::f32) return std::nullopt;
    return Refusal{RefusalCode::data_type, "x.type is another one"};
  }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    auto plan = std::make_unique<Plan>();
    CONVOY_TRY(plan->right, reference_engine().plan(problem, {}, request));
    plan->elements = problem.out().elements();
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }
};

TEST_F(Precision, ConvolutionsThatStayStrictKeepTheErrorOfTf32) {
  const CutsOff cuts_off;
  const std::array<const Engine*, 2> engines{&wide, &cuts_off};
  const OnEngines net(network(), engines);
  const std::vector<NetworkInputs> inputs{inputs_for(network())};
  options_.math = MathMode::tf32;
  const auto all = choose_precision(net, inputs, options_, 1);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_GT(all->error, 1e-4);
  EXPECT_EQ(all->narrowed, 4) << print(all->plan);
  EXPECT_EQ(print(all->plan).find("math=strict"), std::string::npos);

  const auto half = choose_precision(net, inputs, options_, all->error / 2);
  ASSERT_TRUE(half.ok()) << half.error().message;
  EXPECT_LE(half->error, all->error / 2);
  EXPECT_GT(half->error, 0);
  const std::string text = print(half->plan);
  const auto lines = [&](bool strict) {
    return std::ranges::count_if(half->plan.lines, [&](const NetworkPlanLine& line) {
      return line.kind == "conv" && line.strict == strict &&
             line.runs_on.starts_with(strict ? "fake.f32" : "fake.tf32");
    });
  };
  EXPECT_EQ(lines(false), half->narrowed) << text;
  EXPECT_GT(lines(true), 0) << text;
  EXPECT_EQ(lines(true) + lines(false), 4) << text;
  EXPECT_NE(text.find("\nmath tf32\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" alone: "), std::string::npos) << text;

  options_.plan = plan_in(text);
  EXPECT_EQ(plan(engines), text.substr(0, text.find("# ")));
  const std::vector<HostTensor> outputs = run(engines);
  options_.plan.reset();
  options_.math = MathMode::strict;
  EXPECT_NEAR(relative_error(outputs, run(wide_only)), half->error, 1e-9);

  options_.math = MathMode::tf32;
  const auto none = choose_precision(net, inputs, options_, 0);
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ(none->error, 0);
  EXPECT_EQ(none->narrowed, 0) << print(none->plan);
  options_.plan = none->plan;
  EXPECT_EQ(relative_error(run(engines), run(wide_only)), 0);
  options_.plan.reset();
  options_.precision = DataType::bf16;
  EXPECT_EQ(choose_precision(net, inputs, options_, 1).error().code, ErrorCode::invalid_argument);
}

TEST_F(Precision, OnlyConvolutionsAreStrict) {
  std::string text = plan();
  text = replaced(text, "math strict", "math tf32");
  const std::string pool = line_of(text, "op  ");
  const std::size_t arrow = pool.find("-> "), cost = pool.find(' ', arrow + 3);
  const auto parsed = parse_plan(replaced(text, pool, pool.substr(0, cost) + " math=strict" + pool.substr(cost)));
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message.find("math=strict: it is for convolutions"), std::string::npos)
      << parsed.error().message;
}

TEST_F(Precision, ActivationsThatAreNarrowKeepALimitThatWideOnesCannot) {
  options_.how = "global";
  options_.memory.least = true;
  const auto bytes_of = [&](const std::string& text) {
    NetworkOptions replay = test_options(1);
    replay.cpu = options_.cpu;
    replay.precision = options_.precision;
    replay.plan = plan_in(text);
    const auto session = prepare_graph(network(), {.options = replay, .engines = both});
    EXPECT_TRUE(session.ok()) << session.error().message;
    return static_cast<std::int64_t>((*session)->activation_bytes());
  };
  const std::int64_t wide = bytes_of(plan());
  options_.precision = DataType::bf16;
  const std::int64_t narrow = bytes_of(plan());
  EXPECT_LT(narrow, wide);
  options_.memory = {.activation_limit = narrow};
  const std::string text = plan();
  EXPECT_LE(bytes_of(text), narrow) << text;
}

TEST(KeptPlans, OfAnotherPrecisionAreOthers) {
  NetworkPlanHeader header;
  const std::string wide = kept_plan_path("plans", header, cpu_features());
  header.precision = DataType::bf16;
  const std::string narrow = kept_plan_path("plans", header, cpu_features());
  EXPECT_NE(narrow, wide);
  header.precision = DataType::f16;
  EXPECT_NE(kept_plan_path("plans", header, cpu_features()), narrow);
}

TEST(RelativeError, IsTheGreatestOfTheOutputs) {
  const HostTensor one = tensor_of(DataType::f32, {2}, {3, 4}), other = tensor_of(DataType::f32, {2}, {3, 5});
  const std::vector<HostTensor> expected{one, one};
  EXPECT_EQ(relative_error(expected, expected), 0);
  EXPECT_DOUBLE_EQ(relative_error(std::vector<HostTensor>{one, other}, expected), 0.2);
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(
      std::isinf(relative_error(std::vector<HostTensor>{one, tensor_of(DataType::f32, {2}, {3, none})}, expected)));
  EXPECT_TRUE(std::isinf(relative_error(std::vector<HostTensor>{one}, expected)));
  EXPECT_TRUE(std::isinf(relative_error(std::vector<HostTensor>{one, tensor_of(DataType::f32, {1}, {3})}, expected)));
}

}  // namespace
}  // namespace convoy::network
