#include "ops/op_testing.h"

namespace convoy::ops {
namespace {

TEST(Softmax, OneAxisSinceOpset13) {
  const std::vector<double> values = spread(2 * 3 * 4 * 5, -5, 5);
  const HostTensor x = floats({2, 3, 4, 5}, values);
  const Dims dims = {2, 3, 4, 5};
  for (int axis = 0; axis < 4; ++axis) {
    std::vector<double> soft(120), logs(120), hard(120);
    std::int64_t stride = 1;
    for (int d = axis + 1; d < 4; ++d) stride *= dims[d];
    for (std::int64_t i = 0; i < 120; ++i) {
      const std::int64_t first = i / (stride * dims[axis]) * stride * dims[axis] + i % stride;
      double sum = 0, largest = -INFINITY;
      for (std::int64_t k = 0; k < dims[axis]; ++k) {
        sum += std::exp(values[first + k * stride]);
        largest = std::max(largest, values[first + k * stride]);
      }
      soft[i] = std::exp(values[i]) / sum;
      logs[i] = values[i] - std::log(sum);
      hard[i] = values[i] == largest;
    }
    const std::map<std::string, Attribute> attributes = {{"axis", std::int64_t{axis}}};
    expect_op(node_of("Softmax", attributes), {x}, {floats(dims, soft)}, 1e-6, 1e-5);
    expect_op(node_of("LogSoftmax", attributes), {x}, {floats(dims, logs)}, 1e-5, 1e-5);
    expect_op(node_of("Hardmax", attributes), {x}, {floats(dims, hard)});
    expect_op(node_of("Softmax", attributes), {tensor(DataType::f64, dims, values)},
              {tensor(DataType::f64, dims, soft)}, 1e-12, 1e-12);
  }
}

TEST(Softmax, AllDimsFromTheAxisBefore) {
  const HostTensor x = floats({2, 2, 2, 1}, {1, 2, 3, 4, 4, 3, 2, 2});
  std::vector<double> expected;
  for (const double value : {1, 2, 3, 4}) expected.push_back(std::exp(value));
  for (const double value : {4, 3, 2, 2}) expected.push_back(std::exp(value));
  for (int i = 0; i < 8; ++i) {
    expected[i] /=
        i < 4 ? std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4) : std::exp(4) + std::exp(3) + 2 * std::exp(2);
  }
  expect_op(node_of("Softmax", {}, 12), {x}, {floats({2, 2, 2, 1}, expected)});
  expect_op(node_of("Hardmax", {}, 12), {x}, {floats({2, 2, 2, 1}, {0, 0, 0, 1, 1, 0, 0, 0})});
  expect_op(node_of("Softmax"), {floats({2}, {1000, -1000})}, {floats({2}, {1, 0})});
  expect_op(node_of("Softmax"), {floats({2, 0}, {})}, {floats({2, 0}, {})});
  expect_refused(node_of("Softmax", {{"axis", std::int64_t{4}}}), {x}, "axis=4");
}

TEST(BatchNormalization, Inference) {
  const std::vector<double> values = spread(2 * 3 * 2 * 3, -2, 2);
  const double scale[] = {1, 2, -1}, bias[] = {0, 1, 2}, mean[] = {0.5, -0.5, 0}, var[] = {1, 4, 0.25};
  std::vector<double> expected;
  for (int i = 0; i < 36; ++i) {
    const int c = i / 6 % 3;
    expected.push_back(scale[c] * (values[i] - mean[c]) / std::sqrt(var[c] + 1e-3) + bias[c]);
  }
  const auto vector = [](const double* v) { return floats({3}, {v[0], v[1], v[2]}); };
  const std::vector<HostTensor> inputs = {floats({2, 3, 2, 3}, values), vector(scale), vector(bias), vector(mean),
                                          vector(var)};
  for (const int opset : {7, 9, 15}) {
    expect_op(node_of("BatchNormalization", {{"epsilon", 1e-3}}, opset), inputs, {floats({2, 3, 2, 3}, expected)},
              1e-5);
  }
  auto wrong = inputs;
  wrong[2] = floats({2}, {0, 0});
  expect_refused(node_of("BatchNormalization"), wrong, "input 2 has 2 elements");
}

TEST(BatchNormalization, PerElementBeforeOpset9) {
  const HostTensor ones = floats({2, 2}, {1, 1, 1, 1}), zeros = floats({2, 2}, {0, 0, 0, 0});
  expect_op(node_of("BatchNormalization", {{"epsilon", 0.0}, {"spatial", std::int64_t{0}}}, 8),
            {floats({1, 2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 2, 3, 4}), zeros, zeros, ones},
            {floats({1, 2, 2}, {1, 4, 9, 16})});
}

TEST(BatchNormalization, Training) {
  // Channel 0 holds 1, 3, 5, 7 (mean 4, variance 5), channel 1 all 2.
  const HostTensor x = floats({2, 2, 2}, {1, 3, 2, 2, 5, 7, 2, 2});
  const double d = std::sqrt(5.0);
  expect_op(
      node_of("BatchNormalization", {{"epsilon", 0.0}, {"training_mode", std::int64_t{1}}, {"momentum", 0.75}}, 15, 3),
      {x, floats({2}, {1, 1}), floats({2}, {0, 1}), floats({2}, {0, 4}), floats({2}, {1, 1})},
      {floats({2, 2, 2}, {-3 / d, -1 / d, NAN, NAN, 1 / d, 3 / d, NAN, NAN}), floats({2}, {1, 3.5}),
       floats({2}, {2, 0.75})});
}

}  // namespace
}  // namespace convoy::ops
