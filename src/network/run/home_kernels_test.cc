// Networks at home on a GPU whose kernels are compiled for this processor (generate/testing/fake_nvrtc.cc): operators
// run there, too, step by step and captured.
#include <algorithm>
#include <cstring>

#include "network/assign/plan.h"
#include "network/testing/home.h"

namespace convoy::network {
namespace {

const bool driver_set = use_fake_driver(true);

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
  return named(b);
}

class HomeKernels : public Home {
 protected:
  // The stand-in doesn't compile the engines' kernels, which change layouts.
  HomeKernels() { options_.how = "uniform:nchw"; }
};
class AllAtHome : public HomeKernels, public testing::WithParamInterface<DataType> {};

TEST_P(AllAtHome, GivesWhatTheProcessorGivesStepByStepAndCaptured) {
  const Graph graph = classifier(GetParam());
  expected_of(graph);
  prepare(graph);
  EXPECT_TRUE(session_->remarks().empty()) << session_->remarks().front();
  for (const NetworkStep& step : session_->steps()) EXPECT_EQ(step.device, "cuda:0") << step.implementation;
  std::vector<HostTensor> first;
  for (int i = 0; i < 3; ++i) {  // step by step, captured, launched
    const auto ran = session_->run(inputs_);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    expect_close((*ran)[0], expected_[0], GetParam() == DataType::f32 ? 1e-4 : 1e-2);
    if (i == 0) first = *ran;
    EXPECT_EQ(std::memcmp((*ran)[0].data.get(), first[0].data.get(), static_cast<std::size_t>(first[0].desc.bytes())),
              0);
  }
}

TEST_F(HomeKernels, APlanSaysWhatRunsThere) {
  const Graph graph = classifier(DataType::f32);
  const auto made = plan_of(graph, {.options = options_, .engines = engines_});
  ASSERT_TRUE(made.ok()) << made.error().message;
  std::string text = print(*made);
  for (const NetworkPlanLine& line : made->lines) {
    EXPECT_TRUE(line.kind == "convert" || (line.from.ends_with("@cuda:0") && line.to.ends_with("@cuda:0"))) << text;
  }
  options_.how = "greedy";
  options_.plan = plan_in(text);
  prepare(graph);
  const auto expected = *session_->run(inputs_);
  for (const NetworkStep& step : session_->steps()) EXPECT_EQ(step.device, "cuda:0") << step.implementation;
  // One operator on the processor: copies are lines then.
  const std::size_t softmax = text.find("Softmax"), end = text.find('\n', softmax);
  std::string line = text.substr(softmax, end - softmax);
  for (std::size_t at = 0; (at = line.find("@cuda:0")) != std::string::npos;) line.erase(at, 7);
  text.replace(softmax, end - softmax, line);
  options_.plan = plan_in(text);
  EXPECT_NE(error_of(graph), "none") << "its copies are no lines";
  options_.lenient_plan = true;
  prepare(graph);
  EXPECT_EQ(std::ranges::count(session_->steps(), "cpu", &NetworkStep::device), 1);
  expect_close((*session_->run(inputs_))[0], expected[0]);
}

TEST_F(HomeKernels, AFusionThatIsPredictedToBeSlowIsUndone) {
  const Graph graph = classifier(DataType::f32);
  const auto operators = [&] {
    prepare(graph);
    return std::ranges::count(session_->steps(), "op", &NetworkStep::kind);
  };
  const auto fused = operators();
  on_gpu_.with_activation = 1e-2;
  EXPECT_EQ(operators(), fused + 3) << "its three Relus";
}

INSTANTIATE_TEST_SUITE_P(Types, AllAtHome, testing::Values(DataType::f32, DataType::f16, DataType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace convoy::network
