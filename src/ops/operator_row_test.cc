// Every operator is asked every question of its row.
#include "ops/operator_row.h"

#include <algorithm>
#include <cmath>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

Input image_input(const HostTensor& tensor) { return {true, tensor.desc, tensor.data.get()}; }

bool same(double a, double b, double within) { return (a != a && b != b) || a == b || std::abs(a - b) <= within; }

TEST(OperatorRows, AnswerEverything) {
  const HostTensor x = floats({2, 4, 6, 6}, spread(2 * 4 * 36, -2, 2)), axis = longs({1}, {1});
  for (const OperatorRow* const row : operator_rows()) {
    SCOPED_TRACE(std::string(row->domain) + "." + std::string(row->op));
    ASSERT_NE(row->implementation, nullptr);
    ASSERT_NE(row->images, nullptr);
    ASSERT_NE(row->values, nullptr);
    ASSERT_NE(row->maps, nullptr);
    ASSERT_NE(row->in_place, nullptr);
    ASSERT_NE(row->layouts, nullptr);
    EXPECT_NE(row->types, 0U);
    EXPECT_NE(name_of(row->rate), "");
    EXPECT_EQ(find_row(row->domain, row->op), row);
    EXPECT_EQ(find_operator(row->domain, row->op), row->implementation);
    NodeDesc node = node_of(std::string(row->op));
    node.domain = std::string(row->domain);
    const std::vector<Input> inputs(10, image_input(x));
    EXPECT_EQ(row->layouts(node, inputs, Layout::nchw), Taken::as_it_is);
    for (const Layout layout : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) row->layouts(node, inputs, layout);
    EXPECT_NE(row->layouts(node, inputs, Layout::nhwc), Taken::as_samples);
    const int in_place = row->in_place(node);
    EXPECT_GE(in_place, -1);
    EXPECT_LT(in_place, 4);
    for (const std::size_t count : {0, 1, 2}) {  // of what takes so many inputs of this kind
      const auto given = std::span(inputs).first(count);
      const auto outputs = row->infer(node, given);
      if (!outputs.ok()) continue;
      const std::vector<IndexMap> maps = row->maps(node, given, *outputs);
      for (std::size_t i = 0; i < maps.size(); ++i) EXPECT_EQ(maps[i].dims, (*outputs)[i].dims);
      EXPECT_TRUE(maps.empty() || (maps.size() == outputs->size() && row->values(node).kind != Values::mapped));
    }
    // What is the same for all images decides nothing; mixed is never.
    std::vector<bool> images(inputs.size(), false);
    images[0] = true;
    const ImageReading reading(node, inputs, images, {2, 4, 6, 6}, true);
    EXPECT_FALSE(row->images(reading) && row->images == images::mixed);
    const Values values = row->values(node);
    EXPECT_EQ(values.kind == Values::mapped, values.operands[0] >= 0);
    EXPECT_LT(values.operands[0], values.operands[1] < 0 ? 1 : values.operands[1]);
  }
  EXPECT_EQ(find_row("", "NoSuchOperator"), nullptr);
  EXPECT_EQ(find_row("ai.onnx", "Relu"), find_row("", "Relu"));
}

// The types of the first input are what the row says, whatever the operator itself would do.
TEST(OperatorRows, OtherTypesAreRefused) {
  int refused = 0;
  for (const OperatorRow* const row : operator_rows()) {
    for (const DataType type : {DataType::f32, DataType::s64, DataType::boolean, DataType::u8}) {
      if (contains(row->types, type)) continue;
      NodeDesc node = node_of(std::string(row->op));
      node.domain = std::string(row->domain);
      const auto outputs = row->infer(node, std::vector<Input>{{true, TensorDesc::packed(type, {2, 4, 6, 6})}});
      ASSERT_FALSE(outputs.ok()) << row->op;
      EXPECT_EQ(outputs.error().message, std::string(row->op) + ": input 0 has type " + std::string(name_of(type)) +
                                             ", which the operator does not take");
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

// Of one element of the first operand: elements in another order give results
// in that order.
TEST(OperatorRows, MappedValuesComeFromTheirOwnElements) {
  std::vector<double> numbers = spread(96, 0.1, 0.9);
  const HostTensor x = floats({96}, numbers);
  std::ranges::reverse(numbers);
  const HostTensor reversed = floats({96}, numbers);
  int asked = 0;
  for (const OperatorRow* const row : operator_rows()) {
    const NodeDesc node = node_of(std::string(row->op));
    const Values values = row->values(node);
    if (!row->domain.empty() || values.kind != Values::mapped) continue;
    std::vector<HostTensor> forward{x}, backward{reversed};
    if (values.operands[1] == 1) {
      forward.push_back(floats({}, {0.4}));
      backward.push_back(floats({}, {0.4}));
    }
    const auto y = run_op(node, forward), z = run_op(node, backward);
    if (!y.ok()) continue;  // of bytes, integers or bool
    SCOPED_TRACE(std::string(row->op));
    ASSERT_TRUE(z.ok());
    ASSERT_EQ((*y)[0].desc.dims, x.desc.dims);
    for (std::int64_t i = 0; i < 96; ++i) EXPECT_TRUE(same((*y)[0].at(i), (*z)[0].at(95 - i), 0));
    ++asked;
  }
  EXPECT_GT(asked, 45);
}

// Images that are computed apart: what a row says of one input with images is
// so.
TEST(OperatorRows, ImagesApartAreApart) {
  const HostTensor both = floats({2, 4, 6, 6}, spread(2 * 4 * 36, 0.1, 0.9));
  const auto image = [&](std::int64_t n) {
    std::vector<double> part;
    for (std::int64_t i = 0; i < 4 * 36; ++i) part.push_back(both.at(n * 4 * 36 + i));
    return floats({1, 4, 6, 6}, part);
  };
  int asked = 0;
  for (const OperatorRow* const row : operator_rows()) {
    if (!row->domain.empty()) continue;
    NodeDesc node = node_of(std::string(row->op));
    node.attributes = {
        {"kernel_shape", std::vector<std::int64_t>{2, 2}}, {"blocksize", std::int64_t{2}}, {"size", std::int64_t{3}}};
    const auto whole = run_op(node, {both});
    if (!whole.ok() || (*whole)[0].desc.dims.empty() || (*whole)[0].desc.dims[0] != 2) continue;
    const ImageReading reading(node, {image_input(both)}, {true}, (*whole)[0].desc.dims, true);
    if (!row->images(reading)) continue;
    SCOPED_TRACE(std::string(row->op));
    for (std::int64_t n = 0; n < 2; ++n) {
      const auto part = run_op(node, {image(n)});
      ASSERT_TRUE(part.ok()) << part.error().message;
      const std::int64_t count = (*part)[0].desc.elements();
      ASSERT_EQ(2 * count, (*whole)[0].desc.elements());
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(same((*part)[0].at(i), (*whole)[0].at(n * count + i), 1e-6)) << "image " << n;
      }
    }
    ++asked;
  }
  EXPECT_GT(asked, 60);
}

}  // namespace
}  // namespace convoy::ops
