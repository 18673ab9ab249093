// A network as the passes see it: values, nodes and nothing of the file format it came from.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/host_tensor.h"
#include "convoy/network.h"
#include "ops/operator.h"

namespace convoy::network {

inline constexpr int kAbsent = -1;

struct Value {
  std::string name;
  bool known = false;                  // `desc` holds its type and concrete dims
  TensorDesc desc;                     // packed nchw
  std::optional<HostTensor> constant;  // packed nchw; implies known
};

// What is added behind a QLinearConv, by a QLinearAdd.
struct QuantizedSum {
  QuantizedResidual residual;
  std::int32_t zero_point = 0;  // of the sum
};

// What a convolution node computes besides its ONNX operator; filled by the fusion pass. The integers are indices into
// the node's inputs, so that whatever follows data through a graph only has to look there.
struct ConvFusion {
  int residual = kAbsent;  // z, added before the activation; with `sum` behind the requantization
  int slopes = kAbsent;    // prelu: one per output channel, or a single one
  int scales = kAbsent;    // ConvInteger: its sums become f32 by these, a single one or one per output channel
  int bias = kAbsent;      // ConvInteger: s32, one per output channel
  int gate = kAbsent;      // multiplies the data: a value an image and channel
  Activation activation;
  std::optional<QuantizedSum> sum;  // goes with residual
};

// A convolution node as a convolution problem.
struct ConvNode {
  ConvProblem problem;                // all tensors packed nchw, the epilogue filled in
  std::vector<float> scales;          // of requantization; empty without, or where they are an input (fusion.scales)
  std::vector<std::int32_t> w_zeros;  // where they differ between channels (w_zero_given)
};

struct Fusing;
struct Graph;

struct Node {
  ops::NodeDesc desc;
  std::vector<int> inputs;           // value ids; kAbsent for an optional one that is left out
  std::vector<int> outputs;          // likewise
  std::vector<std::string> sources;  // names of the ONNX nodes it stands for
  // What an If (then, else) or a Loop runs. A body reads nothing from around it: such values are inputs of the node,
  // behind ONNX's own, and of the body. An If's body has an input for each of the node's but the condition, a Loop's
  // for each.
  std::vector<std::shared_ptr<const Graph>> bodies;
  int captured = 0;  // how many of the inputs, the last ones, are such values
  ConvFusion fusion;
  std::optional<ConvNode> conv;  // of a convolution whose inputs are known, as of the last shape inference
  // Of a convolution, by the fusion passes: the last node that it took over; null: none, or it can't be undone.
  std::shared_ptr<const Fusing> fused;
  bool erased = false;  // `sweep` drops it
};

// A convolution before it took over the node that follows it, or with `ahead` the one whose result it reads: its gate.
struct Fusing {
  Node conv;
  Node next;
  bool ahead = false;
};

// What a node was before anything was fused, in order: the convolution between what it took over; else the node itself.
std::vector<const Node*> parts_of(const Node& node);

// A convolution without its gate, which was fused last; else the node itself.
const Node& without_gate(const Node& node);

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<int> inputs;
  std::vector<int> outputs;
  std::vector<NetworkValue> input_info;  // as the file declares them
  std::vector<NetworkValue> output_info;
  int file_nodes = 0;  // nodes in the file, those included that became constants
  ModelInfo info;

  int add_value(std::string value_name);
  int add_constant(std::string value_name, HostTensor tensor);

  std::vector<int> producers() const;             // node index of each value, kAbsent for inputs and constants
  std::vector<std::vector<int>> readers() const;  // node indices of each value, once for each time it is read
  bool is_output(int value) const;
  const HostTensor* constant_of(int value) const;  // null where absent or not constant

  // Every reader of `from`, graph outputs included, reads `to` instead.
  void replace_uses(int from, int to);
  void sweep();
};

// The constant's elements as doubles, or nothing when it has more than `limit`.
std::optional<std::vector<double>> small_constant(const Graph& graph, int value, std::int64_t limit = 1 << 16);
// The same of an integer constant, exact.
std::optional<std::vector<std::int64_t>> small_integers(const Graph& graph, int value, std::int64_t limit);
std::optional<double> scalar_constant(const Graph& graph, int value);

// A constant that broadcasts along the channels (dim 1) of a tensor of `rank` dims and along nothing else, as one value
// a channel.
std::optional<std::vector<double>> channel_constant(const Graph& graph, int value, int rank, std::int64_t channels);

// Ids are in range, a value has one maker at most, and every value that is read is an input, a constant or made by a
// node: plans rely on it, whatever the passes have met. Error (corrupt): which value, and who reads it.
Result<void> check(const Graph& graph);

// The names of the ONNX nodes that a node stands for: "conv1+bn1+relu1".
std::string joined(const std::vector<std::string>& names);
// "node 'conv1' (Conv)"
std::string describe(const Node& node);

}  // namespace convoy::network
