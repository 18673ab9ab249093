// Shapes of one node's outputs from what is known of its inputs.
#pragma once

#include <span>
#include <vector>

#include "network/graph/graph.h"

namespace convoy::network {

// The inputs of a node as operators see them: packed nchw, constants with their values.
std::vector<ops::Input> inputs_of(const Graph& graph, const Node& node);

enum class Knowledge {
  known,    // output types and dims were set
  unknown,  // an input's dims are not known, or a value that decides the output's dims is not constant
};

// Inputs, by index, whose values must be constant before the node's outputs can be inferred and the node planned.
std::vector<int> value_inputs(const Node& node);

// Whether infer_node would find out anything; what an If or a Loop gives is known when it runs.
bool can_infer(const Graph& graph, const Node& node);
// Types and dims of the outputs of a node that is an operator, from what is known of its inputs: one for each output
// that the node has at least.
Result<std::vector<TensorDesc>> inferred_outputs(const Node& node, std::span<const ops::Input> inputs);
// Sets what is known of its outputs, and what a convolution node is as a problem.
Result<Knowledge> infer_node(Graph& graph, Node& node);

// Whether a node can be lowered: its outputs' types and dims are known.
bool is_static(const Graph& graph, const Node& node);

}  // namespace convoy::network
