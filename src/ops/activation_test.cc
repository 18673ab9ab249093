#include "ops/op_testing.h"

namespace convoy::ops {
namespace {

TEST(Activation, Relu) {
  expect_op(node_of("Relu"), {floats({5}, {-1, -0.5, 0, 2, NAN})}, {floats({5}, {0, 0, 0, 2, NAN})});
  expect_op(node_of("Relu"), {tensor(DataType::s8, {3}, {-128, 0, 127})}, {tensor(DataType::s8, {3}, {0, 0, 127})});
  expect_refused(node_of("Relu"), {tensor(DataType::u8, {1}, {1})}, "Relu: input 0 has type u8");
  expect_refused(node_of("Relu"), {}, "has 0 inputs, it takes 1");
  // Large enough to be split between threads, in both layouts.
  const std::vector<double> values = spread(2 * 3 * 70 * 71, -2, 2);
  std::vector<double> expected = values;
  for (double& value : expected) value = std::max(value, 0.0);
  expect_op(node_of("Relu"), {floats({2, 3, 70, 71}, values)}, {floats({2, 3, 70, 71}, expected)});
}

}  // namespace
}  // namespace convoy::ops
