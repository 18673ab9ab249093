#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Function = double (*)(double);

// Every activation against its formula in double, over a tensor large enough to be split between threads.
TEST(Activation, FollowFormulas) {
  struct Case {
    const char* op;
    std::map<std::string, Attribute> attributes;
    Function formula;
  };
  const Case cases[] = {
      {"Relu", {}, [](double x) { return std::max(x, 0.0); }},
      {"LeakyRelu", {{"alpha", 0.2}}, [](double x) { return x < 0 ? 0.2 * x : x; }},
      {"LeakyRelu", {}, [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"Elu", {{"alpha", 2.0}}, [](double x) { return x < 0 ? 2 * (std::exp(x) - 1) : x; }},
      {"Selu", {}, [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)); }},
      {"Celu", {{"alpha", 0.5}}, [](double x) { return std::max(0.0, x) + std::min(0.0, (std::exp(2 * x) - 1) / 2); }},
      {"Sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Tanh", {}, [](double x) { return std::tanh(x); }},
      {"HardSigmoid", {}, [](double x) { return std::max(0.0, std::min(1.0, 0.2 * x + 0.5)); }},
      {"HardSwish", {}, [](double x) { return x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); }},
      {"Softplus", {}, [](double x) { return std::log1p(std::exp(x)); }},
      {"Softsign", {}, [](double x) { return x / (1 + std::abs(x)); }},
      {"ThresholdedRelu", {{"alpha", 1.5}}, [](double x) { return x > 1.5 ? x : 0; }},
      {"Gelu", {}, [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }},
      {"Gelu",
       {{"approximate", std::string("tanh")}},
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {"Mish", {}, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"Swish", {{"alpha", 1.7}}, [](double x) { return x / (1 + std::exp(-1.7 * x)); }},
      {"Shrink",
       {{"lambd", 1.5}, {"bias", 0.25}},
       [](double x) { return x < -1.5  ? x + 0.25
                             : x > 1.5 ? x - 0.25
                                       : 0; }},
  };
  const std::vector<double> values = spread(2 * 3 * 40 * 41, -9, 9);
  for (const Case& each : cases) {
    std::vector<double> expected;
    for (const double value : values) expected.push_back(each.formula(static_cast<float>(value)));
    expect_op(node_of(each.op, each.attributes), {floats({2, 3, 40, 41}, values)}, {floats({2, 3, 40, 41}, expected)},
              3e-6, 3e-6);
  }
}

TEST(Activation, ExtremesStayFinite) {
  const HostTensor x = floats({4}, {-1000, 1000, 0, NAN});
  expect_op(node_of("Sigmoid"), {x}, {floats({4}, {0, 1, 0.5, NAN})});
  expect_op(node_of("Softplus"), {x}, {floats({4}, {0, 1000, std::log(2.0), NAN})});
  expect_op(node_of("Relu"), {x}, {floats({4}, {0, 1000, 0, NAN})});
  expect_op(node_of("Mish"), {floats({2}, {-1000, 1000})}, {floats({2}, {0, 1000})});
}

TEST(Activation, OtherTypes) {
  expect_op(node_of("Relu"), {tensor(DataType::s8, {3}, {-128, 0, 127})}, {tensor(DataType::s8, {3}, {0, 0, 127})});
  expect_op(node_of("LeakyRelu", {{"alpha", 0.5}}), {tensor(DataType::f16, {2}, {-3, 2})},
            {tensor(DataType::f16, {2}, {-1.5, 2})});
  expect_op(node_of("Tanh"), {tensor(DataType::f64, {1}, {0.3})}, {tensor(DataType::f64, {1}, {std::tanh(0.3)})}, 0,
            1e-15);
  expect_op(node_of("Shrink", {{"lambd", 1.5}, {"bias", 1.5}}), {tensor(DataType::s32, {5}, {-2, -1, 0, 1, 2})},
            {tensor(DataType::s32, {5}, {0, 0, 0, 0, 0})});
}

TEST(Activation, Refusals) {
  expect_refused(node_of("Relu"), {tensor(DataType::u8, {1}, {1})}, "Relu: input 0 has type u8");
  expect_refused(node_of("Relu"), {}, "has 0 inputs, it takes 1");
  expect_refused(node_of("Relu"), {absent()}, "input 0 is absent");
  expect_refused(node_of("Elu", {{"alpha", std::int64_t{1}}}), {floats({1}, {1})}, "attribute 'alpha'");
  expect_refused(node_of("Gelu", {{"approximate", std::string("fast")}}), {floats({1}, {1})}, "approximate='fast'");
}

