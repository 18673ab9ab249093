// QuantizeLinear and DequantizeLinear with a scale a tensor or a slice of an axis.
#include "ops/generated/rules.h"

namespace convoy::ops::generated {
namespace {

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
  const double steps = size_of(type) == 1 ? 255 : 65535;
  const double least = contains(kUnsignedIntegers, type) ? 0 : -(steps + 1) / 2;
  return mapped(quotients_in(d.inputs[0].desc.type), operands, d.outputs[0], written([&](auto in) {
                  Value y = elements::round(in(0) / in(1));
                  if (operands.size() > 2) y = y + in(2);
                  return elements::min(elements::max(y, least), least + steps);
                }));
}

Result<Computation> dequantize(const Described& d) {
  CONVOY_TRY(const auto operands, operands_of(d));
  return mapped(quotients_in(d.inputs[0].desc.type), operands, d.outputs[0],
                written([&](auto in) { return (operands.size() > 2 ? in(0) - in(2) : in(0)) * in(1); }));
}

constexpr NamedRule kQuantizedRules[] = {{"QuantizeLinear", quantize}, {"DequantizeLinear", dequantize}};

}  // namespace

std::span<const NamedRule> quantized_rules() { return kQuantizedRules; }

}  // namespace convoy::ops::generated
