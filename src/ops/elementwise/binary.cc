#include "ops/elementwise/binary.h"

#include <fmt/format.h>

namespace convoy::ops {

Result<TensorDesc> broadcast_operand(const NodeDesc& node, std::span<const Input> inputs, int index) {
  TensorDesc desc = inputs[index].desc;
  if (index == 0 || node.opset >= 7 || !node.domain.empty() || desc.rank() == 0) return desc;
  CONVOY_TRY(const std::int64_t broadcast, node.integer("broadcast", 0));
  if (broadcast == 0) return desc;
  const int rank = inputs[0].desc.rank();
  CONVOY_TRY(const std::int64_t given, node.integer("axis", rank - desc.rank()));
  CONVOY_TRY(const int axis, normalize_axis(node, given, rank, "axis", 1));
  if (axis + desc.rank() > rank) {
    return bad_node(
        node, fmt::format("axis={}: input {} of rank {} does not fit into rank {}", axis, index, desc.rank(), rank));
  }
  desc.dims.resize(rank - axis, 1);
  desc.strides.resize(rank - axis, 1);
  return desc;
}

Result<Dims> broadcast_inputs(const NodeDesc& node, std::span<const Input> inputs) {
  std::vector<Dims> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CONVOY_TRY(const TensorDesc desc, broadcast_operand(node, inputs, static_cast<int>(i)));
    shapes.push_back(desc.dims);
  }
  return broadcast_dims(node, shapes);
}

std::optional<FewChannels> few_channels(const TensorDesc& y, const TensorDesc& a, const TensorDesc& b) {
  if (y.rank() < 3 || y.elements() == 0 || y.dims[1] < 2 || y.dims[1] > kMostFewChannels) return std::nullopt;
  if (a.dims != y.dims || !a.is_packed(Layout::nhwc) || !y.is_packed(Layout::nhwc)) return std::nullopt;
  if (b.rank() != y.rank() || b.dims[1] != y.dims[1] || b.strides[1] != 1) return std::nullopt;
  if (b.dims[0] != 1 && b.dims[0] != y.dims[0]) return std::nullopt;
  if (b.elements() != b.dims[0] * b.dims[1]) return std::nullopt;
  return FewChannels{y.dims[1], y.elements() / (y.dims[0] * y.dims[1]), b.dims[0] == 1 ? 0 : b.strides[0]};
}

}  // namespace convoy::ops
