// Networks at home on a GPU whose kernels are compiled for this processor (generate/testing/fake_nvrtc.cc), on
// device/cuda/testing/fake_driver.cc: operators run there, too, step by step and captured.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "device/cuda/device.h"
#include "engines/reference/reference.h"
#include "network/assign/plan.h"
#include "network/testing/plans.h"
#include "network/testing/stream_engine.h"

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

const std::filesystem::path& folder() {
  static const auto& here = *new std::filesystem::path(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  return here;
}

// Before anything asks for the driver.
const bool driver_set = [] {
  ::setenv("CONVOY_CUDA_DRIVER", (folder() / "fake_driver/libcuda.so.1").c_str(), 1);
  ::setenv("CONVOY_NVRTC", (folder() / "fake_nvrtc/libnvrtc.so.13").c_str(), 1);
  ::setenv("CONVOY_KERNEL_CACHE", "off", 1);
  ::setenv("FAKE_MEMORY", "67108864", 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_CUDNN", "CONVOY_CUBLASLT"}) ::setenv(library, "off", 1);
  return true;
}();

// A classifier in small: a stem, a residual block, a head.
Graph classifier(DataType type) {
  GraphBuilder b;
  const auto constant = [&](Dims dims, double most) {
    const HostTensor values = spread(std::move(dims), -most, most);
    return b.constant(*converted(values, TensorDesc::packed(type, values.desc.dims)));
  };
  const auto conv = [&](int x, std::int64_t in, std::int64_t out) {
    return b.node("Conv", {x, constant({out, in, 3, 3}, 0.2), constant({out}, 1)}, {{"pads", Ints(4, 1)}});
  };
  const int x = b.input("x", {2, 3, 16, 16}, type);
  const int stem =
      b.node("MaxPool", {b.node("Relu", {conv(x, 3, 8)})}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const int block = b.node("Relu", {b.node("Add", {conv(b.node("Relu", {conv(stem, 8, 8)}), 8, 8), stem})});
  const int both = b.node("Concat", {block, b.node("Sigmoid", {stem})}, {{"axis", std::int64_t{1}}});
  const int mean = b.node("Flatten", {b.node("GlobalAveragePool", {both})});
  b.output(b.node("Softmax",
                  {b.node("Gemm", {mean, constant({5, 16}, 1), constant({5}, 1)}, {{"transB", std::int64_t{1}}})}));
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  return b.graph;
}

class AllAtHome : public testing::TestWithParam<DataType> {};

TEST_P(AllAtHome, GivesWhatTheProcessorGivesStepByStepAndCaptured) {
  const Graph graph = classifier(GetParam());
  testing_support::StreamEngine on_gpu;
  const std::vector<const Engine*> engines = {&reference_engine(), &on_gpu};
  NetworkOptions options = test_options();
  options.selection.filter.engines = "*";
  const auto inputs = inputs_for(graph);
  const auto on_processor = prepare_graph(graph, {.options = options, .engines = engines});
  ASSERT_TRUE(on_processor.ok()) << on_processor.error().message;
  const auto expected = *(*on_processor)->run(inputs);

  options.cuda = *cuda::describe(0);
  options.how = "uniform:nchw";  // the stand-in doesn't compile the engines' kernels, which change layouts
  const auto session = prepare_graph(graph, {.options = options, .engines = engines});
  ASSERT_TRUE(session.ok()) << session.error().message;
  EXPECT_TRUE((*session)->remarks().empty()) << (*session)->remarks().front();
  for (const NetworkStep& step : (*session)->steps()) EXPECT_EQ(step.device, "cuda:0") << step.implementation;
  std::vector<HostTensor> first;
  for (int i = 0; i < 3; ++i) {  // step by step, captured, launched
    const auto ran = (*session)->run(inputs);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    expect_close((*ran)[0], expected[0], GetParam() == DataType::f32 ? 1e-4 : 1e-2);
    if (i == 0) first = *ran;
    EXPECT_EQ(std::memcmp((*ran)[0].data.get(), first[0].data.get(), static_cast<std::size_t>(first[0].desc.bytes())),
              0);
  }
}

TEST(HomeKernels, APlanSaysWhatRunsThere) {
  const Graph graph = classifier(DataType::f32);
  testing_support::StreamEngine on_gpu;
  const std::vector<const Engine*> engines = {&reference_engine(), &on_gpu};
  NetworkOptions options = test_options();
  options.selection.filter.engines = "*";
  options.cuda = *cuda::describe(0);
  options.how = "uniform:nchw";
  const auto made = plan_of(graph, {.options = options, .engines = engines});
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::string text = print(*made);
  for (const NetworkPlanLine& line : made->lines) {
    EXPECT_TRUE(line.kind == "convert" || (line.from.ends_with("@cuda:0") && line.to.ends_with("@cuda:0"))) << text;
  }
  options.how = "greedy";
  options.plan = plan_in(text);
  const auto session = prepare_graph(graph, {.options = options, .engines = engines});
  ASSERT_TRUE(session.ok()) << session.error().message << "\n" << text;
  for (const NetworkStep& step : (*session)->steps()) EXPECT_EQ(step.device, "cuda:0") << step.implementation;
  // One operator on the processor: copies are lines then.
  const std::size_t softmax = text.find("Softmax"), end = text.find('\n', softmax);
  std::string line = text.substr(softmax, end - softmax);
  for (std::size_t at = 0; (at = line.find("@cuda:0")) != std::string::npos;) line.erase(at, 7);
  text.replace(softmax, end - softmax, line);
  options.plan = plan_in(text);
  const auto strict = prepare_graph(graph, {.options = options, .engines = engines});
  EXPECT_FALSE(strict.ok()) << "its copies are no lines";
  options.lenient_plan = true;
  const auto moved = prepare_graph(graph, {.options = options, .engines = engines});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_EQ(std::ranges::count((*moved)->steps(), "cpu", &NetworkStep::device), 1);
  const auto inputs = inputs_for(graph);
  expect_close((*(*moved)->run(inputs))[0], (*(*session)->run(inputs))[0]);
}

TEST(HomeKernels, AFusionThatIsPredictedToBeSlowIsUndone) {
  const Graph graph = classifier(DataType::f32);
  testing_support::StreamEngine on_gpu;
  const std::vector<const Engine*> engines = {&reference_engine(), &on_gpu};
  NetworkOptions options = test_options();
  options.selection.filter.engines = "*";
  options.cuda = *cuda::describe(0);
  options.how = "uniform:nchw";
  const auto operators = [&] {
    const auto session = prepare_graph(graph, {.options = options, .engines = engines});
    EXPECT_TRUE(session.ok()) << session.error().message;
    return std::ranges::count((*session)->steps(), "op", &NetworkStep::kind);
  };
  const auto fused = operators();
  on_gpu.with_activation = 1e-2;
  EXPECT_EQ(operators(), fused + 3) << "its three Relus";
}

INSTANTIATE_TEST_SUITE_P(Types, AllAtHome, testing::Values(DataType::f32, DataType::f16, DataType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace convoy::network
