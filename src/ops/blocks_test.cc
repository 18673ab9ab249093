// Operators in blocks of channels give what they give in nchw.
#include "ops/blocks.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

HostTensor varied(Dims dims, double step, DataType type = DataType::f32) {
  auto made = HostTensor::allocate(TensorDesc::packed(type, std::move(dims)));
  EXPECT_TRUE(made.ok());
  for (std::int64_t i = 0; i < made->desc.elements(); ++i) {
    store_from_double(type, made->data.get(), i, std::remainder(step * static_cast<double>(i + 1), 3.0));
  }
  return *made;
}

// From 0.5 to 1.5, so that they may be variances.
HostTensor numbers(std::int64_t count, double step) {
  HostTensor made = varied({count}, step);
  auto* values = reinterpret_cast<float*>(made.data.get());
  for (std::int64_t i = 0; i < count; ++i) values[i] = 1 + values[i] / 3;
  return made;
}

HostTensor scalar(float value) {
  auto made = HostTensor::allocate(TensorDesc::packed(DataType::f32, {}));
  EXPECT_TRUE(made.ok());
  *reinterpret_cast<float*>(made->data.get()) = value;
  return *made;
}

HostTensor list(std::vector<std::int64_t> values) {
  auto made = HostTensor::allocate(TensorDesc::packed(DataType::s64, {static_cast<std::int64_t>(values.size())}));
  EXPECT_TRUE(made.ok());
  std::ranges::copy(values, reinterpret_cast<std::int64_t*>(made->data.get()));
  return *made;
}

NodeDesc split_along(std::int64_t axis, int parts, int opset = 13) {
  NodeDesc node = node_of("Split", {{"axis", axis}}, opset);
  node.output_count = parts;
  return node;
}

// The outputs in blocks, or nothing where the operator doesn't take them. Input `constant` is one, and so in nchw.
std::optional<std::vector<HostTensor>> in_blocks(const NodeDesc& node, const std::vector<HostTensor>& given,
                                                 Layout layout, int constant = -1, Isa isa = Isa::avx512) {
  const OperatorRow* row = find_row(node.domain, node.op);
  const auto is_constant = [&](std::size_t i) { return given[i].desc.rank() < 3 || static_cast<int>(i) == constant; };
  std::vector<Input> inputs;
  for (std::size_t i = 0; i < given.size(); ++i) {
    inputs.push_back({true, given[i].desc, is_constant(i) ? given[i].data.get() : nullptr});
  }
  auto outputs = row->infer(node, inputs);
  EXPECT_TRUE(outputs.ok());
  if (!works_in(*row, node, inputs, *outputs, layout)) return std::nullopt;
  const bool itself = row->layouts(node, inputs, layout) == Taken::as_it_is;
  const auto as_planned = [&](const TensorDesc& desc) { return itself ? desc : blocks_as_samples(desc); };
  std::vector<HostTensor> arranged;
  std::vector<const void*> in;
  for (std::size_t i = 0; i < given.size(); ++i) {
    arranged.push_back(is_constant(i) ? given[i] : *converted(given[i], given[i].desc.with_layout(layout)));
    inputs[i].desc = as_planned(arranged.back().desc);
    in.push_back(arranged.back().data.get());
  }
  std::vector<HostTensor> made;
  std::vector<TensorDesc> planned;
  std::vector<void*> out;
  for (const TensorDesc& desc : *outputs) {
    made.push_back(*HostTensor::allocate(desc.with_layout(layout)));
    planned.push_back(as_planned(made.back().desc));
    out.push_back(made.back().data.get());
  }
  PlanRequest request;
  request.threads = 2;
  request.cpu = capped(cpu_features(), isa);
  const auto plan = row->implementation->plan(node, inputs, planned, request);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const auto team = make_cpu_team(2);
  const auto workspace = allocate_aligned(std::max<std::size_t>((*plan)->workspace_bytes(), 64));
  EXPECT_TRUE((*plan)->execute(in, out, ExecContext{*team, workspace.get(), (*plan)->workspace_bytes()}).ok());
  for (HostTensor& tensor : made) tensor = *converted(tensor, tensor.desc.with_layout(Layout::nchw));
  return made;
}

