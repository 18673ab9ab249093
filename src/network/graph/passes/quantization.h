// QuantizeLinear and DequantizeLinear nodes as the passes on quantized models read them.
#pragma once

#include <optional>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// v = (q - zero) * scale, from a node with constant f32 scales that are finite and positive, and constant zero points.
struct Quantization {
  DataType type = DataType::u8;  // of q
  int scale = kAbsent;           // value ids of the node's inputs
  int zero = kAbsent;            // kAbsent: 0
  std::vector<double> scales;    // a single one, or one per element along `axis`
  std::vector<double> zeros;     // likewise; never empty
  int axis = 0;

  bool per_tensor() const { return scales.size() == 1; }
  // Of a tensor of bytes with one scale: the only ones that activations have here.
  bool is_plain() const { return per_tensor() && (type == DataType::s8 || type == DataType::u8); }
  double lowest() const { return type == DataType::s8 ? -128 : 0; }
  double highest() const { return lowest() + 255; }
  // What v becomes: for plain ones.
  double quantized(double v) const;
};

bool same(const Quantization& a, const Quantization& b);  // of plain ones

// Whether the operator has seen the node's inputs and accepted them. Of others nothing is certain, not even that they
// have the inputs that every such node needs.
bool is_inferred(const Graph& graph, const Node& node);
bool is_quantize(const Node& node);
bool is_dequantize(const Node& node);
// Of a QuantizeLinear or DequantizeLinear node that is f32 on one side and not blocked.
std::optional<Quantization> quantization_of(const Graph& graph, const Node& node);

// A value that a DequantizeLinear makes: what it makes it from.
struct Dequantized {
  int value = kAbsent;
  Quantization by;
};

// Follows values through a graph while a pass rewrites it.
class QuantizedGraph {
 public:
  explicit QuantizedGraph(Graph& graph);

  Graph& graph() { return graph_; }
  std::optional<Dequantized> dequantized(int value) const;
  // The same of activations: plain.
  std::optional<Dequantized> activation(int value) const;
  // The only node that reads a value, where the value is no output of the graph: null otherwise.
  Node* only_reader(int value);

  // A node behind all others (the order is for topological_order), named after `like`.
  Node& append(const Node& like, std::string op, std::string domain, int opset, std::vector<int> inputs, int output);
  int new_value(const Node& like, const char* suffix);
  // A constant of these values.
  Result<int> new_constant(const Node& like, const char* suffix, DataType type, Dims dims,
                           const std::vector<double>& values);
  // The zero point as a value: operators of quantized tensors want one.
  Result<int> zero_of(const Node& like, const Quantization& quantization);

  void count_readers();  // again, after nodes were erased

 private:
  Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace convoy::network
