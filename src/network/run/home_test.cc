// Networks at home on a GPU without a compiler, so that it computes convolutions only: where their steps run, what is
// captured and when, and what is refused. An engine of the test computes when the stream, or a graph, comes to it.
#include "network/testing/home.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "convoy/network_precision.h"
#include "device/device.h"
#include "network/assign/kept_plan.h"
#include "network/assign/plan.h"
#include "network/testing/on_engines.h"
#include "network/tune/side_by_side.h"

namespace convoy::network {
namespace {

const bool driver_set = use_fake_driver(false);
const std::string profiler_file = fakes() / "fake_profiler/libprofiler.so";
const bool profiler_set = ::setenv("NVTX_INJECTION64_PATH", profiler_file.c_str(), 1) == 0;

std::string profiled_ranges() {
  void* const library = dlopen(profiler_file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  auto* const lines = library ? reinterpret_cast<const char* (*)()>(dlsym(library, "fake_profiler_lines")) : nullptr;
  return lines ? lines() : "NVTX has not loaded it";
}

TEST_F(Home, WhatHasNoKernelRunsOnTheProcessorBetweenCopies) {
  const Graph graph = with_pool();
  expected_of(graph);
  prepare(graph);
  std::string text;
  for (const NetworkStep& step : session_->steps()) {
    text += (step.kind == "op" ? step.kind : step.implementation) + "\n";
  }
  EXPECT_EQ(text,
            "copy cpu to cuda:0\ntest.stream\ntest.stream\ncopy cuda:0 to cpu\nop\ncopy cpu to cuda:0\ntest.stream\n"
            "test.stream\ncopy cuda:0 to cpu\n");
  EXPECT_EQ(devices(), (std::vector<std::string>{"cuda:0", "cuda:0", "cuda:0", "cuda:0", "cpu", "cuda:0", "cuda:0",
                                                 "cuda:0", "cuda:0"}));
  ASSERT_EQ(session_->remarks().size(), 1U);
  const std::string& remark = session_->remarks()[0];
  EXPECT_TRUE(remark.starts_with("n2: ") && remark.ends_with(": on the processor, with copies")) << remark;
  EXPECT_NE(remark.find("NVRTC"), std::string::npos) << remark;
  // The first run goes step by step; then there is a graph for each side of the pool.
  expect_run(0, 0);
  expect_run(2, 2);
  inputs_[0] = spread({2, 4, 12, 12}, -2, 1);
  const auto same = prepare_graph(graph, {.options = options_, .engines = engines_});
  ASSERT_TRUE(same.ok());
  expected_ = *(*same)->run(inputs_);
  expect_run(0, 2);
}

TEST_F(Home, ProfilersSeeRunsAndStepsByName) {
  const Graph graph = only_convolutions();
  expected_of(graph);
  prepare(graph);
  profiled_ranges();
  const auto run_of = [](const std::string& at_home) {
    return "run\n  x: copy cpu to cuda:0\n" + at_home + "  Conv_2.out: copy cuda:0 to cpu\n";
  };
  expect_run(0, 0);
  EXPECT_EQ(profiled_ranges(), run_of("  n0+n1: test.stream\n  n2: test.stream\n"));
  expect_run(1, 1);
  EXPECT_EQ(profiled_ranges(), run_of("  record\n    n0+n1: test.stream\n    n2: test.stream\n  launch\n"));
  expect_run(0, 1);
  EXPECT_EQ(profiled_ranges(), run_of("  launch\n"));
}

TEST_F(Home, NothingIsCapturedWhereThatIsNotWanted) {
  const Graph graph = with_pool();
  expected_of(graph);
  options_.graphs = false;
  prepare(graph);
  for (int i = 0; i < 3; ++i) expect_run(0, 0);
  options_.graphs = true;
  options_.synchronous = true;
  prepare(graph);
  for (int i = 0; i < 3; ++i) expect_run(0, 0);
  options_.synchronous = false;
  prepare(graph);
  for (int i = 0; i < 3; ++i) {
    RunStatistics statistics{.each_step = false};
    ASSERT_TRUE(session_->run(inputs_, &statistics).ok());
    EXPECT_TRUE(statistics.step_seconds.empty());
  }
}

TEST_F(Home, StepsAreTimedWhereTheyRunAndCaptured) {
  const Graph graph = with_pool();
  expected_of(graph);
  for (const bool graphs : {true, false}) {
    options_.graphs = graphs;
    prepare(graph);
    const int captures_before = captures(), launches_before = graph_launches();
    for (int i = 0; i < 3; ++i) {
      RunStatistics statistics;
      const auto ran = session_->run(inputs_, &statistics);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      expect_close((*ran)[0], expected_[0]);
      ASSERT_EQ(statistics.step_seconds.size(), session_->steps().size());
      ASSERT_TRUE(statistics.device_seconds.has_value());
      double there = 0;
      for (const std::size_t s : {1U, 2U, 6U, 7U}) {  // the convolutions
        EXPECT_GT(statistics.step_seconds[s], 0);
        there += statistics.step_seconds[s];
      }
      EXPECT_LE(there, *statistics.device_seconds * 1.001);
      EXPECT_LE(*statistics.device_seconds, statistics.seconds);
      EXPECT_GT(statistics.step_seconds[4], 0) << "the pool, on the processor";
    }
    EXPECT_EQ(captures() - captures_before, graphs ? 2 : 0);
    EXPECT_EQ(graph_launches() - launches_before, graphs ? 4 : 0);
    const auto trace = session_->trace(inputs_);
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    ASSERT_EQ(trace->steps.size(), session_->steps().size());
    double last = 0;
    for (std::size_t s = 0; s < trace->steps.size(); ++s) {
      EXPECT_EQ(trace->steps[s].step, static_cast<int>(s));
      EXPECT_GE(trace->steps[s].begin, last - 1e-7);
      last = trace->steps[s].end;
      EXPECT_GE(last, trace->steps[s].begin);
    }
    EXPECT_LE(last, trace->seconds);
  }
}

TEST_F(Home, AnF32NetworkRunsThereAsNarrowAsAnErrorAllows) {
  const Graph graph = with_pool();
  on_gpu_.wide_seconds = 50e-6;
  const OnEngines net(graph, engines_);
  const std::vector<NetworkInputs> inputs{inputs_for(graph)};
  expected_of(graph);
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    options_.precision = type;
    options_.plan.reset();
    const auto all = choose_precision(net, inputs, options_, 1);
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_GT(all->error, 1e-6);
    const auto half = choose_precision(net, inputs, options_, all->error / 2);
    ASSERT_TRUE(half.ok()) << half.error().message;
    EXPECT_TRUE(half->remarks.empty()) << half->remarks.front();
    EXPECT_LE(half->error, all->error / 2);
    EXPECT_GT(half->error, 0);
    const std::string text = print(half->plan), narrow = std::string(name_of(type)) + ",";
    const auto convolutions = [&](std::string_view of) {
      return std::ranges::count_if(half->plan.lines, [&](const NetworkPlanLine& line) {
        return line.kind == "conv" && line.from.starts_with(of);
      });
    };
    EXPECT_GT(convolutions(narrow), 0) << text;
    EXPECT_GT(convolutions("f32,"), 0) << text;
    EXPECT_FALSE(half->nodes.empty());
    for (const NarrowedNode& node : half->nodes) {
      EXPECT_NE(text.find(node.name + " alone: "), std::string::npos) << node.name << "\n" << text;
    }
    // Step by step, captured and launched, it is what was measured.
    options_.plan = plan_in(text);
    prepare(graph);
    for (const NetworkStep& step : session_->steps()) {
      EXPECT_TRUE(step.kind != "conv" || step.device == "cuda:0") << step.implementation;
    }
    for (int i = 0; i < 3; ++i) {
      const auto ran = session_->run(inputs_);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      expect_close((*ran)[0], expected_[0], 1e-2);
    }
  }
}

TEST_F(Home, CandidatesAreSwitchedAndCapturedAnew) {
  const Graph graph = only_convolutions();
  expected_of(graph);
  testing_support::StreamEngine other("test.other");
  engines_.push_back(&other);
  prepare(graph);
  const auto steps = session_->steps();
  const ConvolutionCandidates candidates[] = {
      {std::ranges::find(steps, "conv", &NetworkStep::kind)->problem, {{"test.stream", {}}, {"test.other", {}}}}};
  auto session = prepare_graph(graph, {.options = options_, .candidates = candidates, .engines = engines_});
  ASSERT_TRUE(session.ok()) << session.error().message;
  session_ = std::move(*session);
  other.runs = 0;
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1);
  EXPECT_EQ(other.runs, 0);
  session_->use(0, 1);
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1);
  EXPECT_EQ(other.runs, 3);
  session_->use(0, 0);
  for (int i = 0; i < 2; ++i) expect_run(0, 1);  // whose graph is still there
  EXPECT_EQ(other.runs, 3);
}

