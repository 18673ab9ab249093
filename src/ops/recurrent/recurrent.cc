// LSTM, GRU and RNN: their attributes and the dims of what they take and give.
#include "ops/recurrent/recurrent.h"

#include <fmt/format.h>

#include <cctype>

#include "ops/in_f32.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

struct ActivationName {
  std::string_view name;
  CellActivation::Kind kind;
  int parameters;  // 1: alpha; 2: alpha and beta
  double alpha = 0, beta = 0;
};
constexpr ActivationName kActivations[] = {
    {"Relu", CellActivation::relu, 0},
    {"Tanh", CellActivation::tanh, 0},
    {"Sigmoid", CellActivation::sigmoid, 0},
    {"Affine", CellActivation::affine, 2, 1, 0},
    {"LeakyRelu", CellActivation::leaky_relu, 1, 0.01},
    {"ThresholdedRelu", CellActivation::thresholded_relu, 1, 1},
    {"ScaledTanh", CellActivation::scaled_tanh, 2, 1, 1},
    {"HardSigmoid", CellActivation::hard_sigmoid, 2, 0.2, 0.5},
    {"Elu", CellActivation::elu, 1, 1},
    {"Softsign", CellActivation::softsign, 0},
    {"Softplus", CellActivation::softplus, 0},
};

// Writers of models don't agree on capitals.
bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The functions of all directions. Those that have parameters take them from activation_alpha and activation_beta in
// turn, and have ONNX's defaults once a list is at its end.
Result<void> read_activations(const NodeDesc& node, Recurrence& r) {
  const int each = r.cell == Cell::lstm ? 3 : r.cell == Cell::gru ? 2 : 1;
  std::vector<std::string> names;
  if (const auto found = node.attributes.find("activations"); found != node.attributes.end()) {
    const auto* given = std::get_if<std::vector<std::string>>(&found->second);
    if (given == nullptr) return bad_node(node, "attribute 'activations' is no list of strings");
    names = *given;
    if (static_cast<int>(names.size()) != each * r.directions) {
      return bad_node(node, fmt::format("activations has {} names; {} are needed, {} for each direction", names.size(),
                                        each * r.directions, each));
    }
  } else {
    for (int d = 0; d < r.directions; ++d) {
      for (int i = 0; i < each; ++i) names.emplace_back(r.cell != Cell::rnn && i == 0 ? "Sigmoid" : "Tanh");
    }
  }
  CONVOY_TRY(const std::vector<double> alphas, node.reals("activation_alpha", {}));
  CONVOY_TRY(const std::vector<double> betas, node.reals("activation_beta", {}));
  std::size_t alpha = 0, beta = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto* row = std::ranges::find_if(
        kActivations, [&](const ActivationName& known) { return same_name(known.name, names[i]); });
    if (row == std::end(kActivations)) {
      return bad_node(node, fmt::format("activations[{}]='{}' is unknown", i, names[i]));
    }
    CellActivation& f = r.activations[i / each][i % each];
    f = {row->kind, row->alpha, row->beta};
    if (row->parameters >= 1 && alpha < alphas.size()) f.a = alphas[alpha++];
    if (row->parameters >= 2 && beta < betas.size()) f.b = betas[beta++];
  }
  return {};
}

Result<void> read_attributes(const NodeDesc& node, Recurrence& r) {
  CONVOY_TRY(const std::string direction, node.text("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return bad_node(node, "direction='" + direction + "' is none of forward, reverse, bidirectional");
  }
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.first_reversed = direction == "reverse";
  CONVOY_TRY(const std::int64_t layout, node.integer("layout", 0));
  if (layout != 0 && layout != 1) return bad_node(node, fmt::format("layout={} is neither 0 nor 1", layout));
  r.batch_first = layout == 1;
  if (r.cell == Cell::lstm) {
    CONVOY_TRY(const std::int64_t input_forget, node.integer("input_forget", 0));
    r.input_forget = input_forget != 0;
  }
  if (r.cell == Cell::gru) {
    CONVOY_TRY(const std::int64_t linear, node.integer("linear_before_reset", 0));
    r.linear_before_reset = linear != 0;
  }
  if (node.has("clip")) {
    CONVOY_TRY(r.clip, node.real("clip", 0));
    if (!(r.clip > 0)) return bad_node(node, fmt::format("clip={} is not above 0", r.clip));
  }
  return read_activations(node, r);
}

constexpr std::string_view kInputNames[] = {"X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"};

// The input, where it is present, has these dims.
Result<void> check_dims(const NodeDesc& node, std::span<const Input> inputs, int index, const Dims& dims) {
  if (!is_present(inputs, index) || inputs[index].desc.dims == dims) return {};
  return bad_node(node, fmt::format("input {} ({}) has dims [{}]; they must be [{}]", index, kInputNames[index],
                                    to_string(inputs[index].desc.dims), to_string(dims)));
}

Result<void> check_types(const NodeDesc& node, std::span<const Input> inputs) {
  const DataType type = inputs[kX].desc.type;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    CONVOY_CHECK(check_type(node, inputs, i, i == kSequenceLens ? only(DataType::s32) : kMathFloats));
    if (i == kSequenceLens || !inputs[i].present || inputs[i].desc.type == type) continue;
    return bad_node(node, fmt::format("input {} ({}) has type {}, X has {}; they must be the same", i, kInputNames[i],
                                      name_of(inputs[i].desc.type), name_of(type)));
  }
  return {};
}

