// Element-wise operators: each element of y is one function of the elements of broadcasting operands. A row says what
// the function is, as an expression of the node's attributes; infer, plans for every type and instruction set, and the
// text for CUDA follow from it.
#pragma once

#include <optional>

#include "generate/expression.h"
#include "ops/operator_row.h"
#include "ops/row_functions.h"
#include "ops/support.h"

namespace convoy::ops {

namespace elements = generate::elements;
using generate::Expression;
using generate::Term;
using generate::Value;

struct ElementRule;

// An element's function, and what there is for it besides its steps.
struct ElementFunction {
  Expression expression;
  std::optional<RowFunction> vectors;
  // `inputs`: of a node that has `all` of them (0: no others), in whose last part (`ends`) or another.
  static Result<ElementFunction> of(const ElementRule& rule, const NodeDesc& node, DataType type, int inputs,
                                    int all = 0, bool ends = true);
};

// What a row describes its function with: values, and the node's attributes, which are wrong at most once.
class Description {
 public:
  Description(const NodeDesc& node, DataType type, int inputs, int all = 0, bool ends = true)
      : node_(node), type_(type), inputs_(inputs), all_(all == 0 ? inputs : all), ends_(ends) {}

  Value input(int index = 0) { return {expression_, {Term::input, index}}; }
  int inputs() const { return inputs_; }
  // Of any number of operands, more than a program takes are computed in parts: the first input is then what those
  // before gave.
  int all() const { return all_; }
  bool ends() const { return ends_; }
  bool is_float() const { return contains(kFloats, type_); }
  bool is_unsigned() const { return contains(kUnsignedIntegers, type_); }
  const NodeDesc& node() const { return node_; }
  // An attribute, or its default; an error is kept.
  double real(std::string_view attribute, double fallback) { return kept(node_.real(attribute, fallback)); }
  std::int64_t integer(std::string_view attribute, std::int64_t fallback) {
    return kept(node_.integer(attribute, fallback));
  }
  std::string text(std::string_view attribute, std::string_view fallback) {
    return kept(node_.text(attribute, fallback));
  }
  void refuse(const std::string& what) { error_ = bad_node(node_, what); }
  // Vectors of f32 and halves have all of it as one function, which is faster than its steps and near them.
  void has_vectors(RowFunction function) { function_ = function; }
  // What has been described, ending in `result`.
  ElementFunction function(const Value& result) &&;
  const std::optional<Error>& error() const { return error_; }

 private:
  template <class T>
  T kept(Result<T> value) {
    if (value.ok()) return *std::move(value);
    error_ = value.error();
    return T{};
  }

  const NodeDesc& node_;
  DataType type_;
  int inputs_, all_;
  bool ends_;
  Expression expression_;
  std::optional<RowFunction> function_;
  std::optional<Error> error_;
};

// One operator of the family.
struct ElementRule {
  TypeSet types;
  int operands;  // 0: any number
  Value (*describe)(Description& d);
  bool to_bool = false;
  bool in_f64 = false;  // integers are computed as reals, cut off towards 0
};

class ElementwiseOperator final : public Operator {
 public:
  constexpr explicit ElementwiseOperator(const ElementRule& rule) : rule_(rule) {}
  const ElementRule& rule() const { return rule_; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override;
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override;

 private:
  ElementRule rule_;
};

// Its row: what follows from its being element-wise needs no saying.
inline OperatorRow element_row(std::string_view name, const ElementwiseOperator& op, Rate rate, GivenValues values) {
  const InPlaceRule in_place = op.rule().to_bool ? in_place::never : in_place::first;
  return {name, &op, images::element_wise, rate, values, in_place, layouts::channels_alike, op.rule().types};
}

// y = the expression of operands that broadcast to it, `operands` as they do (broadcast_operand).
Result<std::unique_ptr<OpPlan>> element_plan(const NodeDesc& node, const ElementFunction& function, bool in_f64,
                                             std::vector<TensorDesc> operands, const TensorDesc& y,
                                             const PlanRequest& request);

// y = function(x), of an operator over groups that have one element each: what it is of these.
Result<std::unique_ptr<OpPlan>> plan_of_singles(const NodeDesc& node, const TensorDesc& x, const TensorDesc& y,
                                                Value (*function)(const Value& x), const PlanRequest& request);

// Operand `index` as it broadcasts to `rank` dims. Before opset 7 the second operand's dims were matched from `axis`
// on (default: the last ones), only with broadcast=1: its desc gets the trailing ones that make it right-aligned.
Result<TensorDesc> broadcast_operand(const NodeDesc& node, std::span<const Input> inputs, int index);

// The dims that all operands broadcast to.
Result<Dims> broadcast_inputs(const NodeDesc& node, std::span<const Input> inputs);

}  // namespace convoy::ops