TEST_F(Home, AFailedCaptureIsAnErrorOfItsRun) {
  const Graph graph = with_pool();
  expected_of(graph);
  prepare(graph);
  expect_run(0, 0);
  of_driver<CUresult>("fake_end_capture") = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const auto failed = session_->run(inputs_);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("recording steps 1 to 2"), std::string::npos) << failed.error().message;
  expect_run(2, 2);
}

// Whatever call fails, it is an error of its run, and the next one is right; and so is what is captured behind it.
TEST_F(Home, AFailureAtAnyCallIsAnErrorOfItsRun) {
  const Graph graph = with_pool();
  expected_of(graph);
  for (const int run : {0, 1, 2}) {  // step by step, captured, launched
    int failed = 0;
    for (int n = 1; failed == n - 1; ++n) {
      ASSERT_LT(n, 200);
      prepare(graph);
      for (int i = 0; i < run; ++i) ASSERT_TRUE(session_->run(inputs_).ok());
      fail_at() = n;
      const auto ran = session_->run(inputs_);
      failed += ran.ok() ? 0 : 1;
      if (ran.ok()) {
        EXPECT_GT(fail_at(), 0) << "call " << n << " of run " << run << " failed, and nobody said so";
      } else {
        EXPECT_EQ(ran.error().code, ErrorCode::out_of_memory) << ran.error().message;
        EXPECT_EQ(fail_at(), 0) << ran.error().message;
      }
      fail_at() = 0;
      for (int i = 0; i < 3; ++i) {
        const auto next = session_->run(inputs_);
        ASSERT_TRUE(next.ok()) << "after call " << n << " of run " << run << ": " << next.error().message;
        expect_close((*next)[0], expected_[0]);
      }
    }
    EXPECT_GT(failed, run == 2 ? 4 : 8);
  }
}

