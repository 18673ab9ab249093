// Convolution nodes of a graph as convolution problems: Conv (fprop), ConvTranspose (dgrad), QLinearConv and
// ConvInteger (integer fprop).
#pragma once

#include <span>
#include <string_view>

#include "convoy/convolution.h"
#include "network/graph/graph.h"

namespace convoy::network {

// An ONNX operator that is a convolution: which kind, and what its inputs are to it, by index. Whoever asks whether a
// node is a convolution of some kind asks this, not for the operator's name.
struct ConvForm {
  std::string_view op;
  bool transposed = false;   // dgrad: its input is the problem's y, its weights [C_in, C_out/group, ...]
  bool integer = false;      // s8 or u8 data and weights
  bool requantizes = false;  // to s8 or u8, by scales that are inputs
  int least_inputs = 2;      // ONNX's own; what fusion adds stands behind them
  int inputs = 3;
  int weights = 1;
  int bias = 2;                      // kAbsent: none; fusion may add one, which may be f32 where this is s32
  int x_zero = kAbsent;              // that may come with each run
  std::span<const int> values = {};  // inputs whose values become part of the problem or its plan
  bool is_float() const { return !integer; }
};
const ConvForm* conv_form(std::string_view domain, std::string_view op);  // null: no convolution
inline const ConvForm* conv_form(const Node& node) { return conv_form(node.desc.domain, node.desc.op); }

inline constexpr int kConvData = 0;  // the input that has the activations, of every form

// The values that a convolution node reads, by what they are to it; kAbsent where it has none.
struct ConvInputs {
  int data = kAbsent;
  int weights = kAbsent;
  int bias = kAbsent;
  int residual = kAbsent;
  int slopes = kAbsent;
  int scales = kAbsent;
  int x_zero = kAbsent;  // that may come with each run
  int gate = kAbsent;
};
// Precondition: the node has a form.
ConvInputs conv_inputs(const Node& node);

// Adds an input of the fusion's behind the operator's own: its index.
int add_fused_input(Node& node, int value);

// The problem of a node that has a form and whose input types and dims are known. Errors name the attribute or input at
// fault.
Result<ConvNode> conv_problem(const Node& node, std::span<const ops::Input> inputs);

}  // namespace convoy::network
