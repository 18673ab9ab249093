// What ONNX Runtime has of Gelu and its relatives, with the Add before them, and ONNX's gated Swish.
#include "network/graph/composites/activation.h"

#include <array>

namespace convoy::network {

Result<int> add_gelu(Expansion& e, int x, bool by_tanh) {
  return e.add("Gelu", {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}});
}

Result<int> add_swish(Expansion& e, int x, double alpha) {
  return e.add({.op = "Swish", .domain = "", .name = "", .opset = 24, .attributes = {{"alpha", alpha}}}, {x});
}

Result<int> add_activation(Expansion& e, int x, const std::string& name, const std::vector<double>& parameters) {
  if (name.empty()) return x;
  const auto with = [&](std::initializer_list<const char*> names) {
    Expansion::Attributes attributes;
    std::size_t i = 0;
    for (const char* each : names) {
      if (i < parameters.size()) attributes.emplace(each, parameters[i]);
      ++i;
    }
    return attributes;
  };
  if (name == "Clip") {
    std::vector<int> inputs{x};
    for (const double bound : parameters) {
      CONVOY_TRY(const int value, e.scalar(e.type(x), bound));
      inputs.push_back(value);
    }
    return e.add("Clip", inputs);
  }
  if (name == "LeakyRelu" || name == "Elu" || name == "ThresholdedRelu") return e.add(name, {x}, with({"alpha"}));
  if (name == "HardSigmoid") return e.add(name, {x}, with({"alpha", "beta"}));
  if (name == "Gelu") return add_gelu(e, x, false);
  for (const char* plain : {"Relu", "Sigmoid", "Tanh", "HardSwish", "Softsign", "Softplus", "Mish", "Selu"}) {
    if (name == plain) return e.add(name, {x});
  }
  return e.bad("activation='" + name + "' is none that is known");
}

Result<int> add_activation(Expansion& e, int x) {
  CONVOY_TRY(const std::string name, e.node().text("activation", ""));
  std::vector<double> parameters;
  for (const char* attribute : {"activation_alpha", "activation_beta"}) {
    if (!e.node().has(attribute)) break;
    CONVOY_TRY(const double value, e.node().real(attribute, 0));
    parameters.push_back(value);
  }
  return add_activation(e, x, name, parameters);
}

namespace {

// x + bias where there is one, along the last dim.
Result<int> biased(Expansion& e, int bias_input) {
  if (!e.has(bias_input)) return e.input(0);
  return e.add("Add", {e.input(0), e.input(bias_input)});
}

template <bool by_tanh>
Result<void> bias_gelu(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(1, 2));
  CONVOY_TRY(const int x, biased(e, 1));
  CONVOY_TRY(const int y, add_gelu(e, x, by_tanh));
  e.give(0, y);
  return {};
}

Result<void> quick_gelu(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(1, 1));
  CONVOY_TRY(const double alpha, e.node().real("alpha", 1.702));
  CONVOY_TRY(const int y, add_swish(e, e.input(0), alpha));
  e.give(0, y);
  return {};
}

// swish(a) * b
Result<void> swi_glu(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 2));
  CONVOY_CHECK(e.check_dims(1, "B", e.dims(e.input(0))));
  CONVOY_TRY(const double alpha, e.node().real("alpha", 1));
  CONVOY_TRY(const int gate, add_swish(e, e.input(0), alpha));
  CONVOY_TRY(const int y, e.add("Mul", {gate, e.input(1)}));
  e.give(0, y);
  return {};
}

// Of x + bias, halves along the last dim: the first times gelu of the second.
Result<void> bias_split_gelu(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 2));
  CONVOY_TRY(const int x, biased(e, 1));
  const Dims dims = e.dims(x);
  if (dims.empty() || dims.back() % 2 != 0) return e.bad("the last dim of input 0 has no halves");
  const std::int64_t half = dims.back() / 2;
  CONVOY_TRY(const int sizes, e.integers({half, half}));
  CONVOY_TRY(const std::vector<int> parts, e.add_many("Split", {x, sizes}, {{"axis", std::int64_t{-1}}}, 2));
  CONVOY_TRY(const int gate, add_gelu(e, parts[1], false));
  CONVOY_TRY(const int y, e.add("Mul", {parts[0], gate}));
  e.give(0, y);
  return {};
}

// x + bias + skip
Result<void> bias_add(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, 3));
  CONVOY_TRY(const int x, biased(e, 1));
  CONVOY_TRY(const int y, e.add("Add", {x, e.input(2)}));
  e.give(0, y);
  return {};
}

// Softmax over the dims from `axis` on, of data plus a bias that repeats along some dims.
Result<void> bias_softmax(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 2));
  CONVOY_TRY(std::int64_t axis, e.node().integer("axis", 1));
  CONVOY_TRY(const std::int64_t inner, e.node().integer("is_inner_broadcast", 1));
  const Dims dims = e.dims(e.input(0));
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return e.bad("axis=" + std::to_string(axis) + " is out of range");
  int bias = e.input(1);
  // Inner: one bias for so many neighbours of the batch dims; else it repeats as a whole, as broadcasting has it.
  const Dims bias_dims = e.dims(bias);
  if (inner != 0 && static_cast<std::int64_t>(bias_dims.size()) != rank) {
    const std::int64_t batches = static_cast<std::int64_t>(bias_dims.size()) - (rank - axis);
    if (batches < 0) return e.bad("the bias has too few dims");
    Dims wide(bias_dims.begin(), bias_dims.begin() + batches);
    wide.resize(static_cast<std::size_t>(axis), 1);
    wide.insert(wide.end(), bias_dims.begin() + batches, bias_dims.end());
    CONVOY_TRY(bias, e.reshape(bias, wide));
  }
  CONVOY_TRY(const int sum, e.add("Add", {e.input(0), bias}));
  // Opset 11's form is over all dims from the axis on.
  CONVOY_TRY(const int y,
             e.add({.op = "Softmax", .domain = "", .name = "", .opset = 11, .attributes = {{"axis", axis}}}, {sum}));
  e.give(0, y);
  return {};
}

// Of inference: x + bias + residual.
Result<void> bias_dropout(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(2, 5));
  CONVOY_TRY(int y, biased(e, 1));
  if (e.has(2)) {
    CONVOY_TRY(y, e.add("Add", {y, e.input(2)}));
  }
  if (e.has(4)) {
    const auto training = e.constant(e.input(4));
    if (!training || training->at(0) != 0) return e.bad("training_mode is not supported");
  }
  e.give(0, y);
  return {};
}

constexpr std::array kActivationComposites{
    Composite{"BiasAdd", bias_add},
    Composite{"BiasDropout", bias_dropout},
    Composite{"BiasGelu", bias_gelu<false>},
    Composite{"BiasSoftmax", bias_softmax},
    Composite{"BiasSplitGelu", bias_split_gelu},
    Composite{"FastGelu", bias_gelu<true>},
    Composite{"Gelu", bias_gelu<false>},
    Composite{"QuickGelu", quick_gelu},
    Composite{"SwiGLU", swi_glu, ""},
};

}  // namespace

std::span<const Composite> activation_composites() { return kActivationComposites; }

}  // namespace convoy::network