TEST_F(Home, SynchronousErrorsNameTheirStep) {
  const Graph graph = with_pool();
  options_.synchronous = true;
  prepare(graph);
  ASSERT_TRUE(session_->run(inputs_).ok());
  std::set<std::string> named;
  for (int n = 1;; ++n) {
    fail_at() = n;
    const auto ran = session_->run(inputs_);
    if (ran.ok()) break;
    const std::string& message = ran.error().message;
    for (std::size_t s = 0; s < session_->steps().size(); ++s) {
      if (message.starts_with("step " + std::to_string(s) + " (" + session_->steps()[s].nodes + "): ")) {
        named.insert(session_->steps()[s].nodes);
      }
    }
  }
  fail_at() = 0;
  EXPECT_TRUE(named.contains("n0") && named.contains("n1") && named.contains("n3")) << testing::PrintToString(named);
}

TEST_F(Home, SessionsShareTheirWeightsThere) {
  const Graph graph = only_convolutions();
  expected_of(graph);
  prepare(graph);
  const auto free = [] { return cuda::memory_info(0)->free_bytes; };
  const std::int64_t before = free();
  auto first = std::move(session_);
  prepare(graph);
  const std::int64_t second = before - free();
  const std::int64_t weights = std::int64_t{4} * (6 * 4 * 9 + 3 * 6 * 9);
  EXPECT_EQ(static_cast<std::int64_t>(session_->device_bytes()) - second, weights + 4 * (6 + 3)) << "of the first";
  first.reset();
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1);
  session_.reset();
  EXPECT_GT(free(), before);
}

