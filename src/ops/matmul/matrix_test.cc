// Trilu, Det, Compress, ReverseSequence: values from the operator specification's examples and by hand.
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

TEST(Matrix, TriluAndDet) {
  const HostTensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_op(node_of("Trilu"), {x}, {floats({2, 3}, {1, 2, 3, 0, 5, 6})});
  expect_op(node_of("Trilu", {{"upper", std::int64_t{0}}}), {x, longs({}, {1})}, {floats({2, 3}, {1, 2, 0, 4, 5, 6})});
  expect_op(node_of("Trilu"), {x, longs({}, {-9e18})}, {x});
  expect_op(node_of("Trilu"), {x, longs({}, {9e18})}, {floats({2, 3}, {0, 0, 0, 0, 0, 0})});
  expect_refused(node_of("Trilu"), {floats({2}, {1, 2})}, "rank 2");
  expect_op(node_of("Det"), {floats({3, 2, 2}, {1, 2, 3, 4, 1, 2, 2, 1, 1, 3, 3, 1})}, {floats({3}, {-2, -3, -8})});
  expect_op(node_of("Det"), {floats({3, 3}, {0, 2, 1, 1, 0, 0, 0, 0, 4})}, {floats({}, {-8})});
  expect_op(node_of("Det"), {floats({2, 2}, {1, 2, 2, 4})}, {floats({}, {0})});
  expect_refused(node_of("Det"), {x}, "square matrices");
}

TEST(Sequences, CompressAndReverse) {
  const HostTensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto flags = [](const std::vector<double>& values) {
    return tensor(DataType::boolean, {static_cast<std::int64_t>(values.size())}, values);
  };
  expect_op(node_of("Compress", {{"axis", std::int64_t{0}}}), {x, flags({0, 1, 1})}, {floats({2, 2}, {3, 4, 5, 6})});
  expect_op(node_of("Compress", {{"axis", std::int64_t{-1}}}), {x, flags({0, 1})}, {floats({3, 1}, {2, 4, 6})});
  expect_op(node_of("Compress"), {x, flags({0, 1, 0, 0, 1})}, {floats({2}, {2, 5})});
  expect_op(node_of("Compress"), {x, flags({0})}, {floats({0}, {})});
  expect_refused(node_of("Compress", {{"axis", std::int64_t{1}}}), {x, flags({0, 1, 1})}, "3 entries for 2 slices");

  const HostTensor y = floats({4, 2}, {0, 4, 1, 5, 2, 6, 3, 7});
  expect_op(node_of("ReverseSequence"), {y, longs({2}, {4, 3})}, {floats({4, 2}, {3, 6, 2, 5, 1, 4, 0, 7})});
  expect_op(node_of("ReverseSequence", {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}}),
            {floats({2, 3}, {0, 1, 2, 3, 4, 5}), longs({2}, {2, 0})}, {floats({2, 3}, {1, 0, 2, 3, 4, 5})});
  expect_refused(node_of("ReverseSequence"), {y, longs({2}, {5, 1})}, "input 1 (sequence_lens) has 5 at 0");
  expect_refused(node_of("ReverseSequence"), {y, longs({1}, {1})}, "a batch of 2");
}

}  // namespace
}  // namespace convoy::ops
