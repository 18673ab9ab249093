// CenterCropPad: each named axis cropped, or padded with zeros, to a size; what an odd difference leaves over is cut
// off or added at the end.
#include <fmt/format.h>

#include <numeric>

#include "ops/movement/map_copy.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

class CenterCropPad final : public MapOperator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
    const Dims& dims = inputs[0].desc.dims;
    std::vector<int> axes(dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    if (node.has("axes")) {
      CONVOY_TRY(const Dims given, node.integers("axes", {}));
      CONVOY_TRY(axes, normalize_axes(node, given, static_cast<int>(dims.size())));
    }
    CONVOY_TRY(const Dims shape, constant_integers(node, inputs, 1));
    if (shape.size() != axes.size()) {
      return bad_node(node, fmt::format("input 1 (shape) has {} entries for {} axes", shape.size(), axes.size()));
    }
    Dims out = dims;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (shape[i] < 0) return bad_node(node, fmt::format("input 1 (shape) has a negative dim: {}", shape[i]));
      out[axes[i]] = shape[i];
    }
    return one_output(node, inputs[0].desc.type, std::move(out));
  }
};

std::vector<IndexMap> map_of_center_crop_pad(const NodeDesc&, std::span<const Input> inputs,
                                             std::span<const TensorDesc> outputs) {
  std::vector<Index> indices;
  for (int d = 0; d < inputs[0].desc.rank(); ++d) {
    const std::int64_t x = inputs[0].desc.dims[d], y = outputs[0].dims[d];
    indices.push_back({x >= y ? (x - y) / 2 : -((y - x) / 2), {{d}}});
  }
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

const CenterCropPad center_crop_pad;

}  // namespace

std::vector<OperatorRow> center_crop_pad_rows() {
  return {{"CenterCropPad", &center_crop_pad, images::mixed, Rate::moves, values::joined_by(map_of_center_crop_pad),
           in_place::never, layouts::plain, kEveryType}};
}

}  // namespace convoy::ops