TEST(Shrink, IntegersSaturate) {
  expect_op(node_of("Shrink", {{"lambd", 1.0}, {"bias", -1e30}}), {tensor(DataType::s32, {3}, {-2, 1, 2})},
            {tensor(DataType::s32, {3}, {-2147483648.0, 0, 2147483647.0})});
  expect_op(node_of("Shrink", {{"lambd", 1.0}, {"bias", NAN}}), {longs({2}, {-2, 2})}, {longs({2}, {0, 0})});
}

TEST(Clip, BoundsAsAttributesAndAsInputs) {
  const HostTensor x = floats({1, 2, 2, 1}, {-3, 0.5, 7, NAN});
  expect_op(node_of("Clip", {{"min", 0.0}, {"max", 6.0}}, 6), {x}, {floats({1, 2, 2, 1}, {0, 0.5, 6, NAN})});
  expect_op(node_of("Clip", {{"max", 6.0}}, 10), {x}, {floats({1, 2, 2, 1}, {-3, 0.5, 6, NAN})});
  expect_op(node_of("Clip"), {x, floats({}, {0}), floats({}, {6})}, {floats({1, 2, 2, 1}, {0, 0.5, 6, NAN})});
  expect_op(node_of("Clip"), {x, absent(), floats({1}, {6})}, {floats({1, 2, 2, 1}, {-3, 0.5, 6, NAN})});
  expect_op(node_of("Clip"), {x}, {x});
  expect_op(node_of("Clip"), {floats({2}, {1, 9}), floats({}, {5}), floats({}, {2})}, {floats({2}, {2, 2})});
  expect_op(node_of("Clip"), {longs({3}, {-5, 0, 5}), longs({}, {-1}), longs({}, {1})}, {longs({3}, {-1, 0, 1})});
  // Attributes that an integer can't hold.
  const HostTensor bytes = tensor(DataType::s8, {3}, {-128, 0, 127});
  expect_op(node_of("Clip", {{"min", -3.4e38}, {"max", INFINITY}}, 6), {bytes}, {bytes});
  expect_op(node_of("Clip", {{"min", INFINITY}}, 6), {bytes}, {tensor(DataType::s8, {3}, {127, 127, 127})});
  std::vector<double> all, clipped, crossed(256, -9);
  for (int i = -128; i < 128; ++i) {
    all.push_back(i);
    clipped.push_back(i < -100 ? -100 : i > 60 ? 60 : i);
  }
  const auto of_bytes = [](const Dims& dims, const std::vector<double>& values) {
    return tensor(DataType::s8, dims, values);
  };
  const HostTensor every = of_bytes({256}, all);
  expect_op(node_of("Clip"), {every, of_bytes({}, {-100}), of_bytes({}, {60})}, {of_bytes({256}, clipped)});
  expect_op(node_of("Clip"), {every, of_bytes({}, {5}), of_bytes({}, {-9})}, {of_bytes({256}, crossed)});
  expect_op(node_of("Clip"), {every}, {every});
  expect_refused(node_of("Clip"), {x, floats({2}, {0, 1})}, "input 1 has dims [2], it must be a scalar");
  expect_refused(node_of("Clip"), {x, longs({}, {0})}, "they must be the same");
}

TEST(PRelu, IntegersWrap) {
  const double lowest = -2147483648.0;
  const auto integers = [](const std::vector<double>& values) {
    return tensor(DataType::s32, {static_cast<std::int64_t>(values.size())}, values);
  };
  expect_op(node_of("PRelu"), {integers({lowest, -3, 3}), integers({lowest, 2, 2})}, {integers({0, -6, 3})});
  expect_op(node_of("PRelu"), {integers({lowest, -3, 3}), integers({-1})}, {integers({lowest, 3, 3})});
}

TEST(PRelu, SlopeBroadcasts) {
  const HostTensor x = floats({1, 2, 1, 2}, {-1, 2, -3, -4});
  expect_op(node_of("PRelu"), {x, floats({2, 1, 1}, {0.5, 2})}, {floats({1, 2, 1, 2}, {-0.5, 2, -6, -8})});
  expect_op(node_of("PRelu"), {x, floats({1}, {0.5})}, {floats({1, 2, 1, 2}, {-0.5, 2, -1.5, -2})});
  expect_op(node_of("PRelu", {}, 6), {x, floats({2}, {0.5, 2})}, {floats({1, 2, 1, 2}, {-0.5, 2, -6, -8})});
  expect_op(node_of("PRelu"), {x, floats({2}, {0.5, 2})}, {floats({1, 2, 1, 2}, {-0.5, 2, -1.5, -8})});
  expect_refused(node_of("PRelu"), {x, floats({1, 1, 3, 1}, {1, 2, 3})}, "does not broadcast");
}

}  // namespace
}  // namespace convoy::ops
