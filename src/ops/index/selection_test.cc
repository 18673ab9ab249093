// Operators whose results are chosen by value: TopK, OneHot, Range, NonMaxSuppression, NonZero, Unique.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "ops/computed.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

TEST(TopK, LargestSmallestAndTies) {
  const HostTensor x = floats({2, 4}, {1, 3, 3, 2, NAN, 0, 7, -1}), two = longs({1}, {2});
  expect_op(node_of("TopK", {}, 11, 2), {x, two}, {floats({2, 2}, {3, 3, NAN, 7}), longs({2, 2}, {1, 2, 0, 2})});
  expect_op(node_of("TopK", {{"largest", std::int64_t{0}}}, 11, 2), {x, two},
            {floats({2, 2}, {1, 2, -1, 0}), longs({2, 2}, {0, 3, 3, 1})});
  expect_op(node_of("TopK", {{"k", std::int64_t{1}}, {"axis", std::int64_t{1}}}, 1, 2),
            {floats({1, 3, 2}, {1, 6, 5, 4, 3, 2})}, {floats({1, 1, 2}, {5, 6}), longs({1, 1, 2}, {1, 0})});
  expect_op(node_of("TopK", {}, 11, 2), {x, longs({1}, {0})}, {floats({2, 0}, {}), longs({2, 0}, {})});
  expect_refused(node_of("TopK", {}, 11, 2), {x, longs({1}, {5})}, "k=5 is outside [0, 4]");
}

// Few and many of a line with equals and NaNs, beside a sort.
TEST(TopK, OfLongLines) {
  constexpr std::int64_t kSize = 331;
  std::vector<double> values(2 * kSize);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 97 == 3 ? NAN : static_cast<double>(i * 37 % 101) - 50;
  for (const DataType type : {DataType::f32, DataType::f16, DataType::f64}) {
    for (const bool largest : {true, false}) {
      for (const std::int64_t k : {1, 5, 32, 33, 200}) {
        std::vector<double> best, at;
        for (std::int64_t line = 0; line < 2; ++line) {
          const double* const x = values.data() + line * kSize;
          std::vector<std::int64_t> order(kSize);
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
            const double a = std::isnan(x[i]) ? INFINITY : x[i], b = std::isnan(x[j]) ? INFINITY : x[j];
            return largest ? a > b : a < b;
          });
          for (std::int64_t i = 0; i < k; ++i) {
            best.push_back(x[order[static_cast<std::size_t>(i)]]);
            at.push_back(static_cast<double>(order[static_cast<std::size_t>(i)]));
          }
        }
        expect_op(node_of("TopK", {{"largest", std::int64_t{largest}}}, 11, 2),
                  {tensor(type, {2, kSize}, values), longs({1}, {static_cast<double>(k)})},
                  {tensor(type, {2, k}, best), longs({2, k}, at)}, 0, 0);
      }
    }
  }
}

TEST(TopK, OfIntegersToTheirLimits) {
  constexpr std::int64_t kSize = 40;
  for (const DataType type : {DataType::s8, DataType::u8, DataType::s32, DataType::u32, DataType::s64}) {
    const bool is_unsigned = type == DataType::u8 || type == DataType::u32;
    const double most = std::exp2(8 * static_cast<double>(size_of(type)) - (is_unsigned ? 0 : 1)) - 1;
    const double largest = std::min(most, 9e15), least = is_unsigned ? 0 : -largest - 1;
    std::vector<double> values(kSize, 7), best(kSize, 7), at(kSize);
    values[30] = best[0] = largest;
    values[3] = best[kSize - 1] = least;
    for (std::int64_t i = 0, place = 1; i < kSize; ++i) {
      if (i != 30 && i != 3) at[place++] = static_cast<double>(i);
    }
    at[0] = 30;
    at[kSize - 1] = 3;
    expect_op(node_of("TopK", {}, 11, 2), {tensor(type, {kSize}, values), longs({1}, {kSize})},
              {tensor(type, {kSize}, best), longs({kSize}, at)}, 0, 0);
  }
}

TEST(OneHot, NegativeAndOutOfRange) {
  const HostTensor values = floats({2}, {-1, 5});
  expect_op(node_of("OneHot"), {longs({4}, {0, -1, 3, 1}), longs({}, {3}), values},
            {floats({4, 3}, {5, -1, -1, -1, -1, 5, -1, -1, -1, -1, 5, -1})});
  expect_op(node_of("OneHot", {{"axis", std::int64_t{0}}}), {longs({2}, {0, 1}), floats({1}, {2}), longs({2}, {0, 1})},
            {longs({2, 2}, {1, 0, 0, 1})});
  expect_refused(node_of("OneHot"), {longs({1}, {0}), longs({}, {0}), values}, "depth=0");
}

