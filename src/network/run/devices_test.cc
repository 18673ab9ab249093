// Networks whose convolutions run elsewhere than on the processor: on a device that a test makes up, whose addresses
// the processor can't read, and on a GPU of device/cuda/testing/fake_driver.cc. Copies are steps that everybody sees.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "device/cuda/device.h"
#include "engines/reference/reference.h"
#include "network/assign/plan.h"
#include "network/testing/plans.h"
#include "select/testing/fake_engine.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

// Before anything asks for the driver.
const bool driver_set = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();  // the build puts it there
  ::setenv("CONVOY_CUDA_DRIVER", (folder / "fake_driver/libcuda.so.1").c_str(), 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_NVRTC", "CONVOY_CUDNN"}) ::setenv(library, "off", 1);
  return true;
}();

// An address of the made-up device: no processor has such a one, so that who reads it ends.
constexpr std::uintptr_t kHidden = std::uintptr_t{1} << 62;
void* hidden(void* pointer) { return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(pointer) | kHidden); }
template <class T>
T* shown(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) & ~kHidden);
}

// How often the thread is in the made-up device at the moment.
thread_local int entered = 0;

struct Log {
  int copies_in = 0, copies_out = 0, executions = 0;
  std::size_t allocated = 0;
};

class FakeQueue final : public Queue {
 public:
  explicit FakeQueue(Log& log) : log_(log) {}
  DeviceKind kind() const override { return DeviceKind::cuda; }
  Result<void> copy_in(void* to, const void* host, std::size_t bytes) override {
    ++log_.copies_in;
    std::memcpy(shown(to), host, bytes);
    return {};
  }
  Result<void> copy_out(void* host, const void* from, std::size_t bytes) override {
    ++log_.copies_out;
    std::memcpy(host, shown(from), bytes);
    return {};
  }
  Result<void> copy(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(shown(to), shown(from), bytes);
    return {};
  }
  Result<void> fill(void* to, std::uint8_t value, std::size_t bytes) override {
    std::memset(shown(to), value, bytes);
    return {};
  }
  Result<void> finish() override { return {}; }

 private:
  Log& log_;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(Log& log) : log_(log) {}
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return "fake:0"; }
  std::size_t alignment() const override { return 64; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) const override {
    if (log_.allocated + bytes > most_bytes) {
      return Error{ErrorCode::out_of_memory, "fake:0 has no memory for " + std::string(purpose)};
    }
    if (bytes == 0) return Buffer();
    log_.allocated += bytes;
    const auto memory = allocate_aligned(bytes);
    return Buffer(std::shared_ptr<void>(memory, hidden(memory.get())), bytes);
  }
  Result<std::unique_ptr<Queue>> make_queue(int) const override {
    return std::unique_ptr<Queue>(std::make_unique<FakeQueue>(log_));
  }
  Result<std::shared_ptr<void>> enter() const override {
    return std::shared_ptr<void>(&++entered, [](void*) { --entered; });
  }
  Result<void> check_pointer(const void* pointer, std::string_view field) const override {
    if (pointer != shown(pointer)) return {};
    return Error{ErrorCode::invalid_argument, std::string(field) + " is the processor's"};
  }

  std::size_t most_bytes = 64 << 20;

 private:
  Log& log_;
};

// Computes there, with the oracle. It is planned by a thread that has entered the device, as libraries of GPUs want it.
class EngineThere final : public Engine {
 public:
  explicit EngineThere(Log& log) : log_(log) {
    info_.name = "fake.there";
    declare_everything(info_);
    info_.device = DeviceKind::cuda;
  }
  const EngineInfo& info() const override { return info_; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1e-6; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest&) const override {
    if (entered == 0) return Error{ErrorCode::internal, "planned outside of the device"};
    CONVOY_TRY(auto right, reference_engine().plan(problem, {}, {}));
    return std::unique_ptr<ConvPlan>(std::make_unique<Plan>(std::move(right), log_));
  }

 private:
  struct Plan : ConvPlan {
    Plan(std::unique_ptr<ConvPlan> right, Log& log) : right(std::move(right)), log(log) {}
    Candidate candidate() const override { return {"fake.there", {}}; }
    std::size_t workspace_bytes() const override { return 128; }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      ++log.executions;
      std::memset(shown(context.workspace), 1, context.workspace_bytes);
      ConvArgs own = args;
      own.x = shown(args.x), own.w = shown(args.w), own.y = shown(args.y), own.out = shown(args.out);
      own.bias = shown(args.bias), own.z = shown(args.z), own.slopes = shown(args.slopes);
      const auto team = make_cpu_team(1);
      return right->execute(own, {*team});
    }
    std::unique_ptr<ConvPlan> right;
    Log& log;
  };
  EngineInfo info_;
  Log& log_;
};

int conv(GraphBuilder& b, int x, std::int64_t in, std::int64_t out, bool bias) {
  std::vector<int> inputs = {x, b.constant(spread({out, in, 3, 3}, -0.1, 0.1))};
  if (bias) inputs.push_back(b.constant(spread({out})));
  return b.node("Conv", inputs, {{"pads", Ints(4, 1)}});
}

