// QuantizeLinear and DequantizeLinear with a scale a tensor or a slice of an axis, and operators on quantized tensors.
#include <algorithm>

#include "ops/generated/rules.h"

namespace convoy::ops::generated {
namespace {

using generate::Function;
using generate::written;

// x, scale and zero point as operands: one dim of these is x's axis.
Result<std::vector<std::pair<int, TensorDesc>>> operands_of(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  CONVOY_TRY(const std::int64_t block, d.node.integer("block_size", 0));
  if (block != 0) return no_kernel(d, "block_size");
  std::vector<std::pair<int, TensorDesc>> operands{{0, x}};
  for (const int i : {1, 2}) {
    if (!is_present(d.inputs, i)) continue;
    TensorDesc each = d.inputs[static_cast<std::size_t>(i)].desc;
    if (each.elements() == 1) {
      each.dims.clear();
      each.strides.clear();
    } else {
      CONVOY_TRY(const std::int64_t given, d.node.integer("axis", 1));
      CONVOY_TRY(const int axis, normalize_axis(d.node, given, x.rank(), "axis"));
      each.dims.resize(static_cast<std::size_t>(x.rank() - axis), 1);
      each.strides.resize(static_cast<std::size_t>(x.rank() - axis), 1);
    }
    operands.emplace_back(i, std::move(each));
  }
  return operands;
}

// The quotient of 32-bit integers is told in f64.
DataType quotients_in(DataType type) { return type == DataType::s32 ? DataType::f64 : DataType::f32; }

Result<Computation> quantize(const Described& d) {
  const DataType type = d.outputs[0].type;
  if (!is_integer(type) || size_of(type) > 2) return no_kernel(d, "an output that is no integer of 8 or 16 bits");
  CONVOY_TRY(const auto operands, operands_of(d));
  return mapped(quotients_in(d.inputs[0].desc.type), operands, d.outputs[0], written([&](auto in) {
                  Value y = elements::round(in(0) / in(1));
                  if (operands.size() > 2) y = y + in(2);
                  return Quantizer::saturated(y, type);
                }));
}

Result<Computation> dequantize(const Described& d) {
  CONVOY_TRY(const auto operands, operands_of(d));
  return mapped(quotients_in(d.inputs[0].desc.type), operands, d.outputs[0],
                written([&](auto in) { return (operands.size() > 2 ? in(0) - in(2) : in(0)) * in(1); }));
}

// y, scale and zero point such that the range of x with 0 in it covers 0 to 255. A NaN is passed over.
Result<Computation> dynamic_quantize(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  const int rank = x.rank();
  Computation made{.type = DataType::f32, .kept = {}, .folded = x.dims, .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, Subscript::broadcast(x, rank)});
  const auto further = [](bool up) {
    return written([&](auto in) { return elements::select(up ? in(0) < in(1) : in(1) < in(0), in(1), in(0)); });
  };
  made.folds.push_back({further(false), 0, generate::itself(0), {}});
  made.folds.push_back({further(true), 0, generate::itself(0), {}});
  const auto scale = [](auto in) {
    return elements::select(elements::equal(in(1), in(2)), 1.0, (in(2) - in(1)) / 255.0);
  };
  const auto zero = [&](auto in) { return Quantizer::saturated(elements::round(-in(1) / scale(in)), DataType::u8); };
  made.stores.push_back({0, Subscript::broadcast(d.outputs[0], rank), written([&](auto in) {
                           return Quantizer::saturated(elements::round(in(0) / scale(in)) + zero(in), DataType::u8);
                         })});
  if (d.outputs.size() > 1) made.stores.push_back({1, {d.outputs[1], {}}, written(scale)});
  if (d.outputs.size() > 2) made.stores.push_back({2, {d.outputs[2], {}}, written(zero)});
  return made;
}

// Two operands that broadcast, `join`ed as real numbers.
template <Function join>
Result<Computation> qlinear_binary(const Described& d) {
  const TensorDesc& y = d.outputs[0];
  Computation made = mapped(DataType::f32, {{0, d.inputs[0].desc}, {3, d.inputs[3].desc}}, y, {});
  const Quantizer a = Quantizer::load(made, d, 1, 2), b = Quantizer::load(made, d, 4, 5);
  const Quantizer to = Quantizer::load(made, d, 6, 7);
  made.stores[0].value =
      written([&](auto in) { return to.quantized(Value::of(join, a.real(in(0), in), b.real(in(1), in)), in, y.type); });
  return made;
}

Result<Computation> qlinear_unary(const Described& d, const auto& function) {
  const TensorDesc& y = d.outputs[0];
  Computation made = mapped(DataType::f32, {{0, d.inputs[0].desc}}, y, {});
  const Quantizer from = Quantizer::load(made, d, 1, 2), to = Quantizer::load(made, d, 3, 4);
  made.stores[0].value = written([&](auto in) { return to.quantized(function(from.real(in(0), in)), in, y.type); });
  return made;
}
Result<Computation> qlinear_leaky_relu(const Described& d) {
  CONVOY_TRY(const double alpha, d.node.real("alpha", 0.01));
  return qlinear_unary(d, [&](const Value& x) { return elements::leaky(x, alpha); });
}
Result<Computation> qlinear_sigmoid(const Described& d) {
  return qlinear_unary(d, [](const Value& x) { return 1.0 / (elements::exp(-x) + 1.0); });
}

// Parts side by side, each with a scale and zero point of its own.
Result<Computation> qlinear_concat(const Described& d) {
  const TensorDesc& y = d.outputs[0];
  CONVOY_TRY(const std::int64_t given, d.node.integer("axis", 0));
  CONVOY_TRY(const int axis, normalize_axis(d.node, given, y.rank(), "axis"));
  Computation made{.type = DataType::f32, .kept = y.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  struct Part {
    int value, inside;
    Quantizer from;
  };
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (int i = 2; i < static_cast<int>(d.inputs.size()); i += 3) {
    const TensorDesc& x = d.inputs[static_cast<std::size_t>(i)].desc;
    Subscript place = Subscript::broadcast(x, y.rank());
    place.coordinates[static_cast<std::size_t>(axis)] = Coordinate::of(axis, 1, -start);
    Part part{static_cast<int>(made.loads.size()), static_cast<int>(made.loads.size()) + 1, {}};
    made.loads.push_back({i, place});
    std::ranges::fill(place.tensor.strides, 0);
    made.loads.push_back({-1, std::move(place)});
    part.from = Quantizer::load(made, d, i + 1, i + 2);
    parts.push_back(part);
    start += x.dims[static_cast<std::size_t>(axis)];
  }
  const Quantizer to = Quantizer::load(made, d, 0, 1);
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), written([&](auto in) {
                           Value real = 0.0 * in(parts[0].inside);
                           for (const Part& part : parts) {
                             real = elements::select(in(part.inside), part.from.real(in(part.value), in), real);
                           }
                           return to.quantized(real, in, y.type);
                         })});
  return made;
}

