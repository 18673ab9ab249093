// LSTM, GRU and RNN: small cases by hand, and the specification's formulas in plain loops over one sequence at a time.
#include <functional>
#include <numeric>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Strings = std::vector<std::string>;

constexpr std::int64_t kSteps = 5, kBatch = 3, kInputs = 4;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// What a test varies; activations are Sigmoid and Tanh.
struct Layer {
  std::string op;
  std::string direction = "forward";
  std::int64_t hidden = 6, batch = kBatch;
  bool peepholes = false, initial = true, input_forget = false, linear = false, batch_first = false;
  std::vector<std::int32_t> lens;
  double clip = 0;
  DataType type = DataType::f32;

  std::int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
  std::int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
  std::int64_t length(std::int64_t b) const { return lens.empty() ? kSteps : lens[b]; }
};

struct Values {
  std::vector<double> x, w, r, b, h, c, p;  // x is [step][batch][input], states [direction][batch][unit]
};

std::vector<double> numbers(DataType type, std::int64_t count, int seed, double size) {
  std::vector<double> values = spread(count + seed, -size, size);
  values.erase(values.begin(), values.begin() + seed);
  const HostTensor rounded = tensor(type, {count}, values);
  for (std::int64_t i = 0; i < count; ++i) values[i] = rounded.at(i);
  return values;
}

Values values_of(const Layer& layer) {
  const std::int64_t d = layer.directions(), rows = d * layer.gates() * layer.hidden;
  const std::int64_t states = d * layer.batch * layer.hidden;
  const double size = 1.0 / std::sqrt(static_cast<double>(layer.hidden));
  return {numbers(layer.type, kSteps * layer.batch * kInputs, 1, 1),
          numbers(layer.type, rows * kInputs, 2, 1),
          numbers(layer.type, rows * layer.hidden, 3, size),
          numbers(layer.type, 2 * rows, 4, 0.5),
          numbers(layer.type, states, 5, layer.initial ? 1 : 0),
          numbers(layer.type, states, 6, layer.initial ? 1 : 0),
          numbers(layer.type, d * 3 * layer.hidden, 7, layer.peepholes ? 1 : 0)};
}

struct Expected {
  std::vector<double> y, h, c;  // y is [step][direction][batch][unit]
};

// Everything of one direction and sequence, in double.
void run_sequence(const Layer& layer, const Values& v, std::int64_t d, std::int64_t b, Expected& to) {
  const std::int64_t hidden = layer.hidden, gates = layer.gates(), length = layer.length(b);
  const std::int64_t state = (d * layer.batch + b) * hidden;
  std::vector<double> h(v.h.begin() + state, v.h.begin() + state + hidden);
  std::vector<double> c(v.c.begin() + state, v.c.begin() + state + hidden);
  const bool reversed = d == 1 || layer.direction == "reverse";
  const auto limited = [&](double x) { return layer.clip > 0 ? std::clamp(x, -layer.clip, layer.clip) : x; };
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t t = reversed ? length - 1 - step : step;
    // The part of a gate from X, and from what R is applied to, with their biases.
    const auto from_x = [&](std::int64_t gate, std::int64_t u) {
      const std::int64_t row = (d * gates + gate) * hidden + u;
      double sum = v.b[(d * 2 * gates + gate) * hidden + u];
      for (std::int64_t i = 0; i < kInputs; ++i)
        sum += v.w[row * kInputs + i] * v.x[(t * layer.batch + b) * kInputs + i];
      return sum;
    };
    const auto from_h = [&](std::int64_t gate, std::int64_t u, const std::vector<double>& of) {
      const std::int64_t row = (d * gates + gate) * hidden + u;
      double sum = v.b[(d * 2 * gates + gates + gate) * hidden + u];
      for (std::int64_t k = 0; k < hidden; ++k) sum += v.r[row * hidden + k] * of[k];
      return sum;
    };
    const auto both = [&](std::int64_t gate, std::int64_t u) { return from_x(gate, u) + from_h(gate, u, h); };
    std::vector<double> next(hidden), kept(hidden);
    if (layer.op == "GRU") {
      for (std::int64_t u = 0; u < hidden; ++u) kept[u] = sigmoid(limited(both(1, u))) * h[u];
    }
    for (std::int64_t u = 0; u < hidden; ++u) {
      if (layer.op == "RNN") {
        next[u] = std::tanh(limited(both(0, u)));
      } else if (layer.op == "GRU") {
        const double z = sigmoid(limited(both(0, u))), r = sigmoid(limited(both(1, u)));
        const double rest = layer.linear ? r * from_h(2, u, h) : from_h(2, u, kept);
        next[u] = (1 - z) * std::tanh(limited(from_x(2, u) + rest)) + z * h[u];
      } else {
        const double* p = &v.p[d * 3 * hidden];
        const double i = sigmoid(limited(both(0, u) + p[u] * c[u]));
        const double f = layer.input_forget ? 1 - i : sigmoid(limited(both(2, u) + p[2 * hidden + u] * c[u]));
        c[u] = f * c[u] + i * std::tanh(limited(both(3, u)));
        next[u] = sigmoid(limited(both(1, u) + p[hidden + u] * c[u])) * std::tanh(c[u]);
      }
    }
    h = next;
    std::ranges::copy(h, to.y.begin() + ((t * layer.directions() + d) * layer.batch + b) * hidden);
  }
  if (length == 0) return;
  std::ranges::copy(h, to.h.begin() + state);
  std::ranges::copy(c, to.c.begin() + state);
}

