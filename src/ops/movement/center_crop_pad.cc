// CenterCropPad: each named axis cropped, or padded with zeros, to a size; what an odd difference leaves over is cut
// off or added at the end.
#include <fmt/format.h>

#include <numeric>

#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

class CenterCropPad final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }
  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }

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

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc& x = inputs[0].desc;
    const TensorDesc& y = outputs[0];
    CONVOY_CHECK(check_mappable(node, y));
    MappedCopy copy(x, y, [&](int d, std::int64_t i) -> std::int64_t {
      const std::int64_t at =
          x.dims[d] >= y.dims[d] ? i + (x.dims[d] - y.dims[d]) / 2 : i - (y.dims[d] - x.dims[d]) / 2;
      return at >= 0 && at < x.dims[d] ? at : -1;
    });
    return make_plan(node, [copy](auto in, auto out, const ExecContext& context) -> Result<void> {
      constexpr std::uint64_t kZero = 0;
      copy.run(in[0], out[0], &kZero, context);
      return {};
    });
  }
};

const CenterCropPad center_crop_pad;

}  // namespace

std::vector<OperatorRow> center_crop_pad_rows() {
  return {{"CenterCropPad", &center_crop_pad, images::mixed, Rate::moves, values::mixed}};
}

}  // namespace convoy::ops
