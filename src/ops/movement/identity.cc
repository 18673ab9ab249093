// Identity, BitCast, and Dropout as inference sees it: the output is the input, the mask all ones.
#include <fmt/format.h>

#include "ops/movement/map_copy.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

class Identity : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    if (x.strides == y.strides && x.channel_block == y.channel_block) return plan_of_bytes(node, x.bytes());
    return plan_of_copy(node, StridedCopy(size_of(x.type), y.dims, x.strides, y.strides));
  }
};

// The same bits as another type of as many.
class BitCast final : public Identity {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    if (!node.has("to")) return bad_node(node, "attribute 'to' is required");
    CONVOY_TRY(const std::int64_t number, node.integer("to", 0));
    CONVOY_TRY(const DataType to, data_type_of_onnx(node, number, "to"));
    const DataType from = inputs[0].desc.type;
    const auto is_small = [](DataType type) { return contains(kStoredIntegers, type) || type == DataType::f4_e2m1; };
    // Those are here a byte each, whose other bits follow from the type.
    if (from != to && (is_small(from) || is_small(to))) {
      return Error{ErrorCode::unsupported, "BitCast of types of less than 8 bits is not supported"};
    }
    if (to == DataType::boolean && from != to) {
      return Error{ErrorCode::unsupported, "BitCast to bool is not supported: bytes other than 0 and 1 are none"};
    }
    if (size_of(from) != size_of(to)) {
      return bad_node(node,
                      fmt::format("to={} has not as many bits as input 0, which is {}", name_of(to), name_of(from)));
    }
    return one_output(node, to, inputs[0].desc.dims);
  }
};

class Dropout final : public MapOperator {
 public:
  // Training mode is an input since opset 12, and with it the ratio; both decide whether the node can be planned.
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 12 ? std::vector<int>{1, 2} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, node.opset >= 12 ? 3 : 1, 2));
    if (is_present(inputs, 2)) {
      CONVOY_TRY(const std::vector<std::int64_t> training, constant_integers(node, inputs, 2));
      double ratio = 0.5;
      if (is_present(inputs, 1)) {
        CONVOY_TRY(const std::vector<double> ratios, constant_reals(node, inputs, 1));
        if (ratios.size() != 1) return bad_node(node, "input 1 (ratio) must be a scalar");
        ratio = ratios[0];
      }
      if (training.size() != 1) return bad_node(node, "input 2 (training_mode) must be a scalar");
      if (training[0] != 0 && ratio != 0) {
        return Error{
            ErrorCode::unsupported,
            fmt::format("Dropout: training_mode=1 with ratio={} drops at random; only inference is run", ratio)};
      }
    }
    CONVOY_TRY(TensorDesc y, make_output(node, inputs[0].desc.type, inputs[0].desc.dims));
    std::vector<TensorDesc> outputs = {y};
    if (node.output_count > 1) {
      CONVOY_TRY(TensorDesc mask, make_output(node, node.opset >= 10 ? DataType::boolean : y.type, y.dims));
      outputs.push_back(mask);
    }
    return outputs;
  }
};

Taken layouts_of_identity(const NodeDesc&, std::span<const Input> inputs, Layout layout) {
  return layouts::where(is_plain(layout) || (layout != Layout::strided && inputs[0].constant == nullptr));
}

std::vector<IndexMap> maps_of_dropout(const NodeDesc& node, std::span<const Input> inputs,
                                      std::span<const TensorDesc> outputs) {
  std::vector<IndexMap> maps = maps::broadcast(node, inputs, outputs);
  if (outputs.size() > 1) maps.push_back({.dims = outputs[1].dims, .sources = {}, .fill = 1});  // the mask
  return maps;
}

const BitCast op_BitCast;
const Identity op_Identity;
const Dropout op_Dropout;

}  // namespace

std::vector<OperatorRow> identity_rows() {
  return {{"BitCast", &op_BitCast, images::element_wise, Rate::moves, values::mixed, in_place::first,
           layouts_of_identity, kEveryType},
          {"Identity", &op_Identity, images::element_wise, Rate::moves, values::moved_by(maps::broadcast),
           in_place::first, layouts_of_identity, kEveryType},
          {"Dropout", &op_Dropout, images::one_output, Rate::moves, values::joined_by(maps_of_dropout), in_place::first,
           layouts::plain, kFloats}};
}

}  // namespace convoy::ops
