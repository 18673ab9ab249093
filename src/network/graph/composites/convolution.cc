// ONNX Runtime's convolutions that have taken over what follows them, and convolutions and pools of channels-last
// tensors; ONNX's causal convolution.
#include <algorithm>
#include <array>
#include <numeric>

#include "network/graph/composites/activation.h"

namespace convoy::network {
namespace {

// [N, spatial, C] to [N, C, spatial], and back.
Result<int> to_channels_first(Expansion& e, int x) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(e.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  if (order.size() > 2) std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return e.transpose(x, order);
}
Result<int> channels_last(Expansion& e, int x) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(e.rank(x)));
  std::iota(order.begin(), order.end(), 0);
  if (order.size() > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return e.transpose(x, order);
}

Expansion::Attributes attributes_without(const ops::NodeDesc& desc, std::initializer_list<std::string_view> names) {
  Expansion::Attributes attributes = desc.attributes;
  for (const std::string_view name : names) attributes.erase(std::string(name));
  return attributes;
}

// activation(Conv(x, w, b) + z). Channels are last in x, z and y, and in the weights.
enum class Last { none, activations, all };

template <Last last>
Result<void> fused_conv(Expansion& e) {
  constexpr bool is_last = last != Last::none;
  CONVOY_CHECK(e.check_inputs(2, 4));
  CONVOY_TRY(const std::string activation, e.node().text("activation", ""));
  CONVOY_TRY(const std::vector<double> parameters, e.node().reals("activation_params", {}));
  std::vector<int> inputs{e.input(0), e.input(1)};
  if (is_last) {
    CONVOY_TRY(inputs[0], to_channels_first(e, inputs[0]));
  }
  if (last == Last::all) {
    CONVOY_TRY(inputs[1], to_channels_first(e, inputs[1]));
  }
  if (e.has(2)) inputs.push_back(e.input(2));
  CONVOY_TRY(int y, e.add("Conv", inputs, attributes_without(e.node(), {"activation", "activation_params"})));
  if (e.has(3)) {
    int z = e.input(3);
    if (is_last) {
      CONVOY_TRY(z, to_channels_first(e, z));
    }
    CONVOY_TRY(y, e.add("Add", {y, z}));
  }
  CONVOY_TRY(y, add_activation(e, y, activation, parameters));
  if (is_last) {
    CONVOY_TRY(y, channels_last(e, y));
  }
  e.give(0, y);
  return {};
}

// An operator of ONNX on input 0, with channels last.
template <int kLeast, int kMost>
Result<void> of_channels_last(Expansion& e, const char* op, bool is_last) {
  CONVOY_CHECK(e.check_inputs(kLeast, kMost));
  std::vector<int> inputs;
  for (int i = 0; i < e.inputs(); ++i) inputs.push_back(e.input(i));
  if (is_last) {
    CONVOY_TRY(inputs[0], to_channels_first(e, inputs[0]));
  }
  CONVOY_TRY(int y, e.add(op, inputs, attributes_without(e.node(), {"channels_last"})));
  if (is_last) {
    CONVOY_TRY(y, channels_last(e, y));
  }
  e.give(0, y);
  return {};
}

Result<void> nhwc_max_pool(Expansion& e) { return of_channels_last<1, 1>(e, "MaxPool", true); }

Result<void> qlinear_conv(Expansion& e) {
  CONVOY_TRY(const std::int64_t last, e.node().integer("channels_last", 0));
  return of_channels_last<8, 9>(e, "QLinearConv", last != 0);
}

// A depthwise convolution along a sequence that reads no position behind its own. What lies before the sequence is the
// state, the last positions of the one before, else zeros.
Result<void> causal_conv_with_state(Expansion& e) {
  enum { kX, kWeights, kBias, kState };
  CONVOY_CHECK(e.check_inputs(2, 4));
  CONVOY_CHECK(e.check_dims(kX, "input", {-1, -1, -1}));
  const Dims dims = e.dims(e.input(kX));
  CONVOY_CHECK(e.check_dims(kWeights, "weight", {dims[1], 1, -1}));
  const std::int64_t before = e.dims(e.input(kWeights))[2] - 1;
  if (before < 0) return e.bad("weight has no taps");
  const Dims state_dims{dims[0], dims[1], before};
  int state = e.input(kState);
  if (e.has(kState)) {
    CONVOY_CHECK(e.check_dims(kState, "past_state", state_dims));
  } else {
    CONVOY_TRY(HostTensor zeros, HostTensor::zeros(TensorDesc::packed(e.type(e.input(kX)), state_dims)));
    state = e.constant_value(std::move(zeros));
  }
  CONVOY_TRY(const int x, e.add("Concat", {state, e.input(kX)}, {{"axis", std::int64_t{2}}}));
  std::vector<int> inputs{x, e.input(kWeights)};
  if (e.has(kBias)) inputs.push_back(e.input(kBias));
  CONVOY_TRY(int y, e.add("Conv", inputs, {{"group", dims[1]}}));
  CONVOY_TRY(const std::string activation, e.node().text("activation", "none"));
  if (activation == "silu" || activation == "swish") {
    CONVOY_TRY(y, add_swish(e, y, 1));
  } else if (activation != "none") {
    return e.bad("activation='" + activation + "' is not none, silu or swish");
  }
  e.give(0, y);
  if (e.wants(1)) {
    CONVOY_TRY(const int last, e.slice(x, 2, dims[2], dims[2] + before));
    e.give(1, last);
  }
  return {};
}

constexpr int kQlinearConvConstants[] = {1, 2, 4, 5, 6, 7};

constexpr std::array kConvolutionComposites{
    Composite{"CausalConvWithState", causal_conv_with_state, ""},
    Composite{"FusedConv", fused_conv<Last::none>},
    Composite{"NhwcConv", fused_conv<Last::all>},
    Composite{"NhwcFusedConv", fused_conv<Last::activations>},
    Composite{"NhwcMaxPool", nhwc_max_pool},
    Composite{"QLinearConv", qlinear_conv, "com.microsoft", kQlinearConvConstants},
};

}  // namespace

std::span<const Composite> convolution_composites() { return kConvolutionComposites; }

}  // namespace convoy::network