void expect_near(const std::vector<HostTensor>& got, const std::vector<HostTensor>& expected, const std::string& op) {
  ASSERT_EQ(got.size(), expected.size()) << op;
  for (std::size_t o = 0; o < got.size(); ++o) {
    for (std::int64_t i = 0; i < expected[o].desc.elements(); ++i) {
      ASSERT_NEAR(got[o].at(i), expected[o].at(i), 1e-5) << op << " output " << o << " element " << i;
    }
  }
}

TEST(Blocks, GiveWhatNchwGives) {
  const HostTensor x = varied({2, 32, 6, 8}, 0.37), z = varied({2, 32, 6, 8}, 0.71),
                   volume = varied({1, 16, 4, 6, 5}, 0.23);
  const Ints two{2, 2};
  const std::vector<std::pair<NodeDesc, std::vector<HostTensor>>> cases = {
      {node_of("Relu"), {x}},
      {node_of("Sigmoid"), {volume}},
      {node_of("HardSwish"), {x}},
      {node_of("Clip"), {x, scalar(-1), scalar(0.5)}},
      {node_of("Add"), {x, z}},
      {node_of("Mul"), {x, scalar(3)}},
      {node_of("Mul"), {x, varied({2, 32, 1, 1}, 0.53)}},  // as squeeze and excitation does
      {node_of("Sub"), {volume, varied({1, 16, 1, 1, 1}, 0.53)}},
      {node_of("Mul"), {x, varied({2, 32, 1, 8}, 0.53)}},
      {node_of("Add"), {varied({2, 32, 1, 1}, 0.53), x}},
      {node_of("Max"), {x, z, x}},
      {node_of("MaxPool", {{"kernel_shape", two}, {"strides", two}}), {x}},
      {node_of("MaxPool", {{"kernel_shape", Ints{3, 3, 3}}, {"pads", Ints{1, 1, 1, 1, 1, 1}}}), {volume}},
      {node_of("AveragePool", {{"kernel_shape", two}}), {x}},
      {node_of("GlobalAveragePool"), {x}},
      {node_of("GlobalMaxPool"), {volume}},
      {node_of("Upsample", {{"scales", std::vector<double>{1, 1, 2, 2}}}, 7), {x}},
      {node_of("Concat", {{"axis", std::int64_t{1}}}), {x, varied({2, 16, 6, 8}, 0.11), z}},
      {node_of("Concat", {{"axis", std::int64_t{-1}}}), {x, varied({2, 32, 6, 3}, 0.11)}},
      {node_of("Concat", {{"axis", std::int64_t{0}}}), {volume, varied({2, 16, 4, 6, 5}, 0.11)}},
      {split_along(1, 2), {x}},
      {split_along(1, 2), {varied({2, 64, 6, 8}, 0.19), list({16, 48})}},
      {split_along(2, 3), {x}},
      {split_along(0, 2), {x}},
      {node_of("Slice"), {x, list({1, -1}), list({6, -9}), list({2, 3}), list({2, -3})}},
      {node_of("Slice"), {x, list({16}), list({32}), list({1})}},
      {node_of("Slice"), {volume, list({0, 1}), list({16, 2}), list({1, 4})}},
      {node_of("BatchNormalization"), {x, numbers(32, 0.3), numbers(32, 0.7), numbers(32, 0.2), numbers(32, 0)}},
      {node_of("BatchNormalization"), {volume, numbers(16, 0.3), numbers(16, 0.7), numbers(16, 0.2), numbers(16, 0)}},
  };
  for (const auto& [node, inputs] : cases) {
    const auto expected = run_op(node, inputs);
    ASSERT_TRUE(expected.ok()) << node.op << ": " << expected.error().message;
    for (const Layout layout : {Layout::nchw8c, Layout::nchw16c}) {
      const auto got = in_blocks(node, inputs, layout);
      ASSERT_TRUE(got) << node.op;
      expect_near(*got, *expected, node.op);
    }
  }
}