// [a][b][rest] to [b][a][rest].
std::vector<double> swapped(const std::vector<double>& from, std::int64_t a, std::int64_t b) {
  std::vector<double> to(from.size());
  const std::int64_t rest = a * b == 0 ? 0 : static_cast<std::int64_t>(from.size()) / (a * b);
  for (std::int64_t i = 0; i < a; ++i) {
    for (std::int64_t j = 0; j < b; ++j) {
      std::copy_n(from.begin() + (i * b + j) * rest, rest, to.begin() + (j * a + i) * rest);
    }
  }
  return to;
}

struct Prepared {
  NodeDesc node;
  std::vector<HostTensor> inputs, outputs;
};

Prepared prepare(const Layer& layer) {
  const Values v = values_of(layer);
  const std::int64_t d = layer.directions(), batch = layer.batch, hidden = layer.hidden, rows = layer.gates() * hidden;
  const bool lstm = layer.op == "LSTM";
  Expected e{std::vector<double>(kSteps * d * batch * hidden), std::vector<double>(d * batch * hidden),
             std::vector<double>(d * batch * hidden)};
  for (std::int64_t direction = 0; direction < d; ++direction) {
    for (std::int64_t b = 0; b < batch; ++b) run_sequence(layer, v, direction, b, e);
  }
  Prepared all;
  all.node = node_of(layer.op, {{"direction", layer.direction}, {"hidden_size", hidden}}, 22, lstm ? 3 : 2);
  if (layer.clip > 0) all.node.attributes["clip"] = layer.clip;
  if (layer.input_forget) all.node.attributes["input_forget"] = std::int64_t{1};
  if (layer.linear) all.node.attributes["linear_before_reset"] = std::int64_t{1};
  if (layer.batch_first) all.node.attributes["layout"] = std::int64_t{1};
  const auto made = [&](Dims dims, const std::vector<double>& values) {
    return tensor(layer.type, std::move(dims), values);
  };
  const auto state = [&](const std::vector<double>& values) {
    return layer.batch_first ? made({batch, d, hidden}, swapped(values, d, batch)) : made({d, batch, hidden}, values);
  };
  all.inputs = {layer.batch_first ? made({batch, kSteps, kInputs}, swapped(v.x, kSteps, batch))
                                  : made({kSteps, batch, kInputs}, v.x),
                made({d, rows, kInputs}, v.w), made({d, rows, hidden}, v.r), made({d, 2 * rows}, v.b)};
  all.inputs.push_back(layer.lens.empty() ? absent()
                                          : tensor(DataType::s32, {batch}, {layer.lens.begin(), layer.lens.end()}));
  all.inputs.push_back(layer.initial ? state(v.h) : absent());
  if (lstm) {
    all.inputs.push_back(layer.initial ? state(v.c) : absent());
    all.inputs.push_back(layer.peepholes ? made({d, 3 * hidden}, v.p) : absent());
  }
  if (layer.batch_first) {
    std::vector<double> y(e.y.size());  // [step][direction][batch] to [batch][step][direction]
    for (std::int64_t i = 0; i < kSteps * d; ++i) {
      for (std::int64_t b = 0; b < batch; ++b) {
        std::copy_n(e.y.begin() + (i * batch + b) * hidden, hidden, y.begin() + (b * kSteps * d + i) * hidden);
      }
    }
    all.outputs = {made({batch, kSteps, d, hidden}, y)};
  } else {
    all.outputs = {made({kSteps, d, batch, hidden}, e.y)};
  }
  all.outputs.push_back(state(e.h));
  if (lstm) all.outputs.push_back(state(e.c));
  return all;
}

void expect_layer(const Layer& layer) {
  SCOPED_TRACE(layer.op + " " + layer.direction);
  const Prepared all = prepare(layer);
  const double tolerance = layer.type == DataType::f64    ? 1e-13
                           : layer.type == DataType::f32  ? 3e-6
                           : layer.type == DataType::bf16 ? 8e-3
                                                          : 1e-3;
  expect_op(all.node, all.inputs, all.outputs, tolerance, 0);
  if (layer.type == DataType::f32) expect_as_portable(all.node, all.inputs, 0, tolerance);
}