Result<Recurrence> recurrence_of(const NodeDesc& node, Cell cell, std::span<const Input> inputs) {
  Recurrence r;
  r.cell = cell;
  CONVOY_CHECK(read_attributes(node, r));
  for (const int i : {kX, kW, kR}) {
    if (inputs[i].desc.rank() == 3) continue;
    return bad_node(node, fmt::format("input {} ({}) has dims [{}]; rank 3 is needed", i, kInputNames[i],
                                      to_string(inputs[i].desc.dims)));
  }
  const Dims& x = inputs[kX].desc.dims;
  r.steps = x[r.batch_first ? 1 : 0];
  r.batch = x[r.batch_first ? 0 : 1];
  r.inputs = x[2];
  r.hidden = inputs[kR].desc.dims[2];
  CONVOY_TRY(const std::int64_t hidden_size, node.integer("hidden_size", r.hidden));
  if (hidden_size != r.hidden) {
    return bad_node(node, fmt::format("hidden_size={}, but input 2 (R) has dims [{}]", hidden_size,
                                      to_string(inputs[kR].desc.dims)));
  }
  // So that no product of these, padded to panels, overflows.
  for (const std::int64_t other : {r.batch, r.inputs, r.hidden}) {
    if (auto count = checked_elements({other, r.hidden, 1 << 16}); !count.ok()) return count.error().within(node.op);
  }
  const std::int64_t rows = r.gates() * r.hidden;
  const Dims state = r.batch_first ? Dims{r.batch, r.directions, r.hidden} : Dims{r.directions, r.batch, r.hidden};
  CONVOY_CHECK(check_dims(node, inputs, kR, {r.directions, rows, r.hidden}));
  CONVOY_CHECK(check_dims(node, inputs, kW, {r.directions, rows, r.inputs}));
  CONVOY_CHECK(check_dims(node, inputs, kB, {r.directions, 2 * rows}));
  CONVOY_CHECK(check_dims(node, inputs, kSequenceLens, {r.batch}));
  CONVOY_CHECK(check_dims(node, inputs, kInitialH, state));
  CONVOY_CHECK(check_dims(node, inputs, kInitialC, state));
  CONVOY_CHECK(check_dims(node, inputs, kP, {r.directions, 3 * r.hidden}));
  if (is_present(inputs, kSequenceLens) && inputs[kSequenceLens].constant != nullptr) {
    CONVOY_CHECK(check_sequence_lens(
        node.op, {static_cast<const std::int32_t*>(inputs[kSequenceLens].constant), static_cast<std::size_t>(r.batch)},
        r.steps));
  }
  return r;
}

class Recurrent final : public Operator {
 public:
  constexpr explicit Recurrent(Cell cell) : cell_(cell) {}

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const bool lstm = cell_ == Cell::lstm;
    CONVOY_CHECK(check_counts(node, inputs, 3, lstm ? 8 : 6, lstm ? 3 : 2));
    CONVOY_CHECK(check_types(node, inputs));
    CONVOY_TRY(const Recurrence r, recurrence_of(node, cell_, inputs));
    const Dims y =
        r.batch_first ? Dims{r.batch, r.steps, r.directions, r.hidden} : Dims{r.steps, r.directions, r.batch, r.hidden};
    const Dims state = r.batch_first ? Dims{r.batch, r.directions, r.hidden} : Dims{r.directions, r.batch, r.hidden};
    std::vector<TensorDesc> outputs;
    for (int i = 0; i < std::max(1, node.output_count); ++i) {
      CONVOY_TRY(TensorDesc desc, make_output(node, inputs[kX].desc.type, i == kY ? y : state));
      outputs.push_back(std::move(desc));
    }
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    if (contains(kHalves, outputs[0].type)) return plan_in_f32(*this, node, inputs, outputs, request);
    CONVOY_TRY(const Recurrence r, recurrence_of(node, cell_, inputs));
    return plan_recurrence(node, r, inputs, request);
  }

 private:
  Cell cell_;
};

const Recurrent op_LSTM(Cell::lstm);
const Recurrent op_GRU(Cell::gru);
const Recurrent op_RNN(Cell::rnn);

}  // namespace

std::vector<OperatorRow> recurrent_rows() {
  return {
      {"LSTM", &op_LSTM, images::mixed, Rate::recurrent, values::mixed, in_place::never, layouts::row_major,
       kMathFloats},
      {"GRU", &op_GRU, images::mixed, Rate::recurrent, values::mixed, in_place::never, layouts::row_major, kMathFloats},
      {"RNN", &op_RNN, images::mixed, Rate::recurrent, values::mixed, in_place::never, layouts::row_major,
       kMathFloats}};
}

}  // namespace convoy::ops