TEST_F(Home, AMemoryLimitCountsWhatIsThere) {
  const Graph graph = only_convolutions();
  expected_of(graph);
  options_.device_memory_limit = 100;
  const std::string none = error_of(graph), begin = "memory limit: a run takes ";
  ASSERT_TRUE(none.starts_with(begin) && none.ends_with(" bytes of cuda:0, not 100; no batch fits")) << none;
  const std::int64_t needed = std::stoll(none.substr(begin.size()));
  options_.device_memory_limit = needed - 1;
  EXPECT_TRUE(error_of(graph).ends_with("the largest batch that fits is about 1")) << error_of(graph);
  options_.device_memory_limit = needed;
  prepare(graph);
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1);
  EXPECT_LE(static_cast<std::int64_t>(session_->device_bytes()), needed);
  EXPECT_GT(static_cast<std::int64_t>(session_->device_bytes()), needed / 2);
  options_.cuda.reset();
  EXPECT_NE(error_of(graph).find("a limit of a GPU's memory"), std::string::npos) << error_of(graph);
}

TEST_F(Home, HalvesStayHalvesAndLieChannelsLast) {
  GraphBuilder b;
  const auto half = [](HostTensor tensor) {
    return *converted(tensor, TensorDesc::packed(DataType::f16, tensor.desc.dims));
  };
  const int x = b.input("x", {1, 4, 8, 8}, DataType::f16);
  b.output(b.node("Conv", {x, b.constant(half(spread({6, 4, 3, 3}, -0.1, 0.1))), b.constant(half(spread({6})))}));
  const Graph graph = named(b);
  prepare(graph);
  const auto steps = session_->steps();
  const auto found = std::ranges::find(steps, "conv", &NetworkStep::kind);
  ASSERT_NE(found, steps.end());
  EXPECT_EQ(found->problem.x.type, DataType::f16);
  EXPECT_TRUE(found->problem.x.is_packed(Layout::nchw)) << "as the input comes";
  EXPECT_TRUE(found->problem.w.is_packed(Layout::nhwc));  // so it is uploaded
  EXPECT_TRUE(found->problem.y.is_packed(Layout::nhwc));
  expected_of(graph);
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1, 2e-3);
}

TEST_F(Home, AFusionThatNoEngineTakesIsUndone) {
  on_gpu_.declared().any_activation = false;
  on_gpu_.declared().activations.clear();
  const Graph graph = only_convolutions();
  expected_of(graph);
  prepare(graph);
  std::vector<std::string> kinds;
  for (const NetworkStep& step : session_->steps()) {
    if (step.kind != "convert") kinds.push_back(step.kind + "@" + step.device);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"conv@cuda:0", "op@cpu", "conv@cuda:0"}));
  expect_run(0, 0);
  expect_run(2, 2);
}

TEST_F(Home, AGateIsPartOfTheConvolutionThatReadsItsProduct) {
  const Graph graph = with_gate();
  expected_of(graph);
  for (const char* const how : {"greedy", "global", "local", "uniform:nhwc"}) {
    options_.how = how;
    options_.plan.reset();
    prepare(graph);
    std::vector<std::string> gated;
    for (const NetworkStep& step : session_->steps()) {
      EXPECT_TRUE(step.kind == "convert" || step.kind == "conv") << step.nodes;
      if (step.kind == "conv" && step.problem.gate) gated.push_back(step.nodes);
    }
    EXPECT_EQ(gated, std::vector<std::string>{"n3+n4+n5"}) << how;
    for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1);
    const auto made = plan_of(graph, {.options = options_, .engines = engines_});
    ASSERT_TRUE(made.ok()) << made.error().message;
    options_.plan = plan_in(print(*made));
    prepare(graph);
    for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 1 : 0, i == 0 ? 0 : 1);
  }
}

