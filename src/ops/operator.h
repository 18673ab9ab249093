// Operators of a network that are not convolutions: one file an operator (or a family that shares one loop), one row
// each in table.cc. They share Plan with convolutions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "convoy/engine.h"
#include "convoy/host_tensor.h"

namespace convoy::ops {

using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>, HostTensor>;

// A node as ONNX means it, free of the protobuf.
struct NodeDesc {
  std::string op;      // "MaxPool"
  std::string domain;  // "" is ONNX's own
  std::string name;
  int opset = 13;  // version of `domain` the model imports
  std::map<std::string, Attribute> attributes;
  int output_count = 1;

  // Typed access with a default; a wrong type or an attribute given as another kind is an error that names it.
  Result<std::int64_t> integer(std::string_view attribute, std::int64_t fallback) const;
  Result<double> real(std::string_view attribute, double fallback) const;
  Result<std::string> text(std::string_view attribute, std::string_view fallback) const;
  Result<std::vector<std::int64_t>> integers(std::string_view attribute, std::vector<std::int64_t> fallback) const;
  Result<std::vector<double>> reals(std::string_view attribute, std::vector<double> fallback) const;
  bool has(std::string_view attribute) const { return attributes.contains(std::string(attribute)); }
};

// What is known of an input when a node is inferred and planned.
struct Input {
  bool present = false;            // optional inputs may be absent
  TensorDesc desc;                 // dims are concrete; the layout is the one it will arrive in
  const void* constant = nullptr;  // its values (in desc's layout) when they are known now and never change
};

class OpPlan : public Plan {
 public:
  // One pointer per input of the node (null where absent) and per output, laid out as planned.
  virtual Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                               const ExecContext& context) const = 0;
};

// Made by the compiler and never destroyed: networks are run before main and after it, too. So whoever has parameters
// has a constexpr constructor.
class Operator {
 public:
  // Inputs whose *values* (not only shapes) decide the output shapes, by index: Reshape {1}. When one is not constant,
  // the executor infers and plans this node at run time, with the values at hand as `constant`.
  virtual std::vector<int> shape_inputs(const NodeDesc&) const { return {}; }

  // The outputs follow from the inputs' shapes alone (Shape, Size): the node is folded without running its inputs.
  virtual bool folds_from_shapes() const { return false; }

  // Checks attributes, input count and types (the first one's: OperatorRow::infer, which is what others call) and
  // returns the outputs' types and dims (packed nchw). Errors name the attribute or input at fault with its value;
  // sizes that overflow 63 bits are refused.
  virtual Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const = 0;

  // `outputs` as infer gave them, in the layout chosen. Called after infer succeeded.
  virtual Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                               std::span<const TensorDesc> outputs,
                                               const PlanRequest& request) const = 0;

 protected:
  ~Operator() = default;
};

// The operator for a node, or null: unknown.
const Operator* find_operator(std::string_view domain, std::string_view op);
// Every operator name there is, sorted.
std::vector<std::string> operator_names();

}  // namespace convoy::ops
