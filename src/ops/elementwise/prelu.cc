// PRelu: y = x < 0 ? slope * x : x, the slope broadcasting to x.
#include <fmt/format.h>

#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

class PRelu final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_same_type(node, inputs));
    const TensorDesc& x = inputs[0].desc;
    const Dims shapes[] = {x.dims, slope_operand(node, inputs).dims};
    CONVOY_TRY(const Dims dims, broadcast_dims(node, shapes));
    if (dims != x.dims) {
      return bad_node(node, fmt::format("input 1 (slope) with dims [{}] does not broadcast to input 0 with [{}]",
                                        to_string(inputs[1].desc.dims), to_string(x.dims)));
    }
    return one_output(node, x.type, x.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const ElementRule rule{kMathNumeric, 2, [](Description& d) { return elements::leaky(d.input(0), d.input(1)); }};
    CONVOY_TRY(const ElementFunction function, ElementFunction::of(rule, node, outputs[0].type, 2));
    return element_plan(node, function, false, {inputs[0].desc, slope_operand(node, inputs)}, outputs[0], request);
  }

 private:
  // Before opset 7 a slope of one dim is one value a channel (or one for all).
  static TensorDesc slope_operand(const NodeDesc& node, std::span<const Input> inputs) {
    TensorDesc slope = inputs[1].desc;
    const TensorDesc& x = inputs[0].desc;
    if (node.opset < 7 && slope.rank() == 1 && x.rank() > 2 && slope.dims[0] == x.dims[1]) {
      slope.dims.resize(x.rank() - 1, 1);
      slope.strides.resize(x.rank() - 1, 1);
    }
    return slope;
  }
};

const PRelu op_PRelu;

}  // namespace

std::vector<OperatorRow> prelu_rows() {
  return {{"PRelu", &op_PRelu, images::element_wise, Rate::elements, values::mapped_two, in_place::first,
           layouts::plain, kMathNumeric}};
}

}  // namespace convoy::ops