TEST(Recurrent, FollowFormulas) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    for (const char* direction : {"forward", "reverse", "bidirectional"}) {
      const Layer layer{.op = op, .direction = direction};
      expect_layer(layer);
      Layer other = layer;
      other.lens = {2, 5, 1};
      expect_layer(other);
      other.lens = {0, 3, 4};
      other.batch_first = true;
      expect_layer(other);
      other.initial = false;
      other.clip = 0.3;
      expect_layer(other);
      other.peepholes = other.input_forget = op == std::string("LSTM");
      other.linear = op == std::string("GRU");
      expect_layer(other);
    }
  }
}

TEST(Recurrent, Types) {
  for (const DataType type : {DataType::f64, DataType::f16, DataType::bf16}) {
    for (const char* op : {"LSTM", "GRU", "RNN"}) {
      expect_layer({.op = op, .direction = "bidirectional", .peepholes = true, .lens = {2, 5, 3}, .type = type});
    }
  }
}

// More rows than a product takes at once, more hidden units than a panel has, slices and groups for three threads.
TEST(Recurrent, Sizes) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    for (const bool linear : {false, true}) {
      if (linear && op != std::string("GRU")) continue;
      for (const std::int64_t batch : {1, 2, 11, 37}) {
        expect_layer({.op = op, .direction = "bidirectional", .hidden = 45, .batch = batch, .linear = linear});
      }
      expect_layer({.op = op, .hidden = 200, .batch = 1, .linear = linear});
    }
  }
}

TEST(Recurrent, ByHand) {
  // h = relu(2 x + 3 h + 1 - 2), from 1.
  const HostTensor x = floats({3, 1, 1}, {1, -4, 5}), w = floats({1, 1, 1}, {2}), r = floats({1, 1, 1}, {3});
  const HostTensor b = floats({1, 2}, {1, -2}), h = floats({1, 1, 1}, {1});
  const NodeDesc relu = node_of("RNN", {{"activations", Strings{"Relu"}}}, 22, 2);
  expect_op(relu, {x, w, r, b, absent(), h}, {floats({3, 1, 1, 1}, {4, 3, 18}), floats({1, 1, 1}, {18})});
  expect_op(relu, {x, w, r}, {floats({3, 1, 1, 1}, {2, 0, 10}), floats({1, 1, 1}, {10})});
  // Names in any case; alphas are of those functions that have one, in turn.
  const HostTensor two = floats({2, 1, 1}, {1, 2}), none = floats({2, 1, 1}, {0, 0});
  expect_op(node_of("RNN", {{"direction", std::string("bidirectional")},
                            {"activations", Strings{"affine", "LEAKYRELU"}},
                            {"activation_alpha", std::vector<double>{3, 0.5}},
                            {"activation_beta", std::vector<double>{-1}}}),
            {floats({1, 1, 1}, {-2}), two, none}, {floats({1, 2, 1, 1}, {-7, -2})});
}