// Over one axis, or, as before opset 13, over all dims from it on.
Result<Computation> qlinear_softmax(const Described& d) {
  const TensorDesc &x = d.inputs[0].desc, &y = d.outputs[0];
  CONVOY_TRY(const std::int64_t opset, d.node.integer("opset", 13));
  CONVOY_TRY(const std::int64_t given, d.node.integer("axis", opset >= 13 ? -1 : 1));
  CONVOY_TRY(const int axis, normalize_axis(d.node, given, x.rank(), "axis", opset >= 13 ? 0 : 1));
  Computation made{.type = DataType::f32, .kept = {}, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  Subscript from{x, {}}, to{y, {}};
  const auto folds = [&](int i) { return opset >= 13 ? i == axis : i >= axis; };
  for (int i = 0; i < x.rank(); ++i)
    (folds(i) ? made.folded : made.kept).push_back(x.dims[static_cast<std::size_t>(i)]);
  for (int i = 0, kept = 0, folded = static_cast<int>(made.kept.size()); i < x.rank(); ++i) {
    from.coordinates.push_back(Coordinate::of(folds(i) ? folded++ : kept++));
  }
  to.coordinates = from.coordinates;
  made.loads.push_back({0, from});
  const Quantizer given_by = Quantizer::load(made, d, 1, 2), wanted = Quantizer::load(made, d, 3, 4);
  const int largest = static_cast<int>(made.loads.size()), sum = largest + 1;
  made.folds.push_back({generate::of(Function::max), -256, generate::itself(0), {}});
  const auto power = [&](auto in) { return elements::exp(given_by.real(in(0), in) - given_by.real(in(largest), in)); };
  made.folds.push_back({generate::of(Function::add), 0, written(power), {}});
  made.stores.push_back({0, to, written([&](auto in) { return wanted.quantized(power(in) / in(sum), in, y.type); })});
  return made;
}

constexpr NamedRule kQuantizedRules[] = {
    {"QuantizeLinear", quantize},
    {"DequantizeLinear", dequantize},
    {"QuantizeLinear", quantize, kMicrosoft},
    {"DequantizeLinear", dequantize, kMicrosoft},
    {"DynamicQuantizeLinear", dynamic_quantize},
    {"QLinearAdd", qlinear_binary<Function::add>, kMicrosoft},
    {"QLinearMul", qlinear_binary<Function::mul>, kMicrosoft},
    {"QLinearLeakyRelu", qlinear_leaky_relu, kMicrosoft},
    {"QLinearSigmoid", qlinear_sigmoid, kMicrosoft},
    {"QLinearConcat", qlinear_concat, kMicrosoft},
    {"QLinearSoftmax", qlinear_softmax, kMicrosoft},
};

}  // namespace

Quantizer Quantizer::load(Computation& made, const Described& d, int scale, int zero) {
  Quantizer loaded;
  for (const auto& [index, number] : {std::pair{scale, &loaded.scale}, {zero, &loaded.zero}}) {
    if (!is_present(d.inputs, index)) continue;
    TensorDesc one = d.inputs[static_cast<std::size_t>(index)].desc;
    one.dims.clear();
    one.strides.clear();
    *number = static_cast<int>(made.loads.size());
    made.loads.push_back({index, {std::move(one), {}}});
  }
  return loaded;
}

Value Quantizer::saturated(const Value& value, DataType type) {
  const double steps = size_of(type) == 1 ? 255 : 65535;
  const double least = contains(kUnsignedIntegers, type) ? 0 : -(steps + 1) / 2;
  return elements::min(elements::max(value, least), least + steps);
}

std::span<const NamedRule> quantized_rules() { return kQuantizedRules; }

}  // namespace convoy::ops::generated