TEST(Range, UpAndDown) {
  const auto range = [](DataType type, double start, double limit, double delta) {
    return std::vector<HostTensor>{tensor(type, {}, {start}), tensor(type, {}, {limit}), tensor(type, {}, {delta})};
  };
  expect_op(node_of("Range"), range(DataType::f32, 1, 5, 2), {floats({2}, {1, 3})});
  expect_op(node_of("Range"), range(DataType::s32, 10, 4, -3), {tensor(DataType::s32, {2}, {10, 7})});
  expect_op(node_of("Range"), range(DataType::s64, 4, 4, 1), {longs({0}, {})});
  expect_op(node_of("Range"), range(DataType::f64, 0, 0.5, 0.2), {tensor(DataType::f64, {3}, {0, 0.2, 0.4})});
  expect_refused(node_of("Range"), range(DataType::f32, 1, 5, 0), "delta");
  expect_refused(node_of("Range"), range(DataType::f64, 0, 1e300, 1), "elements");
}

// As many kept boxes as are compared at a time, and more, beside a plain loop.
TEST(NonMaxSuppression, ManyBoxes) {
  constexpr int kBoxes = 400;
  constexpr double kOverlap = 0.31;
  std::vector<double> boxes, scores;
  for (int i = 0; i < kBoxes; ++i) {
    const double y = (i * 37) % 101, x = (i * 53) % 97, size = 6 + (i * 11) % 13;
    boxes.insert(boxes.end(), {y, x, y + size, x + size});
    scores.push_back((i * 7919) % 4001);
  }
  std::vector<int> order(kBoxes);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int i) { return scores[i]; });
  const auto iou = [&](int i, int j) {
    const double* a = &boxes[i * 4];
    const double* b = &boxes[j * 4];
    const double h = std::min(a[2], b[2]) - std::max(a[0], b[0]), w = std::min(a[3], b[3]) - std::max(a[1], b[1]);
    const double both = std::max(0.0, h) * std::max(0.0, w);
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
  };
  std::vector<int> kept;
  std::vector<double> rows;
  for (const int i : order) {
    if (std::ranges::any_of(kept, [&](int j) { return iou(i, j) > kOverlap; })) continue;
    kept.push_back(i);
    rows.insert(rows.end(), {0.0, 0.0, static_cast<double>(i)});
  }
  ASSERT_GT(kept.size(), 64u);
  ASSERT_LT(kept.size(), 300u);
  const std::int64_t count = static_cast<std::int64_t>(kept.size());
  expect_op(
      node_of("NonMaxSuppression"),
      {floats({1, kBoxes, 4}, boxes), floats({1, 1, kBoxes}, scores), longs({1}, {1000}), floats({1}, {kOverlap})},
      {longs({count, 3}, rows)});
}

TEST(NonMaxSuppression, DropsWhatOverlaps) {
  const HostTensor boxes = floats({1, 4, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11, 1, 1.05, 0, 0.05});
  const HostTensor scores = floats({1, 1, 4}, {0.9, 0.75, 0.6, 0.95});
  const HostTensor limit = longs({}, {3}), half = floats({}, {0.5});
  expect_op(node_of("NonMaxSuppression"), {boxes, scores, limit, half}, {longs({2, 3}, {0, 0, 3, 0, 0, 2})});
  expect_op(node_of("NonMaxSuppression"), {boxes, scores, longs({1}, {1}), half}, {longs({1, 3}, {0, 0, 3})});
  expect_op(node_of("NonMaxSuppression"), {boxes, scores, limit, half, floats({}, {0.7})}, {longs({1, 3}, {0, 0, 3})});
  expect_op(node_of("NonMaxSuppression"), {boxes, scores}, {longs({0, 3}, {})});
  expect_op(node_of("NonMaxSuppression", {{"center_point_box", std::int64_t{1}}}),
            {floats({1, 2, 4}, {0, 0, 2, 2, 0.1, 0, 2, 2}), floats({1, 1, 2}, {1, 2}), limit, half},
            {longs({1, 3}, {0, 0, 1})});
  expect_refused(node_of("NonMaxSuppression"), {boxes, floats({1, 1, 3}, {1, 1, 1}), limit}, "input 1 (scores)");
}