// The residual stays where it is: the gate is undone alone. In f16, too, where the processor's engines take none.
TEST_F(Home, AGateThatNoEngineTakesIsUndone) {
  on_gpu_.declared().gate = false;
  const Graph graph = with_gate();
  expected_of(graph);
  for (const auto& [how, precision] : {std::pair{"greedy", DataType::f32},
                                       {"global", DataType::f32},
                                       {"local", DataType::f32},
                                       {"greedy", DataType::f16}}) {
    options_.how = how;
    options_.precision = precision;
    options_.plan.reset();
    prepare(graph);
    std::vector<std::string> steps;
    for (const NetworkStep& step : session_->steps()) {
      if (step.kind != "convert") steps.push_back(step.kind + " " + step.nodes + " " + step.device);
      EXPECT_TRUE(step.kind != "conv" || step.problem.x.type == precision) << step.nodes;
    }
    EXPECT_EQ(steps,
              (std::vector<std::string>{"conv n0 cuda:0", "conv n1+n2 cuda:0", "op n3 cpu", "conv n4+n5 cuda:0"}))
        << how;
    const double relative = precision == DataType::f16 ? 1e-2 : 1e-5;
    expect_run(0, 0, relative);
    expect_run(2, 2, relative);
    const auto made = plan_of(graph, {.options = options_, .engines = engines_});
    ASSERT_TRUE(made.ok()) << made.error().message;
    options_.plan = plan_in(print(*made));
    prepare(graph);
    expect_run(0, 0, relative);
  }
}

// Then it is undone, and the convolution that is left works in the layout of its neighbours: row-major ones between two
// conversions were what no engine's answer about the whole led to.
TEST_F(Home, AConvolutionWhoseFusionIsUndoneKeepsTheLayoutOfTheOthers) {
  on_gpu_.declared().gate = false;
  const Graph graph = with_gate();
  options_.math = MathMode::tf32;
  for (const char* const how : {"greedy", "uniform:nhwc"}) {
    options_.how = how;
    prepare(graph);
    int convolutions = 0;
    for (const NetworkStep& step : session_->steps()) {
      if (step.kind != "conv" || step.nodes != "n4+n5") continue;
      ++convolutions;
      EXPECT_TRUE(step.problem.x.is_packed(Layout::nhwc)) << how;
      EXPECT_TRUE(step.problem.y.is_packed(Layout::nhwc)) << how;
    }
    EXPECT_EQ(convolutions, 1) << how;
  }
}

TEST_F(Home, WhatIsNotDoneThereYetIsRefused) {
  const Graph graph = only_convolutions();
  const auto refused = [&](const std::string& text) {
    const std::string message = error_of(graph);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  options_.how = "uniform:nchw8c";
  refused("how='uniform:nchw8c'");
  options_.how = "greedy";
  options_.parts = BatchParts{1, false};
  refused("parts 1");
  options_.parts.reset();
  options_.memory.activation_limit = 1 << 20;
  refused("a goal for memory");
}

// A graph as a network that can be prepared.
class OfGraph final : public Network {
 public:
  OfGraph(const Graph& graph, std::span<const Engine* const> engines) : graph_(graph), engines_(engines) {}
  const std::string& name() const override { return name_; }
  const std::vector<NetworkValue>& inputs() const override { return values_; }
  const std::vector<NetworkValue>& outputs() const override { return values_; }
  int node_count() const override { return 0; }
  const ModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<Session>> prepare(std::span<const TensorDesc>, const NetworkOptions& options,
                                           const SelectionProgress&) const override {
    CONVOY_TRY(auto session, prepare_graph(graph_, {.options = options, .engines = engines_}));
    return std::unique_ptr<Session>(std::move(session));
  }
  Result<std::unique_ptr<SwitchableSession>> prepare_switchable(std::span<const TensorDesc>, const NetworkOptions&,
                                                                std::span<const ConvolutionCandidates>) const override {
    return Error{ErrorCode::unsupported, "not here"};
  }
  Result<NetworkPlan> plan(std::span<const TensorDesc>, const NetworkOptions&,
                           const SelectionProgress&) const override {
    return Error{ErrorCode::unsupported, "not here"};
  }
  Result<std::vector<NetworkConvolution>> convolutions(std::span<const TensorDesc>,
                                                       const NetworkOptions&) const override {
    return Error{ErrorCode::unsupported, "not here"};
  }

 private:
  const Graph& graph_;
  const std::span<const Engine* const> engines_;
  const std::string name_;
  const std::vector<NetworkValue> values_;
  const ModelInfo info_;
};

// A run that is timed has no marks at its steps; what the steps take adds up to no more.
TEST_F(Home, RunsSideBySideAreTimedWithoutMarks) {
  const Graph graph = only_convolutions();
  const std::vector<HostTensor> inputs = inputs_for(graph);
  const std::vector<TensorDesc> descs = {inputs[0].desc};
  const std::vector<Variant> both = {{"a", options_}, {"b", options_}};
  const int captures_before = captures();
  const auto timed = time_side_by_side(OfGraph(graph, engines_), descs, both, inputs, 2);
  ASSERT_TRUE(timed.ok()) << timed.error().message;
  EXPECT_EQ(captures() - captures_before, 2 * 2 * 2) << "each of two sessions twice, with marks and without";
  for (const Timed& each : *timed) {
    EXPECT_EQ(each.seconds.samples + each.seconds.outliers, 2);
    ASSERT_EQ(each.step_seconds.size(), each.steps.size());
    double there = 0;
    for (std::size_t s = 0; s < each.steps.size(); ++s)
      there += each.steps[s].kind == "conv" ? each.step_seconds[s] : 0;
    EXPECT_GT(there, 0);
    EXPECT_LE(there, each.seconds.median * 1.001);
    EXPECT_LE(each.undisturbed_seconds, each.seconds.median * 1.5);
  }
}

TEST_F(Home, PlansAreForTheirHome) {
  const Graph graph = only_convolutions();
  const auto made = plan_of(graph, {.options = options_, .engines = engines_});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->header.device, "Fake 9000");
  const NetworkPlan read = plan_in(print(*made));
  EXPECT_EQ(read.header.device, made->header.device);
  NetworkPlanHeader other = made->header;
  other.device.clear();
  EXPECT_NE(kept_plan_path("x", other, options_.cpu), kept_plan_path("x", made->header, options_.cpu));
  // A plan of the processor's for the GPU, and the other way.
  NetworkOptions on_processor = test_options();
  on_processor.plan = read;
  const auto elsewhere = prepare_graph(graph, {.options = on_processor, .engines = engines_});
  ASSERT_FALSE(elsewhere.ok());
  EXPECT_NE(elsewhere.error().message.find("the plan is for device 'Fake 9000'"), std::string::npos)
      << elsewhere.error().message;
}

