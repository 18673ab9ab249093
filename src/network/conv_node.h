// Convolution nodes of a graph as convolution problems: Conv (fprop), ConvTranspose (dgrad), QLinearConv and
// ConvInteger (integer fprop).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"
#include "network/graph.h"

namespace convoy::network {

bool is_convolution(std::string_view domain, std::string_view op);
inline bool is_convolution(const Node& node) { return is_convolution(node.desc.domain, node.desc.op); }

// Inputs whose values become part of the problem or its plan (scales and zero points of the integer forms; not x's zero
// point of ConvInteger, which dynamic quantization computes in each run).
std::vector<int> conv_value_inputs(const ops::NodeDesc& node);

// Input index of the activation tensor, the weights and the bias of a convolution node.
int conv_data_input(const ops::NodeDesc& node);
int conv_weight_input(const ops::NodeDesc& node);
int conv_bias_input(const Node& node);  // kAbsent: it has none

// Number of output channels; the weights' dims are given in ONNX's order.
std::int64_t conv_output_channels(const ops::NodeDesc& node, const Dims& weight_dims, std::int64_t groups);

// The values that a convolution node reads, by what they are to it; kAbsent where it has none.
struct ConvInputs {
  int data = kAbsent;
  int weights = kAbsent;
  int bias = kAbsent;
  int residual = kAbsent;
  int slopes = kAbsent;
  int scales = kAbsent;
  int x_zero = kAbsent;  // ConvInteger's, which may come with each run
};
ConvInputs conv_inputs(const Node& node);

// The problem of a node whose input types and dims are known. Errors name the attribute or input at fault.
Result<ConvNode> conv_problem(const Node& node, std::span<const ops::Input> inputs);

}  // namespace convoy::network
