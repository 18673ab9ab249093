// Identity, BitCast, and Dropout as inference sees it: the output is the input, the mask all ones.
#include <fmt/format.h>

#include <cstring>

#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

Result<void> copy_bytes(const void* from, void* to, std::int64_t bytes, const ExecContext& context) {
  if (from == to) return {};
  parallel_for(context, bytes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
  });
  return {};
}

// A copy that also changes the layout, where a constant arrives in one layout and leaves in another.
Result<void> copy_elements(const BroadcastLoop& loop, std::size_t bytes, const void* from, void* to,
                           const ExecContext& context) {
  dispatch_bytes(bytes, [&]<class T>(Tag<T>) {
    parallel_for(context, loop.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
      loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          static_cast<T*>(to)[at[0] + i * loop.inner_stride(0)] =
              static_cast<const T*>(from)[at[1] + i * loop.inner_stride(1)];
        }
      });
    });
  });
  return {};
}

class Identity : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  bool accepts(const NodeDesc&, std::span<const Input> inputs, Layout layout) const override {
    return is_plain(layout) || (layout != Layout::strided && inputs[0].constant == nullptr);
  }
  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc& x = inputs[0].desc;
    if (x.strides == outputs[0].strides && x.channel_block == outputs[0].channel_block) {
      return make_plan(
          node, [bytes = x.bytes()](std::span<const void* const> in, std::span<void* const> out,
                                    const ExecContext& context) { return copy_bytes(in[0], out[0], bytes, context); });
    }
    return make_plan(node,
                     [loop = BroadcastLoop({outputs[0], x}), bytes = size_of(x.type)](
                         std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) {
                       return copy_elements(loop, bytes, in[0], out[0], context);
                     });
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

class Dropout final : public Operator {
 public:
  // Training mode is an input since opset 12, and with it the ratio; both decide whether the node can be planned.
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 12 ? std::vector<int>{1, 2} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, node.opset >= 12 ? 3 : 1, 2));
    CONVOY_CHECK(check_type(node, inputs, 0, kFloats));
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

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }
  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc});
    return make_plan(
        node,
        [loop, outputs = std::vector<TensorDesc>(outputs.begin(), outputs.end())](
            std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
          if (out.size() > 1 && out[1] != nullptr) {
            dispatch<kAnyType>(outputs[1].type, [&]<class T>(Tag<T>) {
              std::fill_n(static_cast<T*>(out[1]), outputs[1].elements(), T(1));
            });
          }
          if (in[0] == out[0]) return {};
          return copy_elements(loop, size_of(outputs[0].type), in[0], out[0], context);
        });
  }
};

const BitCast op_BitCast;
const Identity op_Identity;
const Dropout op_Dropout;

}  // namespace

std::vector<OperatorRow> identity_rows() {
  return {{"BitCast", &op_BitCast, images::element_wise, Rate::moves, values::mixed},
          {"Identity", &op_Identity, images::element_wise, Rate::moves, values::moved},
          {"Dropout", &op_Dropout, images::one_output, Rate::moves, values::mixed}};
}

}  // namespace convoy::ops
