// Functions of single elements: those that a rule describes (elementwise.h), and those that are written here.
#include "ops/elementwise/elementwise.h"

#include "ops/generated/rules.h"

namespace convoy::ops::generated {
namespace {

using generate::written;

// Of a bound that is absent there is nothing to compare with.
Result<Computation> clip(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &y = d.outputs[0];
  std::vector<std::pair<int, TensorDesc>> operands{{0, x}};
  Expression value;
  Value v(value, {generate::Term::input, 0});
  for (const bool upper : {false, true}) {
    std::optional<Value> bound;
    const int input = upper ? 2 : 1;
    if (d.node.opset < 11) {
      const char* const name = upper ? "max" : "min";
      CONVOY_TRY(const double given, d.node.real(name, 0));
      if (d.node.has(name)) bound = Value(given);
    } else if (is_present(d.inputs, input)) {
      operands.emplace_back(input, d.inputs[static_cast<std::size_t>(input)].desc);
      bound = Value(value, {generate::Term::input, static_cast<int>(operands.size()) - 1});
    }
    if (!bound) continue;
    v = elements::select(upper ? *bound < v : v < *bound, *bound, v);
  }
  value.result = v.term_in(value);
  for (std::size_t i = 1; i < operands.size(); ++i) operands[i].second.dims.clear(), operands[i].second.strides.clear();
  return mapped(computed_in(x.type), operands, y, std::move(value));
}

Result<Computation> where(const Described& d) {
  const DataType moved = moved_as(d.outputs[0].type);
  return mapped(moved,
                {{0, d.inputs[0].desc}, {1, as_type(d.inputs[1].desc, moved)}, {2, as_type(d.inputs[2].desc, moved)}},
                as_type(d.outputs[0], moved), generate::of(generate::Function::select));
}

Result<Computation> prelu(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  TensorDesc slope = d.inputs[1].desc;
  if (d.node.opset < 7 && slope.rank() == 1 && x.rank() > 2 && slope.dims[0] == x.dims[1]) {  // one a channel
    slope.dims.resize(static_cast<std::size_t>(x.rank()) - 1, 1);
    slope.strides.resize(static_cast<std::size_t>(x.rank()) - 1, 1);
  }
  return mapped(computed_in(x.type), {{0, x}, {1, slope}}, d.outputs[0], generate::of(generate::Function::leaky));
}

// Values pass through the type that the source is computed in, which holds each of them.
Result<Computation> cast(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  return mapped(computed_in(x.type), {{0, x}}, d.outputs[0], generate::itself());
}

// Powers of any type of a base of floats.
Result<Computation> pow(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &exponent = d.inputs[1].desc;
  if (!is_floating(x.type)) return no_kernel(d, "powers of integers");
  std::optional<double> power;
  if (d.inputs[1].constant != nullptr && exponent.elements() == 1) {
    power = load_as_double(exponent.type, d.inputs[1].constant, 0);
  }
  return mapped(computed_in(x.type), {{0, x}, {1, exponent}}, d.outputs[0], written([&](auto in) {
                  return power == 2 ? in(0) * in(0) : power == 3 ? in(0) * in(0) * in(0) : elements::pow(in(0), in(1));
                }));
}

Result<Computation> identity(const Described& d) {
  const DataType moved = moved_as(d.outputs[0].type);
  return mapped(moved, {{0, as_type(d.inputs[0].desc, moved)}}, as_type(d.outputs[0], moved), generate::itself());
}

Result<Computation> dropout(const Described& d) {
  if (d.outputs.size() > 1) return no_kernel(d, "its mask is asked for");
  if (is_present(d.inputs, 2)) return no_kernel(d, "training_mode is an input");
  return identity(d);
}

// y = scale * (x - mean) / sqrt(variance + epsilon) + bias.
Result<Computation> batch_normalization(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const double epsilon, d.node.real("epsilon", 1e-5));
  CONVOY_TRY(const std::int64_t training, d.node.integer("training_mode", 0));
  CONVOY_TRY(const std::int64_t spatial, d.node.integer("spatial", 1));
  if (training != 0 || d.outputs.size() > 1) return no_kernel(d, "training_mode=1");
  if (spatial == 0) return no_kernel(d, "spatial=0");
  std::vector<std::pair<int, TensorDesc>> operands{{0, x}};
  for (int i = 1; i < 5; ++i) {
    TensorDesc each = d.inputs[static_cast<std::size_t>(i)].desc;
    if (x.rank() > 2) {
      each.dims.resize(static_cast<std::size_t>(x.rank()) - 1, 1);
      each.strides.resize(static_cast<std::size_t>(x.rank()) - 1, 1);
    }
    if (x.rank() < 2) return no_kernel(d, "an input without channels");
    operands.emplace_back(i, each);
  }
  CONVOY_TRY(const double least, d.node.real("least", 0));
  CONVOY_TRY(const double most, d.node.real("most", 0));
  Expression value = written([&](auto in) {
    Value y = (in(0) - in(3)) * (in(1) / elements::sqrt(in(4) + epsilon)) + in(2);
    if (d.node.has("least")) y = elements::select(y < Value(least), least, y);
    if (d.node.has("most")) y = elements::select(Value(most) < y, most, y);
    return y;
  });
  return mapped(computed_in(x.type), operands, d.outputs[0], std::move(value));
}

constexpr NamedRule kElementwiseRules[] = {
    {"Clip", clip},       {"Where", where},   {"PRelu", prelu},
    {"Cast", cast},       {"CastLike", cast}, {"Identity", identity},
    {"Dropout", dropout}, {"Pow", pow},       {"BatchNormalization", batch_normalization},
};

}  // namespace

Result<Computation> element_computation(const Described& d) {
  const ElementRule& rule = dynamic_cast<const ElementwiseOperator&>(d.op).rule();
  const DataType type = d.inputs[0].desc.type;
  if (rule.in_f64 && !is_floating(type)) return no_kernel(d, "integers are computed as reals");
  const int count = static_cast<int>(d.inputs.size());
  CONVOY_TRY(ElementFunction function, ElementFunction::of(rule, d.node, computed_in(type), count));
  std::vector<std::pair<int, TensorDesc>> operands;
  for (int i = 0; i < count; ++i) {
    CONVOY_TRY(TensorDesc operand, broadcast_operand(d.node, d.inputs, i));
    operands.emplace_back(i, std::move(operand));
  }
  return mapped(computed_in(type), operands, d.outputs[0], std::move(function.expression));
}

std::span<const NamedRule> elementwise_rules() { return kElementwiseRules; }

}  // namespace convoy::ops::generated