// Two convolutions in a row, with what can be fused into the second, an operator between, and one behind.
Graph sample() {
  GraphBuilder b;
  const int x = b.node("MaxPool", {conv(b, b.input("x", {2, 4, 12, 12}), 4, 6, true)}, {{"kernel_shape", Ints{2, 2}}});
  const int y = conv(b, conv(b, x, 6, 6, true), 6, 6, false);
  b.output(b.node("Sigmoid", {b.node("Relu", {b.node("Add", {y, x})})}));
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  return b.graph;
}

// The plan of a network that is row-major everywhere, with the convolutions at `names` put on the device. Conversions
// are the test's own account of what has to be copied.
std::string put(const std::string& plan, const std::vector<std::string>& names, const std::string& engine,
                const std::string& device) {
  std::string text;
  std::size_t begin = 0;
  while (begin < plan.size()) {
    const std::size_t end = plan.find('\n', begin);
    std::string line = plan.substr(begin, end - begin);
    const bool moved = std::ranges::any_of(names, [&](const std::string& name) {
      return line.starts_with("conv ") && line.find('"' + name) != std::string::npos;
    });
    if (moved) {
      const std::size_t quote = line.find('"', line.find('"') + 1);
      const std::string there = "f32,nchw@" + device;
      line = line.substr(0, quote + 1) + "  " + engine + "  " + there + " -> " + there + "  - -";
    }
    text += line + "\n";
    begin = end + 1;
  }
  return text;
}

std::string with_line(const std::string& text, const std::string& before, const std::string& line) {
  const std::size_t at = text.find("\n" + before);
  EXPECT_NE(at, std::string::npos) << before << " in\n" << text;
  return at == std::string::npos ? text : std::string(text).insert(at + 1, line + "\n");
}

class Devices : public testing::Test {
 protected:
  Devices() {
    options_.how = "uniform:nchw";
    options_.selection.filter.engines = "reference";
    gpu_request_.cuda = CudaDevice{.ordinal = 0, .name = "made up", .architecture = 90};
    gpu_request_.device = &device_;
    plan_ = plan_for(graph_, options_, engines_);
    const auto ran = run(plan_, {});
    EXPECT_TRUE(ran.ok()) << ran.error().message;
    expected_ = *ran;
  }

  Result<std::vector<HostTensor>> run(const std::string& plan, const std::vector<Place>& places) {
    NetworkOptions options = options_;
    options.selection.filter.engines = "*";
    options.plan = plan_in(plan);
    const PrepareSettings settings{.options = options, .engines = engines_, .places = places};
    CONVOY_TRY(session_, prepare_graph(graph_, settings));
    CONVOY_TRY(auto outputs, session_->run(inputs_for(graph_)));
    CONVOY_TRY(const NetworkPlan replayed, plan_of(graph_, settings));
    replayed_ = print(replayed);
    return outputs;
  }

  std::vector<std::string> implementations() const {
    std::vector<std::string> found;
    for (const NetworkStep& step : session_->steps()) found.push_back(step.implementation);
    return found;
  }

  Log log_;
  FakeDevice device_{log_};
  EngineThere there_{log_};
  testing_support::FakeEngine on_gpu_{"fake.gpu", {.device = DeviceKind::cuda}};
  std::vector<const Engine*> engines_ = {&reference_engine(), &there_, &on_gpu_};
  PlanRequest gpu_request_;
  NetworkOptions options_ = test_options();
  Graph graph_ = sample();
  std::string plan_, replayed_;
  std::vector<HostTensor> expected_;
  std::unique_ptr<SwitchableSession> session_;
};

TEST_F(Devices, ConvolutionsRunWhereThePlanPutsThem) {
  std::string plan = put(plan_, {"n2", "n3"}, "fake.there", "fake:0");
  // The second one's z and the first one's x are one copy; between the two nothing is copied.
  plan = with_line(plan, "conv     \"n2", "convert \"MaxPool_1.out\" - f32,nchw -> f32,nchw@fake:0 - -");
  const std::string behind = plan.find("\nop       \"n6") != std::string::npos ? "op       \"n6" : "op ";
  plan = with_line(plan, behind, "convert \"Relu_5.out\" - f32,nchw@fake:0 -> f32,nchw - -");
  const auto ran = run(plan, {{&device_, gpu_request_}});
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << plan;
  expect_close((*ran)[0], expected_[0]);
  EXPECT_EQ(log_.executions, 2);
  EXPECT_EQ(log_.copies_out, 1 + 1);     // to compare the second's weights with the first's, which are the same
  EXPECT_EQ(log_.copies_in, 1 + 1 + 1);  // x; weights and a bias, once
  const auto steps = implementations();
  EXPECT_EQ(std::ranges::count(steps, "copy cpu to fake:0"), 1);
  EXPECT_EQ(std::ranges::count(steps, "copy fake:0 to cpu"), 1);
  EXPECT_NE(replayed_.find("f32,nchw@fake:0 -> f32,nchw@fake:0"), std::string::npos) << replayed_;

  ASSERT_TRUE(session_->run(inputs_for(graph_)).ok());  // again: weights are there
  EXPECT_EQ(log_.copies_in, 3 + 1);
}