TEST(NonZero, Coordinates) {
  expect_op(node_of("NonZero"), {floats({2, 2}, {1, 0, 2, -3})}, {longs({2, 3}, {0, 1, 1, 0, 0, 1})});
  expect_op(node_of("NonZero"), {tensor(DataType::boolean, {3}, {0, 0, 0})}, {longs({1, 0}, {})});
  expect_op(node_of("NonZero"), {tensor(DataType::f16, {2, 3, 2}, {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, -0.0})},
            {longs({3, 3}, {0, 1, 1, 1, 0, 0, 1, 0, 1})});
  expect_op(node_of("NonZero"), {floats({}, {2})}, {longs({1, 1}, {0})});
  expect_op(node_of("NonZero"), {floats({}, {0})}, {longs({1, 0}, {})});
}

TEST(Unique, ElementsAndSlices) {
  const HostTensor x = floats({6}, {2, 1, 1, 3, 4, 3});
  expect_op(
      node_of("Unique", {}, 11, 4), {x},
      {floats({4}, {1, 2, 3, 4}), longs({4}, {1, 0, 3, 4}), longs({6}, {1, 0, 0, 2, 3, 2}), longs({4}, {2, 1, 2, 1})});
  expect_op(
      node_of("Unique", {{"sorted", std::int64_t{0}}}, 11, 4), {x},
      {floats({4}, {2, 1, 3, 4}), longs({4}, {0, 1, 3, 4}), longs({6}, {0, 1, 1, 2, 3, 2}), longs({4}, {1, 2, 2, 1})});
  expect_op(node_of("Unique", {{"axis", std::int64_t{0}}}, 11, 1), {longs({3, 2}, {1, 0, 1, 0, 0, 5})},
            {longs({2, 2}, {0, 5, 1, 0})});
  expect_op(node_of("Unique", {{"axis", std::int64_t{1}}}, 11, 1), {longs({2, 3}, {2, 1, 2, 0, 5, 0})},
            {longs({2, 2}, {1, 2, 5, 0})});
}

// What is computed to say the dims is not computed again: a plan has it, and a run takes it as it comes.
TEST(Computed, OutputsAreThoseOfTheirInference) {
  const HostTensor boxes = floats({1, 2, 4}, {0, 0, 1, 1, 0, 0, 3, 3}), scores = floats({1, 1, 2}, {0.5, 0.9});
  const std::pair<NodeDesc, std::vector<HostTensor>> cases[] = {
      {node_of("NonMaxSuppression"), {boxes, scores, longs({1}, {2}), floats({1}, {0.5})}},
      {node_of("NonZero"), {floats({2, 2}, {1, 0, 2, -3})}},
      {node_of("Unique", {}, 11, 4), {floats({4}, {2, 1, 1, 3})}},
      {node_of("Unique", {}, 11, 2), {longs({0}, {})}},
  };
  for (const auto& [node, tensors] : cases) {
    const Operator& op = *find_operator("", node.op);
    const auto* computed = dynamic_cast<const ComputedOperator*>(&op);
    ASSERT_NE(computed, nullptr) << node.op;
    std::vector<Input> inputs;
    for (const HostTensor& tensor : tensors) inputs.push_back({true, tensor.desc, tensor.data.get()});
    int allocated = 0;
    const auto allocate = [&](TensorDesc desc) {
      ++allocated;
      return HostTensor::allocate(std::move(desc));
    };
    const auto made = computed->compute(node, inputs, allocate);
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_EQ(std::ssize(*made), node.output_count) << node.op;
    EXPECT_EQ(allocated, node.output_count) << node.op;
    const auto descs = op.infer(node, inputs);
    ASSERT_TRUE(descs.ok()) << descs.error().message;
    const auto plan = op.plan(node, inputs, *descs, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    std::vector<HostTensor> outputs;
    std::vector<void*> out;
    for (const TensorDesc& desc : *descs) outputs.push_back(*HostTensor::zeros(desc));
    for (const HostTensor& output : outputs) out.push_back(output.data.get());
    const std::vector<const void*> unread(inputs.size(), nullptr);
    const auto team = make_cpu_team(1);
    ASSERT_TRUE((*plan)->execute(unread, out, {*team}).ok());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const HostTensor& expected = (*made)[k];
      ASSERT_EQ(outputs[k].desc, expected.desc) << node.op << " " << k;
      EXPECT_EQ(
          std::memcmp(outputs[k].data.get(), expected.data.get(), static_cast<std::size_t>(expected.desc.bytes())), 0);
    }
    for (Input& input : inputs) input.constant = nullptr;
    const auto unknown = op.infer(node, inputs);
    EXPECT_EQ(unknown.ok(), tensors[0].desc.elements() == 0);
    if (!unknown.ok()) {
      EXPECT_EQ(unknown.error().message, node.op + ": input 0 must be known before the node is planned");
    }
  }
}

}  // namespace
}  // namespace convoy::ops
