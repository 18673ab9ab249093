// For tests of networks at home on a GPU, on device/cuda/testing/fake_driver.cc. A process has one driver, so one set
// of what goes with it.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "device/cuda/device.h"
#include "engines/reference/reference.h"
#include "network/testing/plans.h"
#include "network/testing/stream_engine.h"

namespace convoy::network {

using Ints = std::vector<std::int64_t>;

// Beside the test's program.
inline const std::filesystem::path& fakes() {
  static const auto& here = *new std::filesystem::path(std::filesystem::read_symlink("/proc/self/exe").parent_path());
  return here;
}
inline std::string fake_driver_file() { return fakes() / "fake_driver/libcuda.so.1"; }

// Before anything asks for the driver. With a compiler (generate/testing/fake_nvrtc.cc) operators run there, too.
inline bool use_fake_driver(bool with_compiler) {
  ::setenv("CONVOY_CUDA_DRIVER", fake_driver_file().c_str(), 1);
  ::setenv("CONVOY_NVRTC", with_compiler ? (fakes() / "fake_nvrtc/libnvrtc.so.13").c_str() : "off", 1);
  ::setenv("CONVOY_KERNEL_CACHE", "off", 1);
  ::setenv("FAKE_MEMORY", "67108864", 1);
  for (const char* library : {"CONVOY_NVML", "CONVOY_CUDNN", "CONVOY_CUBLASLT"}) ::setenv(library, "off", 1);
  return true;
}

template <class T>
T& of_driver(const char* name) {
  void* const library = dlopen(fake_driver_file().c_str(), RTLD_NOW | RTLD_NOLOAD);
  return *static_cast<T*>(dlsym(library, name));
}
inline int& captures() { return of_driver<int>("fake_captures"); }
inline int& graph_launches() { return of_driver<int>("fake_graph_launches"); }
inline int& waits() { return of_driver<int>("fake_waits"); }
inline int& fail_at() { return of_driver<int>("fake_fail_at"); }

inline int conv(GraphBuilder& b, int x, std::int64_t in, std::int64_t out) {
  return b.node("Conv", {x, b.constant(spread({out, in, 3, 3}, -0.1, 0.1)), b.constant(spread({out}))},
                {{"pads", Ints(4, 1)}});
}

inline Graph named(GraphBuilder& b) {
  for (std::size_t n = 0; n < b.graph.nodes.size(); ++n) b.graph.nodes[n].sources = {"n" + std::to_string(n)};
  return b.graph;
}

// Two convolutions on either side of an operator that has no kernel here.
inline Graph with_pool() {
  GraphBuilder b;
  const int x = conv(b, conv(b, b.input("x", {2, 4, 12, 12}), 4, 6), 6, 6);
  const int pool = b.node("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}});
  b.output(b.node("Relu", {conv(b, conv(b, pool, 6, 6), 6, 5)}));
  return named(b);
}

inline Graph only_convolutions() {
  GraphBuilder b;
  const int x = b.node("Relu", {conv(b, b.input("x", {2, 4, 12, 12}), 4, 6)});
  b.output(conv(b, x, 6, 3));
  return named(b);
}

// A product with a gate that a 1x1 convolution reads, with a residual behind it. One input: its copy parts no graph.
inline Graph with_gate() {
  GraphBuilder b;
  const auto apply = [&](int x, std::int64_t in, std::int64_t kernel) {
    return b.node("Conv", {x, b.constant(spread({6, in, kernel, kernel}, -0.4, 0.5)), b.constant(spread({6}))});
  };
  const int input = b.input("x", {2, 4, 12, 12});
  const int x = conv(b, input, 4, 6);
  const int gate = b.node("Sigmoid", {apply(input, 4, 12)});
  const int product = b.node("Mul", {x, gate});
  b.output(b.node("Add", {apply(product, 6, 1), x}));
  return named(b);
}

class Home : public testing::Test {
 protected:
  Home() {
    options_.cuda = *cuda::describe(0);
    options_.selection.filter.engines = "*";
  }

  void expected_of(const Graph& graph) {
    NetworkOptions options = test_options();
    options.how = "uniform:nchw";
    options.selection.filter.engines = "reference";
    const auto session = prepare_graph(graph, {.options = options, .engines = engines_});
    ASSERT_TRUE(session.ok()) << session.error().message;
    auto outputs = (*session)->run(inputs_for(graph));
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    expected_ = std::move(*outputs);
  }

  void prepare(const Graph& graph) {
    auto session = prepare_graph(graph, {.options = options_, .engines = engines_});
    ASSERT_TRUE(session.ok()) << session.error().message;
    session_ = std::move(*session);
    inputs_ = inputs_for(graph);
  }

  // Runs it; the graphs that were captured and launched meanwhile.
  void expect_run(int captured, int launched, double relative = 1e-5) {
    const int captures_before = captures(), launches_before = graph_launches();
    const auto ran = session_->run(inputs_);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    expect_close((*ran)[0], expected_[0], relative);
    EXPECT_EQ(captures() - captures_before, captured);
    EXPECT_EQ(graph_launches() - launches_before, launched);
  }

  std::string error_of(const Graph& graph) const {
    const auto session = prepare_graph(graph, {.options = options_, .engines = engines_});
    return session.ok() ? "none" : session.error().message;
  }

  std::vector<std::string> devices() const {
    std::vector<std::string> found;
    for (const NetworkStep& step : session_->steps()) found.push_back(step.device);
    return found;
  }

  testing_support::StreamEngine on_gpu_;
  std::vector<const Engine*> engines_ = {&reference_engine(), &on_gpu_};
  NetworkOptions options_ = test_options();
  std::vector<HostTensor> expected_, inputs_;
  std::unique_ptr<SwitchableSession> session_;
};

}  // namespace convoy::network
