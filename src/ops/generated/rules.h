// What rules of operators are written with, and where each family's stand.
#pragma once

#include "ops/generated/describe.h"
#include "ops/support.h"

namespace convoy::ops::generated {

using generate::Computation;
using generate::Coordinate;
using generate::Expression;
using generate::Fold;
using generate::Load;
using generate::Store;
using generate::Subscript;
using generate::Value;
namespace elements = generate::elements;

using Rule = Result<Computation> (*)(const Described&);
struct NamedRule {
  std::string_view op;
  Rule rule;
  std::string_view domain = {};
};

constexpr std::string_view kMicrosoft = "com.microsoft";

std::span<const NamedRule> elementwise_rules();
std::span<const NamedRule> pooling_rules();
std::span<const NamedRule> reduction_rules();
std::span<const NamedRule> movement_rules();
std::span<const NamedRule> product_rules();
std::span<const NamedRule> quantized_rules();
std::span<const NamedRule> resize_rules();
std::span<const NamedRule> grid_sample_rules();
std::span<const NamedRule> top_k_rules();

// Of any operator that is a function of elements.
Result<Computation> element_computation(const Described& d);

// Of any operator that has index maps.
Result<Computation> map_computation(const Described& d);

// What elements of a type are computed in: 16-bit floats in f32.
DataType computed_in(DataType type);
// What elements that are only moved are moved as.
DataType moved_as(DataType type);
TensorDesc as_type(TensorDesc desc, DataType type);

// y[i] = value of the inputs at i, which broadcast to it.
Computation mapped(DataType type, const std::vector<std::pair<int, TensorDesc>>& operands, const TensorDesc& y,
                   Expression value);

// A scale and a zero point, of which there may be none, by the numbers of their loads.
struct Quantizer {
  int scale = -1, zero = -1;

  // Of one element each: added to the loads.
  static Quantizer load(Computation& made, const Described& d, int scale, int zero);
  // What the value stands for, and what stands for a real number in a type of 8 or 16 bits.
  Value real(const Value& value, const auto& in) const { return (zero < 0 ? value : value - in(zero)) * in(scale); }
  Value quantized(const Value& real, const auto& in, DataType type) const {
    const Value steps = elements::round(real / in(scale));
    return saturated(zero < 0 ? steps : steps + in(zero), type);
  }
  static Value saturated(const Value& value, DataType type);
};

Error no_kernel(const Described& d, const std::string& why);

}  // namespace convoy::ops::generated
