#include "ops/blocks.h"

#include <algorithm>

namespace convoy::ops {

bool works_in(const OperatorRow& row, const NodeDesc& node, std::span<const Input> inputs,
              std::span<const TensorDesc> outputs, Layout layout) {
  const Taken taken = row.layouts(node, inputs, layout);
  if (taken != Taken::as_samples || outputs.empty()) return taken == Taken::as_it_is;
  const std::int64_t block = channel_block(layout);
  // The same samples and channels everywhere, besides numbers that hold for all of them.
  const Dims& dims = outputs[0].dims;
  const auto alike = [&](const TensorDesc& desc) {
    return desc.rank() >= 3 && desc.rank() <= 5 && desc.rank() == outputs[0].rank() && desc.dims[0] == dims[0] &&
           desc.dims[1] == dims[1];
  };
  if (!std::ranges::all_of(outputs, alike) || dims[1] % block != 0 || dims[1] == 0) return false;
  return std::ranges::all_of(inputs, [&](const Input& input) {
    if (!input.present || input.desc.rank() <= 1) return !input.present || input.constant != nullptr;
    return input.constant == nullptr && alike(input.desc);
  });
}

TensorDesc blocks_as_samples(const TensorDesc& desc) {
  const std::int64_t block = desc.channel_block;
  if (block == 1) return desc;
  Dims dims = desc.dims;
  dims[0] *= dims[1] / block;
  dims[1] = block;
  TensorDesc made = TensorDesc::packed(desc.type, std::move(dims), Layout::nhwc);
  made.alignment = desc.alignment;
  return made;
}

Result<std::unique_ptr<OpPlan>> plan_as_laid_out(const OperatorRow& row, const NodeDesc& node,
                                                 std::vector<Input> inputs, std::vector<TensorDesc> outputs,
                                                 const PlanRequest& request) {
  const auto blocked = [](const TensorDesc& desc) { return desc.channel_block > 1; };
  Layout layout = Layout::nchw;
  for (const Input& input : inputs) {
    if (input.present && blocked(input.desc)) layout = input.desc.layout();
  }
  if (row.layouts(node, inputs, layout) == Taken::as_samples) {
    for (Input& input : inputs) input.desc = blocks_as_samples(input.desc);
    for (TensorDesc& output : outputs) output = blocks_as_samples(output);
  }
  return row.implementation->plan(node, inputs, outputs, request);
}

bool fills_blocks(const TensorDesc& desc, std::int64_t block) {
  return desc.rank() >= 3 && desc.rank() <= 5 && desc.dims[1] > 0 && desc.dims[1] % block == 0;
}

TensorDesc blocks_as_dim(const TensorDesc& desc, std::int64_t block) {
  TensorDesc made = desc;
  made.channel_block = 1;
  made.dims[1] /= block;
  made.dims.push_back(block);
  made.strides.push_back(desc.channel_block == 1 ? desc.strides[1] : 1);
  if (desc.channel_block == 1) made.strides[1] *= block;
  return made;
}

}  // namespace convoy::ops
