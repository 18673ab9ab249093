// Composite operators: those that mean several others, like what ONNX Runtime's optimizer writes (domain com.microsoft)
// and ONNX's own that it defines by others. A file of `composites/` puts a family of them in terms of ONNX's operators
// once the types and dims of their inputs are known; everything behind the pass `expansion` sees only those.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// A node being expanded: its inputs, and the nodes that take its place, which are inferred as they are added. Value ids
// are the graph's.
class Expansion {
 public:
  Expansion(Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const ops::NodeDesc& node() const { return node_.desc; }
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  int input(int index) const { return index < inputs() ? node_.inputs[index] : kAbsent; }
  bool has(int index) const { return input(index) != kAbsent; }
  bool wants(int output) const;

  // Copies: values move when some are added.
  Dims dims(int value) const { return graph_.values[value].desc.dims; }
  int rank(int value) const { return graph_.values[value].desc.rank(); }
  DataType type(int value) const { return graph_.values[value].desc.type; }
  std::optional<HostTensor> constant(int value) const;

  // "node 'x' (FusedConv): <text>"
  Error bad(const std::string& text) const;
  // Inputs from `least` to `most` are there, the first `least` of them present.
  Result<void> check_inputs(int least, int most) const;
  // Input `index` has this rank, and its dims where they are not negative. `what` is the input's name.
  Result<void> check_dims(int index, std::string_view what, const Dims& dims) const;

  using Attributes = std::map<std::string, ops::Attribute>;
  // A node behind those before: of ONNX, as opset 21 has it.
  Result<int> add(const std::string& op, std::vector<int> inputs, Attributes attributes = {});
  Result<std::vector<int>> add_many(const std::string& op, std::vector<int> inputs, Attributes attributes, int outputs);
  // A node with all about it given (domain, opset, attributes).
  Result<int> add(ops::NodeDesc desc, std::vector<int> inputs);

  Result<int> scalar(DataType type, double value);
  Result<int> integers(const std::vector<std::int64_t>& values);  // s64, of one dim
  int constant_value(HostTensor tensor);

  // What many of them are made of.
  Result<int> reshape(int value, const Dims& dims);
  Result<int> transpose(int value, const std::vector<std::int64_t>& order);
  Result<int> cast(int value, DataType type);  // the value itself where it has the type
  Result<int> slice(int value, int axis, std::int64_t from, std::int64_t to);
  Result<int> scaled(int value, double factor);  // the value itself where that is 1

  // Output `index` of the node is this value.
  void give(int index, int value) { given_.emplace_back(index, value); }

  // The nodes, with the values that were given under the ids of the node's outputs.
  Result<std::vector<Node>> finish();

 private:
  Result<std::vector<int>> append(ops::NodeDesc desc, std::vector<int> inputs, int outputs);

  Graph& graph_;
  const Node& node_;
  std::vector<Node> nodes_;
  std::vector<std::pair<int, int>> given_;  // output, value
};

struct Composite {
  std::string_view op;
  Result<void> (*expand)(Expansion&);
  std::string_view domain = "com.microsoft";
  // Inputs, by index, that must be constant before it can be expanded.
  std::span<const int> constants = {};
};

// Null: the operator is none.
const Composite* find_composite(std::string_view domain, std::string_view op);
std::vector<std::string> composite_names();

// Types and dims of the node's outputs, which go into the graph. Its inputs are known (infer.h calls it).
Result<void> infer_composite(Graph& graph, const Node& node, const Composite& composite);

// The rows of each family: a file of composites/.
std::span<const Composite> activation_composites();
std::span<const Composite> attention_composites();
std::span<const Composite> convolution_composites();
std::span<const Composite> loss_composites();
std::span<const Composite> matmul_composites();
std::span<const Composite> n_bits_composites();
std::span<const Composite> nchwc_composites();
std::span<const Composite> normalization_composites();
std::span<const Composite> ort_attention_composites();
std::span<const Composite> quantized_composites();
std::span<const Composite> renamed_composites();
std::span<const Composite> rotary_composites();

}  // namespace convoy::network
