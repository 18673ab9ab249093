// Operators in blocks of channels give what they give in nchw.
#include "ops/blocks.h"

#include <cmath>
#include <optional>

#include "device/workspace.h"
#include "ops/op_testing.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

HostTensor varied(Dims dims, double step) {
  auto made = HostTensor::allocate(TensorDesc::packed(DataType::f32, std::move(dims)));
  EXPECT_TRUE(made.ok());
  auto* values = reinterpret_cast<float*>(made->data.get());
  for (std::int64_t i = 0; i < made->desc.elements(); ++i) {
    values[i] = static_cast<float>(std::remainder(step * static_cast<double>(i + 1), 3.0));
  }
  return *made;
}

HostTensor scalar(float value) {
  auto made = HostTensor::allocate(TensorDesc::packed(DataType::f32, {}));
  EXPECT_TRUE(made.ok());
  *reinterpret_cast<float*>(made->data.get()) = value;
  return *made;
}

// The outputs in blocks, or nothing where the operator doesn't take them.
std::optional<std::vector<HostTensor>> in_blocks(const NodeDesc& node, const std::vector<HostTensor>& given,
                                                 Layout layout) {
  const Operator* op = find_operator(node.domain, node.op);
  std::vector<Input> inputs;
  for (const HostTensor& tensor : given) {
    inputs.push_back({true, tensor.desc, tensor.desc.rank() < 3 ? tensor.data.get() : nullptr});
  }
  auto outputs = op->infer(node, inputs);
  EXPECT_TRUE(outputs.ok());
  if (!accepts_blocks(*op, node, inputs, *outputs, layout)) return std::nullopt;
  std::vector<HostTensor> arranged;
  std::vector<const void*> in;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const TensorDesc& desc = given[i].desc;
    arranged.push_back(desc.rank() < 3 ? given[i] : *converted(given[i], desc.with_layout(layout)));
    inputs[i].desc = blocks_as_samples(arranged.back().desc);
    in.push_back(arranged.back().data.get());
  }
  std::vector<HostTensor> made;
  std::vector<TensorDesc> planned;
  std::vector<void*> out;
  for (const TensorDesc& desc : *outputs) {
    made.push_back(*HostTensor::allocate(desc.with_layout(layout)));
    planned.push_back(blocks_as_samples(made.back().desc));
    out.push_back(made.back().data.get());
  }
  const auto plan = op->plan(node, inputs, planned, PlanRequest{});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const auto team = make_cpu_team(2);
  const auto workspace = allocate_aligned(std::max<std::size_t>((*plan)->workspace_bytes(), 64));
  EXPECT_TRUE((*plan)->execute(in, out, ExecContext{*team, workspace.get(), (*plan)->workspace_bytes()}).ok());
  for (HostTensor& tensor : made) tensor = *converted(tensor, tensor.desc.with_layout(Layout::nchw));
  return made;
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
      {node_of("Max"), {x, z, x}},
      {node_of("MaxPool", {{"kernel_shape", two}, {"strides", two}}), {x}},
      {node_of("MaxPool", {{"kernel_shape", Ints{3, 3, 3}}, {"pads", Ints{1, 1, 1, 1, 1, 1}}}), {volume}},
      {node_of("AveragePool", {{"kernel_shape", two}}), {x}},
      {node_of("GlobalAveragePool"), {x}},
      {node_of("GlobalMaxPool"), {volume}},
      {node_of("Upsample", {{"scales", std::vector<double>{1, 1, 2, 2}}}, 7), {x}},
  };
  for (const auto& [node, inputs] : cases) {
    const auto expected = run_op(node, inputs);
    ASSERT_TRUE(expected.ok()) << node.op << ": " << expected.error().message;
    for (const Layout layout : {Layout::nchw8c, Layout::nchw16c}) {
      const auto got = in_blocks(node, inputs, layout);
      ASSERT_TRUE(got) << node.op;
      ASSERT_EQ(got->size(), 1u);
      for (std::int64_t i = 0; i < (*expected)[0].desc.elements(); ++i) {
        ASSERT_NEAR((*got)[0].at(i), (*expected)[0].at(i), 1e-5) << node.op << " element " << i;
      }
    }
  }
}

TEST(Blocks, AreLeftWhereTheyWouldBeWrong) {
  const HostTensor x = varied({2, 32, 6, 8}, 0.37), odd = varied({2, 20, 6, 8}, 0.37);
  const Ints two{2, 2};
  EXPECT_FALSE(in_blocks(node_of("Relu"), {odd}, Layout::nchw8c));  // the last block has padding
  EXPECT_FALSE(in_blocks(node_of("Add"), {x, varied({1, 32, 1, 1}, 0.1)}, Layout::nchw8c));  // by channel
  EXPECT_FALSE(in_blocks(node_of("Softmax", {{"axis", std::int64_t{1}}}), {x}, Layout::nchw8c));
  EXPECT_FALSE(in_blocks(node_of("Upsample", {{"scales", std::vector<double>{1, 2, 1, 1}}}, 7), {x}, Layout::nchw8c));
  NodeDesc with_indices = node_of("MaxPool", {{"kernel_shape", two}});
  with_indices.output_count = 2;
  EXPECT_FALSE(in_blocks(with_indices, {x}, Layout::nchw8c));
}

}  // namespace
}  // namespace convoy::ops