TEST_F(Devices, AnotherLayoutThereIsConvertedOnTheProcessor) {
  std::string plan = put(plan_, {"n2"}, "fake.there", "fake:0");
  for (std::size_t at = 0; (at = plan.find("f32,nchw@fake:0")) != std::string::npos;) {
    plan.replace(at, 15, "f32,nhwc@fake:0");
  }
  plan = with_line(plan, "conv     \"n2",
                   "convert \"MaxPool_1.out\" - f32,nchw -> f32,nhwc - -\n"
                   "convert \"MaxPool_1.out\" - f32,nhwc -> f32,nhwc@fake:0 - -");
  plan = with_line(plan, "conv     \"n3",
                   "convert \"Conv_2.out\" - f32,nhwc@fake:0 -> f32,nhwc - -\n"
                   "convert \"Conv_2.out\" - f32,nhwc -> f32,nchw - -");
  const auto ran = run(plan, {{&device_, gpu_request_}});
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << plan;
  expect_close((*ran)[0], expected_[0]);
  EXPECT_EQ(log_.executions, 1);
}

TEST_F(Devices, OnAGpuOfTheFakeDriver) {
  PlanRequest request;
  request.cuda = *cuda::describe(0);
  const Device& gpu = device_of(request);
  std::string plan = put(plan_, {"n0", "n3"}, "fake.gpu", "cuda:0");
  plan = with_line(plan, "conv     \"n0", "convert \"x\" - f32,nchw -> f32,nchw@cuda:0 - -");
  plan = with_line(plan, "op       \"n1", "convert \"Conv_0.out\" - f32,nchw@cuda:0 -> f32,nchw - -");
  plan = with_line(plan, "conv     \"n3",
                   "convert \"Conv_2.out\" - f32,nchw -> f32,nchw@cuda:0 - -\n"
                   "convert \"MaxPool_1.out\" - f32,nchw -> f32,nchw@cuda:0 - -");
  plan = with_line(plan, "op       \"n6", "convert \"Relu_5.out\" - f32,nchw@cuda:0 -> f32,nchw - -");
  const auto ran = run(plan, {{&gpu, request}});
  ASSERT_TRUE(ran.ok()) << ran.error().message << "\n" << plan;
  expect_close((*ran)[0], expected_[0]);
  const auto steps = implementations();
  EXPECT_EQ(std::ranges::count(steps, "copy cpu to cuda:0"), 3);
  EXPECT_EQ(std::ranges::count(steps, "copy cuda:0 to cpu"), 2);
  EXPECT_EQ(std::ranges::count(steps, "fake.gpu{tile=4}"), 2);
}

TEST_F(Devices, WhatIsWrongIsNamed) {
  const std::vector<Place> places = {{&device_, gpu_request_}};
  const auto message = [&](const std::string& plan, const std::vector<Place>& given) {
    const auto ran = run(plan, given);
    return ran.ok() ? std::string("none") : ran.error().message;
  };
  const std::string moved = put(plan_, {"n2"}, "fake.there", "fake:0");
  EXPECT_NE(message(moved, {}).find("this session has no device 'fake:0'"), std::string::npos) << message(moved, {});
  const std::string elsewhere = put(plan_, {"n2"}, "reference", "fake:0");
  EXPECT_NE(message(elsewhere, places).find("this engine runs on the CPU"), std::string::npos)
      << message(elsewhere, places);
  EXPECT_NE(message(moved, places).find("MaxPool_1.out"), std::string::npos) << message(moved, places);  // no copy
  std::string half = moved;
  half.replace(half.find("f32,nchw@fake:0"), 15, "f32,nchw");
  EXPECT_NE(message(half, places).find("a convolution runs in one place"), std::string::npos) << message(half, places);
  std::string op = plan_;
  const std::size_t pool = op.find("f32,nchw", op.find("MaxPool"));
  op.replace(op.find("f32,nchw", pool + 1), 8, "f32,nchw@fake:0");
  EXPECT_NE(message(op, places).find("MaxPool runs on cpu only"), std::string::npos) << message(op, places);

  std::string whole = with_line(moved, "conv     \"n2", "convert \"MaxPool_1.out\" - f32,nchw -> f32,nchw@fake:0 - -");
  whole = with_line(whole, "conv     \"n3", "convert \"Conv_2.out\" - f32,nchw@fake:0 -> f32,nchw - -");
  EXPECT_EQ(message(whole, places), "none");
  device_.most_bytes = 0;
  EXPECT_NE(message(whole, places).find("fake:0 has no memory for"), std::string::npos) << message(whole, places);
}

}  // namespace
}  // namespace convoy::network