// With vectors and without the same numbers, rounded once.
TEST(Blocks, OfHalves) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    // The second is large enough for two threads.
    for (const Dims& dims : {Dims{2, 32, 6, 8}, Dims{2, 48, 33, 35}}) {
      const HostTensor x = varied(dims, 0.37, type);
      const std::int64_t channels = dims[1];
      const std::pair<NodeDesc, std::vector<HostTensor>> cases[] = {
          {node_of("BatchNormalization"),
           {x, numbers(channels, 0.3), numbers(channels, 0.7), numbers(channels, 0.2), numbers(channels, 0)}},
          {node_of("Mul"), {x, varied({2, channels, 1, 1}, 0.53, type)}},
          {node_of("HardSwish"), {x}},
          {node_of("GlobalMaxPool"), {x}}};
      for (const auto& [node, inputs] : cases) {
        const auto expected = run_op(node, inputs, {.isa = Isa::portable});
        ASSERT_TRUE(expected.ok()) << node.op << ": " << expected.error().message;
        for (const Layout layout : {Layout::nchw8c, Layout::nchw16c}) {
          for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
            const auto got = in_blocks(node, inputs, layout, -1, isa);
            ASSERT_TRUE(got) << node.op;
            expect_near(*got, *expected, node.op);
          }
        }
      }
    }
  }
}

TEST(Blocks, AConstantAmongThemHasNone) {
  const HostTensor x = varied({2, 32, 6, 8}, 0.37), constant = varied({2, 16, 6, 8}, 0.11);
  const NodeDesc node = node_of("Concat", {{"axis", std::int64_t{1}}});
  const auto expected = run_op(node, {x, constant});
  ASSERT_TRUE(expected.ok());
  for (const Layout layout : {Layout::nchw8c, Layout::nchw16c}) {
    const auto got = in_blocks(node, {x, constant}, layout, 1);
    ASSERT_TRUE(got);
    expect_near(*got, *expected, node.op);
  }
}

TEST(Blocks, AreLeftWhereTheyWouldBeWrong) {
  const HostTensor x = varied({2, 32, 6, 8}, 0.37), odd = varied({2, 20, 6, 8}, 0.37);
  const Ints two{2, 2};
  EXPECT_FALSE(in_blocks(node_of("Relu"), {odd}, Layout::nchw8c));  // the last block has padding
  EXPECT_FALSE(in_blocks(node_of("Add"), {x, varied({1, 32, 1, 1}, 0.1)}, Layout::nchw8c));  // by channel
  EXPECT_FALSE(in_blocks(node_of("Softmax", {{"axis", std::int64_t{1}}}), {x}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("Upsample", {{"scales", std::vector<double>{1, 2, 1, 1}}}, 7), {x}, Layout::nchw8c));
  // A part whose last block has padding, also where those of the whole have none.
  const HostTensor part = varied({2, 12, 6, 8}, 0.37);
  EXPECT_FALSE(in_blocks(node_of("Concat", {{"axis", std::int64_t{1}}}), {part, odd}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("Concat", {{"axis", std::int64_t{2}}}), {odd, odd}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(split_along(1, 2), {x, list({20, 12})}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(split_along(2, 2), {odd}, Layout::nchw8c));
  // Channels from within a block, backwards, or every other one.
  EXPECT_FALSE(in_blocks(node_of("Slice"), {x, list({4}), list({20}), list({1})}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("Slice"), {x, list({-1}), list({-33}), list({1}), list({-1})}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("Slice"), {x, list({0}), list({32}), list({1}), list({2})}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("Slice"), {odd, list({0}), list({3}), list({2})}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("BatchNormalization"),
                         {odd, numbers(20, 0.3), numbers(20, 0.7), numbers(20, 0.2), numbers(20, 0)}, Layout::nchw8c));
  NodeDesc with_indices = node_of("MaxPool", {{"kernel_shape", two}});
  with_indices.output_count = 2;
  EXPECT_FALSE(in_blocks(with_indices, {x}, Layout::nchw8c));
}

}  // namespace
}  // namespace convoy::ops
