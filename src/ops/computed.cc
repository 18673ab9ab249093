#include "ops/computed.h"

#include <fmt/format.h>

#include <cstring>

#include "ops/support.h"

namespace convoy::ops {

Result<std::vector<TensorDesc>> ComputedOperator::infer(const NodeDesc& node, std::span<const Input> inputs) const {
  for (const int i : shape_inputs(node)) {
    if (!is_present(inputs, i) || inputs[i].constant != nullptr || inputs[i].desc.elements() == 0) continue;
    return Error{ErrorCode::unsupported,
                 fmt::format("{}: input {} must be known before the node is planned", node.op, i)};
  }
  CONVOY_TRY(const std::vector<HostTensor> made, compute(node, inputs, HostTensor::allocate));
  std::vector<TensorDesc> descs;
  for (const HostTensor& output : made) descs.push_back(output.desc);
  return descs;
}

Result<std::unique_ptr<OpPlan>> ComputedOperator::plan(const NodeDesc& node, std::span<const Input> inputs,
                                                       std::span<const TensorDesc>, const PlanRequest&) const {
  CONVOY_TRY(std::vector<HostTensor> made, compute(node, inputs, HostTensor::allocate));
  return make_plan(node,
                   [made = std::move(made)](std::span<const void* const>, std::span<void* const> out,
                                            const ExecContext&) -> Result<void> {
                     for (std::size_t k = 0; k < out.size(); ++k) {
                       if (out[k] == nullptr) continue;
                       std::memcpy(out[k], made[k].data.get(), static_cast<std::size_t>(made[k].desc.bytes()));
                     }
                     return {};
                   });
}

}  // namespace convoy::ops