TEST(Recurrent, Activations) {
  struct Function {
    const char* name;
    double (*formula)(double);
  };
  const Function functions[] = {
      {"Relu", [](double v) { return std::max(v, 0.0); }},
      {"Tanh", [](double v) { return std::tanh(v); }},
      {"Sigmoid", sigmoid},
      {"Affine", [](double v) { return v; }},
      {"LeakyRelu", [](double v) { return v < 0 ? 0.01 * v : v; }},
      {"ThresholdedRelu", [](double v) { return v > 1 ? v : 0; }},
      {"ScaledTanh", [](double v) { return std::tanh(v); }},
      {"HardSigmoid", [](double v) { return std::clamp(0.2 * v + 0.5, 0.0, 1.0); }},
      {"Elu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"Softsign", [](double v) { return v / (1 + std::abs(v)); }},
      {"Softplus", [](double v) { return v > 30 ? v : std::log1p(std::exp(v)); }},
  };
  const std::vector<double> inputs{-200, -3, -0.5, 0, 0.25, 2, 5, 200};
  for (const Function& f : functions) {
    std::vector<double> expected;
    for (const double v : inputs) expected.push_back(f.formula(v));
    for (const DataType type : {DataType::f32, DataType::f64}) {
      expect_op(node_of("RNN", {{"activations", Strings{f.name}}}),
                {tensor(type, {8, 1, 1}, inputs), tensor(type, {1, 1, 1}, {1}), tensor(type, {1, 1, 1}, {0})},
                {tensor(type, {8, 1, 1, 1}, expected)}, 1e-6, 1e-6);
    }
  }
}

TEST(Recurrent, EmptyAndSome) {
  const HostTensor w = floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), r = floats({1, 2, 2}, {1, 0, 0, 1});
  expect_op(node_of("RNN", {}, 22, 2), {floats({0, 1, 3}, {}), w, r},
            {floats({0, 1, 1, 2}, {}), floats({1, 1, 2}, {0, 0})});
  expect_op(node_of("RNN", {}, 22, 2), {floats({4, 0, 3}, {}), w, r},
            {floats({4, 1, 0, 2}, {}), floats({1, 0, 2}, {})});
  expect_op(node_of("RNN"), {floats({1, 1, 0}, {}), floats({1, 2, 0}, {}), r}, {floats({1, 1, 1, 2}, {0, 0})});
  // Outputs that nobody reads, also where they would have to be rounded.
  for (const DataType type : {DataType::f32, DataType::f16}) {
    const Operator* op = find_operator("", "LSTM");
    const NodeDesc node = node_of("LSTM", {}, 22, 3);
    const HostTensor x = tensor(type, {1, 1, 1}, {1}), gates = tensor(type, {1, 4, 1}, {0, 0, 0, 0});
    const std::vector<Input> inputs{{true, x.desc}, {true, gates.desc}, {true, gates.desc}};
    const auto outputs = op->infer(node, inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    const auto plan = op->plan(node, inputs, *outputs, {});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const auto team = make_cpu_team(1);
    const auto workspace = allocate_aligned(std::max<std::size_t>(64, (*plan)->workspace_bytes()));
    const HostTensor last = tensor(type, {1, 1, 1}, {9});
    const void* in[] = {x.data.get(), gates.data.get(), gates.data.get()};
    void* out[] = {nullptr, last.data.get(), nullptr};
    const auto run = (*plan)->execute(in, out, ExecContext{*team, workspace.get(), (*plan)->workspace_bytes()});
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_EQ(last.at(0), 0);
  }
}

TEST(Recurrent, Refusals) {
  const HostTensor x = floats({3, 2, 1}, {1, 2, 3, 4, 5, 6}), w = floats({1, 1, 1}, {1}), r = floats({1, 1, 1}, {1});
  const auto lens = [](double a, double b) { return tensor(DataType::s32, {2}, {a, b}); };
  const auto with = [](std::string attribute, Attribute value) {
    return node_of("RNN", {{std::move(attribute), std::move(value)}});
  };
  const NodeDesc rnn = node_of("RNN");
  expect_refused(rnn, {x, w}, "RNN: has 2 inputs");
  expect_refused(rnn, {floats({1, 1}, {1}), w, r}, "input 0 (X) has dims [1x1]; rank 3 is needed");
  expect_refused(rnn, {x, floats({1, 2, 1}, {1, 1}), r}, "input 1 (W) has dims [1x2x1]; they must be [1x1x1]");
  expect_refused(rnn, {x, w, floats({1, 2, 1}, {1, 1})}, "input 2 (R) has dims [1x2x1]");
  expect_refused(node_of("LSTM"), {x, w, r}, "input 2 (R) has dims [1x1x1]; they must be [1x4x1]");
  expect_refused(rnn, {x, w, r, floats({1, 1}, {1})}, "input 3 (B) has dims [1x1]; they must be [1x2]");
  expect_refused(rnn, {x, w, r, absent(), lens(1, 4)}, "input 4 (sequence_lens) has 4 for sequence 1");
  expect_refused(rnn, {x, w, r, absent(), lens(-1, 3)}, "input 4 (sequence_lens) has -1 for sequence 0");
  expect_refused(rnn, {x, w, r, absent(), longs({2}, {1, 1})}, "input 4 has type s64");
  expect_refused(rnn, {x, w, r, absent(), absent(), floats({1, 1, 1}, {1})}, "input 5 (initial_h) has dims [1x1x1]");
  expect_refused(rnn, {x, tensor(DataType::f64, {1, 1, 1}, {1}), r}, "input 1 (W) has type f64, X has f32");
  expect_refused(with("hidden_size", std::int64_t{2}), {x, w, r}, "hidden_size=2, but input 2 (R)");
  expect_refused(with("direction", std::string("both")), {x, w, r}, "direction='both'");
  expect_refused(with("layout", std::int64_t{2}), {x, w, r}, "layout=2");
  expect_refused(with("clip", 0.0), {x, w, r}, "clip=0 is not above 0");
  expect_refused(with("activations", Strings{"Swish"}), {x, w, r}, "activations[0]='Swish' is unknown");
  expect_refused(with("activations", Strings{"Tanh", "Tanh"}), {x, w, r}, "activations has 2 names; 1 are needed");
  expect_refused(with("activations", std::string("Tanh")), {x, w, r}, "'activations' is no list of strings");
  // The same at run time, when the lengths are no constant.
  const auto late = run_op(rnn, {x, w, r, absent(), lens(1, 4)}, {.constants = false});
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("has 4 for sequence 1"), std::string::npos) << late.error().message;
}

}  // namespace
}  // namespace convoy::ops