TEST_F(Home, APlanIsObeyedThere) {
  const Graph graph = with_pool();
  expected_of(graph);
  testing_support::StreamEngine other("test.other");
  other.with_activation = 2e-6;
  engines_.push_back(&other);
  const auto made = plan_of(graph, {.options = options_, .engines = engines_});
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::string text = print(*made);
  // Another candidate, and made on another GPU of the same kind.
  const std::size_t at = text.find("test.stream");
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, 11, "test.other");
  for (std::size_t there = 0; (there = text.find("@cuda:0")) != std::string::npos;) text.replace(there, 7, "@cuda:1");
  options_.plan = plan_in(text);
  prepare(graph);
  std::vector<std::string> engines;
  for (const NetworkStep& step : session_->steps()) {
    if (step.kind != "conv") continue;
    engines.push_back(step.implementation);
    EXPECT_EQ(step.selection.by, SelectedBy::plan);
  }
  EXPECT_EQ(engines, (std::vector<std::string>{"test.other", "test.stream", "test.stream", "test.stream"}));
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 2 : 0, i == 0 ? 0 : 2);
  // The pool has no kernel here.
  const std::size_t pool = text.find("\"n2\""), end = text.find('\n', pool);
  std::string line = text.substr(pool, end - pool);
  for (std::size_t there = 0; (there = line.find("f32,nchw ", there)) != std::string::npos; there += 15) {
    line.replace(there, 9, "f32,nchw@cuda:1 ");
  }
  text.replace(pool, end - pool, line);
  options_.plan = plan_in(text);
  const std::string refused = error_of(graph);
  EXPECT_TRUE(refused.find("\"n2\"") != std::string::npos && refused.find("NVRTC") != std::string::npos) << refused;
  options_.lenient_plan = true;
  prepare(graph);
  for (int i = 0; i < 3; ++i) expect_run(i == 1 ? 2 : 0, i == 0 ? 0 : 2);
  EXPECT_FALSE(session_->remarks().empty());
}

TEST_F(Home, WhatPlansCostIsMeasuredThere) {
  const Graph graph = only_convolutions();
  options_.selection.mode = SelectionMode::measured;
  options_.selection.budget_seconds = 5;
  const auto made = plan_of(graph, {.options = options_, .engines = engines_});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_GE(made->cost().measured, 1) << print(*made);
}

}  // namespace
}  // namespace convoy::network
