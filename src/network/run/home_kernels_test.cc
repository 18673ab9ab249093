// Networks at home on a GPU whose kernels are compiled for this processor (generate/testing/fake_nvrtc.cc): operators
// run there, too, step by step and captured.
#include <algorithm>
#include <cstring>

#include "convoy/queue.h"
#include "device/device.h"
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

// Runs there step by step, captured and launched, of tensors of the processor's and of those that lie there, where each
// step is to be.
class WholeAtHome : public HomeKernels {
 protected:
  void expect_at_home(const Graph& graph) {
    expected_of(graph);
    prepare(graph);
    for (const NetworkStep& step : session_->steps()) EXPECT_EQ(step.device, "cuda:0") << step.implementation;
    for (int i = 0; i < 3; ++i) {
      const auto ran = session_->run(inputs_);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      for (std::size_t k = 0; k < expected_.size(); ++k) expect_close((*ran)[k], expected_[k]);
    }

    const Device& device = **find_device("cuda:0");
    const auto scope = *device.enter();
    const auto queue = *device.make_queue(1);
    std::vector<Buffer> there;
    std::vector<const void*> given;
    std::vector<void*> made;
    for (const HostTensor& each : inputs_) {
      there.push_back(*device.allocate(static_cast<std::size_t>(each.desc.bytes()), "input"));
      ASSERT_TRUE(queue->copy_in(there.back().data(), each.data.get(), there.back().bytes()).ok());
      given.push_back(there.back().data());
    }
    for (const HostTensor& each : expected_) {
      there.push_back(*device.allocate(static_cast<std::size_t>(each.desc.bytes()), "output"));
      made.push_back(there.back().data());
    }
    for (int i = 0; i < 3; ++i) {
      for (std::size_t k = 0; k < made.size(); ++k) {
        ASSERT_TRUE(queue->fill(made[k], 0xff, there[inputs_.size() + k].bytes()).ok());
      }
      const auto done = session_->enqueue(given, made, static_cast<CudaQueue&>(*queue).stream());
      ASSERT_TRUE(done.ok()) << done.error().message;
      ASSERT_TRUE(queue->finish().ok());
      for (std::size_t k = 0; k < made.size(); ++k) {
        const auto actual = HostTensor::allocate(expected_[k].desc);
        ASSERT_TRUE(queue->copy_out(actual->data.get(), made[k], there[inputs_.size() + k].bytes()).ok());
        expect_close(*actual, expected_[k]);
      }
    }
  }
};

TEST_F(WholeAtHome, OutputsThatNoStepMakesLieThere) {
  GraphBuilder b;
  const int x = b.input("x", {2, 3, 4, 5}), y = b.node("Relu", {x});
  for (const int output : {y, x, y, b.constant(spread({7})), x}) b.output(output);
  expect_at_home(b.graph);
}

TEST_F(WholeAtHome, QuantizedConvolutionsRunThere) {
  GraphBuilder b;
  const auto bytes = [&](DataType type, Dims dims) {
    return b.constant(spread(std::move(dims), type == DataType::u8 ? 0 : -100, 100, type));
  };
  const auto number = [&](DataType type, double value) { return b.constant(tensor_of(type, {}, {value})); };
  const auto scale = [&](double value) { return number(DataType::f32, value); };
  const int x = b.input("x", {2, 4, 8, 8}, DataType::u8), zero = b.input("zero", {}, DataType::u8);
  b.output(b.node("QLinearConv", {x, scale(0.02), number(DataType::u8, 7), bytes(DataType::s8, {6, 4, 3, 3}),
                                  b.constant(spread({6}, 0.01, 0.02)), b.constant(spread({6}, 0, 0, DataType::s8)),
                                  scale(0.5), number(DataType::u8, 100), bytes(DataType::s32, {6})}));
  b.output(b.node("ConvInteger", {x, bytes(DataType::u8, {5, 4, 3, 3}), zero, bytes(DataType::u8, {5})}));
  expect_at_home(b.graph);
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
