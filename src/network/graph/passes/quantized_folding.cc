// Float operators between DequantizeLinear and QuantizeLinear become operators on integers:
//   Q(act(Conv(DQ(x), DQ(w)) + bias))  ->  QLinearConv; without a Q, a ConvInteger whose sums become f32
//   Gemm                               ->  QGemm, to bytes or f32
//   MatMul                             ->  QLinearMatMul; without a Q, MatMulInteger and a DequantizeLinear
//   Add, Mul, AveragePool, GlobalAveragePool, Softmax, all with a Q  ->  QLinearAdd, ...
// The activation between (Relu, Clip) becomes part of the convolution, or nothing where rounding to bytes does the
// same, or a Clip of the bytes. Nothing is folded where what would disappear has other readers or is an output.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"
#include "network/graph/passes/activations.h"
#include "network/graph/passes/quantization.h"

namespace convoy::network {
namespace {

constexpr const char* kMicrosoft = "com.microsoft";

// What follows a float operator up to its QuantizeLinear.
struct Behind {
  Node* activation = nullptr;
  Node* quantize = nullptr;
  Activation function;  // identity without an activation
  Quantization to;
};

bool is_8_bit(DataType type) { return type == DataType::s8 || type == DataType::u8; }

class Folding {
 public:
  Folding(Graph& graph, const PassContext& context) : graph_(graph), quantized_(graph), context_(context) {}

  Result<int> run() {
    const std::size_t count = graph_.nodes.size();
    graph_.nodes.reserve(2 * count);  // each fold appends at most one node: references to nodes stay good
    int changes = 0;
    for (std::size_t n = 0; n < count; ++n) {
      Node& node = graph_.nodes[n];
      if (node.erased || !node.desc.domain.empty() || node.outputs.size() != 1 || !is_inferred(graph_, node)) continue;
      CONVOY_TRY(const bool changed, fold(node));
      if (changed) ++changes;
    }
    graph_.sweep();
    CONVOY_CHECK(topological_order(graph_, context_));
    return changes;
  }

 private:
  Result<bool> fold(Node& node) {
    const std::string& op = node.desc.op;
    if (op == "Conv") return conv(node);
    if (op == "Gemm") return gemm(node);
    if (op == "MatMul") return matmul(node);
    if (op == "Add" || op == "Mul") return binary(node);
    if (op == "AveragePool" || op == "GlobalAveragePool" || op == "Softmax") return unary(node);
    return false;
  }

  std::optional<Behind> behind(const Node& node) {
    Behind result;
    Node* next = quantized_.only_reader(node.outputs[0]);
    if (next != nullptr && !is_quantize(*next)) {
      const auto function = activation_of(graph_, *next);
      if (!function || next->inputs[0] != node.outputs[0] || next->outputs.size() != 1) return std::nullopt;
      result.activation = next;
      result.function = *function;
      next = quantized_.only_reader(next->outputs[0]);
    }
    if (next == nullptr || !is_quantize(*next)) return std::nullopt;
    const auto to = quantization_of(graph_, *next);
    if (!to || !to->is_plain()) return std::nullopt;
    result.quantize = next;
    result.to = *to;
    return result;
  }

  // The bytes that the bounds of a Relu or Clip become; nothing for other functions.
  static std::optional<std::pair<double, double>> bounds(const Behind& behind) {
    const Activation& f = behind.function;
    const Quantization& to = behind.to;
    if (f.kind == ActivationKind::identity) return std::pair{to.lowest(), to.highest()};
    if (f.kind == ActivationKind::relu) return std::pair{to.quantized(0), to.highest()};
    if (f.kind == ActivationKind::clip) return std::pair{to.quantized(f.a), to.quantized(f.b)};
    return std::nullopt;
  }

  // `node` takes over what it absorbed: its result becomes the QuantizeLinear's, through a Clip where bounds are left.
  Result<void> finish(Node& node, const Behind& behind, std::pair<double, double> bounds) {
    for (Node* absorbed : {behind.activation, behind.quantize}) {
      if (absorbed == nullptr) continue;
      node.sources.insert(node.sources.end(), absorbed->sources.begin(), absorbed->sources.end());
      absorbed->erased = true;
    }
    const int out = behind.quantize->outputs[0];
    if (bounds.first <= behind.to.lowest() && bounds.second >= behind.to.highest()) {
      node.outputs = {out};
      return {};
    }
    CONVOY_TRY(const int low, quantized_.new_constant(node, ".min", behind.to.type, {}, {bounds.first}));
    CONVOY_TRY(const int high, quantized_.new_constant(node, ".max", behind.to.type, {}, {bounds.second}));
    const int unclipped = quantized_.new_value(node, ".unclipped");
    graph_.values[unclipped].known = graph_.values[out].known;
    graph_.values[unclipped].desc = graph_.values[out].desc;
    node.outputs = {unclipped};
    Node& clip = quantized_.append(node, "Clip", "", 13, {unclipped, low, high}, out);
    clip.sources = behind.activation->sources;
    return {};
  }

  void rename(Node& node, const char* op, const char* domain) {
    node.desc.op = op;
    node.desc.domain = domain;
    if (*domain != 0) node.desc.opset = 1;
  }

  // The bias of a node that multiplies by scale[k] = x_scale * w_scale[k], in units of it; kAbsent: it has none.
  struct Bias {
    int value = kAbsent;
    bool is_float = false;
  };

  // `value` itself where it is a DequantizeLinear of that scale, else of constants: whole numbers where these say the
  // same, f32 otherwise. `y_scale`: of a result in bytes, of which rounding may move so little that no step is lost.
  // Nothing: it is no such bias.
  Result<std::optional<Bias>> bias_of(const Node& node, int value, const std::vector<double>& scales,
                                      std::int64_t channels, std::optional<double> y_scale) {
    const auto scale_at = [&](std::size_t k) { return scales[scales.size() == 1 ? 0 : k]; };
    const Dims& dims = graph_.values[value].desc.dims;
    if (!graph_.values[value].known || dims.empty() || dims.back() != channels) return std::optional<Bias>();
    const auto source = quantized_.dequantized(value);
    std::vector<double> real;
    if (source) {
      const Quantization& by = source->by;
      if (graph_.values[source->value].desc.elements() != channels) return std::optional<Bias>();
      const auto at = [&](std::size_t k) { return by.per_tensor() ? 0 : k; };
      bool equal = by.type == DataType::s32 &&
                   std::all_of(by.zeros.begin(), by.zeros.end(), [](double zero) { return zero == 0; });
      for (std::size_t k = 0; k < static_cast<std::size_t>(channels); ++k) {
        equal = equal && std::abs(by.scales[at(k)] - scale_at(k)) <= 1e-6 * scale_at(k);
      }
      if (equal) return std::optional(Bias{source->value});
      const auto integers = small_constant(graph_, source->value);
      if (!integers) return std::optional<Bias>();
      for (std::size_t k = 0; k < integers->size(); ++k) {
        real.push_back(((*integers)[k] - by.zeros[at(k)]) * by.scales[at(k)]);
      }
    } else {
      const auto constant = small_constant(graph_, value);
      if (!constant || static_cast<std::int64_t>(constant->size()) != channels) return std::optional<Bias>();
      real = *constant;
    }
    constexpr double kLeastOfStep = 1.0 / 64, kExact = 0x1p-22;
    std::vector<double> rounded;
    bool whole = true;
    for (std::size_t k = 0; k < real.size(); ++k) {
      real[k] /= scale_at(k);
      if (!(std::abs(real[k]) <= std::numeric_limits<float>::max())) return std::optional<Bias>();
      rounded.push_back(std::nearbyint(real[k]));
      const double apart = std::abs(rounded[k] - real[k]);
      const bool unseen = y_scale && apart * scale_at(k) <= kLeastOfStep * *y_scale;
      whole = whole && std::abs(rounded[k]) <= std::numeric_limits<std::int32_t>::max() &&
              (unseen || apart <= kExact * std::abs(real[k]));
    }
    CONVOY_TRY(const int id, quantized_.new_constant(node, ".bias", whole ? DataType::s32 : DataType::f32, {channels},
                                                     whole ? rounded : real));
    return std::optional(Bias{id, !whole});
  }

  // Of a result in f32, or bytes where something is given: whether f32 holds the factors of sums.
  static bool holds(const std::vector<double>& scales, std::optional<double> y_scale) {
    return std::all_of(scales.begin(), scales.end(), [&](double scale) {
      const double factor = scale / y_scale.value_or(1);
      return factor >= std::numeric_limits<float>::min() && factor <= std::numeric_limits<float>::max();
    });
  }

  static std::vector<double> products(const Quantization& x, const Quantization& w) {
    std::vector<double> scales;
    for (double scale : w.scales) scales.push_back(x.scales.front() * scale);
    return scales;
  }

  Result<bool> conv(Node& node) {
    const auto x = quantized_.activation(node.inputs[0]);
    const auto w = node.inputs.size() > 1 ? quantized_.dequantized(node.inputs[1]) : std::nullopt;
    if (!x || !w || !is_8_bit(w->by.type) || (!w->by.per_tensor() && w->by.axis != 0)) return false;
    const Dims& w_dims = graph_.values[w->value].desc.dims;
    if (w_dims.size() < 3 || node.fusion.residual != kAbsent) return false;
    const std::int64_t channels = w_dims[0];
    const auto next = behind(node);
    auto limits = next ? bounds(*next) : std::nullopt;
    const bool leaky = next && next->function.kind == ActivationKind::leaky_relu;
    const bool to_bytes = limits || leaky;
    const auto y_scale = to_bytes ? std::optional(next->to.scales.front()) : std::nullopt;
    const std::vector<double> scales = products(x->by, w->by);
    if (!holds(scales, y_scale)) return false;
    Bias bias;
    if (node.inputs.size() > 2 && node.inputs[2] != kAbsent) {
      CONVOY_TRY(const std::optional<Bias> found, bias_of(node, node.inputs[2], scales, channels, y_scale));
      if (!found) return false;
      bias = *found;
    }
    CONVOY_TRY(const int x_zero, quantized_.zero_of(node, x->by));
    CONVOY_TRY(const int w_zero, w->by.per_tensor() ? quantized_.zero_of(node, w->by) : Result<int>(w->by.zero));
    if (!to_bytes) {  // nothing behind that it could take: the sums become f32
      const std::int64_t count = static_cast<std::int64_t>(scales.size());
      CONVOY_TRY(const int scale, quantized_.new_constant(node, ".scales", DataType::f32, {count}, scales));
      rename(node, "ConvInteger", "");
      node.inputs = {x->value, w->value, x_zero, w_zero, scale};
      node.fusion.scales = 4;
      if (bias.value != kAbsent) {
        node.inputs.push_back(bias.value);
        node.fusion.bias = 5;
      }
      return true;
    }
    CONVOY_TRY(const int w_zeros, w_zero != kAbsent
                                      ? Result<int>(w_zero)
                                      : quantized_.new_constant(node, ".w_zero_point", w->by.type, {channels},
                                                                std::vector<double>(channels, 0)));
    CONVOY_TRY(const int y_zero, quantized_.zero_of(node, next->to));
    rename(node, "QLinearConv", "");
    node.inputs = {x->value, x->by.scale, x_zero, w->value, w->by.scale, w_zeros, next->to.scale, y_zero};
    if (bias.is_float) {
      node.fusion.bias = add_fused_input(node, bias.value);
    } else {
      node.inputs.push_back(bias.value);
    }
    if (leaky) {
      node.fusion.activation = next->function;
      limits = std::pair{next->to.lowest(), next->to.highest()};
    } else if (next->function.kind == ActivationKind::relu && limits->first > next->to.lowest()) {
      node.fusion.activation = next->function;
      limits->first = next->to.lowest();
    }
    CONVOY_CHECK(finish(node, *next, *limits));
    return true;
  }

  Result<bool> gemm(Node& node) {
    const auto a = quantized_.activation(node.inputs[0]);
    const auto b = node.inputs.size() > 1 ? quantized_.dequantized(node.inputs[1]) : std::nullopt;
    const auto trans_b = node.desc.integer("transB", 0);
    const auto alpha = node.desc.real("alpha", 1);
    const auto beta = node.desc.real("beta", 1);
    if (!a || !b || !is_8_bit(b->by.type) || !trans_b.ok() || !alpha.ok() || !beta.ok() || *alpha != 1) return false;
    const int column_axis = *trans_b != 0 ? 0 : 1;
    const Dims& b_dims = graph_.values[b->value].desc.dims;
    if (b_dims.size() != 2 || (!b->by.per_tensor() && b->by.axis != column_axis)) return false;
    const auto next = behind(node);
    const auto limits = next ? bounds(*next) : std::nullopt;
    const auto y_scale = limits ? std::optional(next->to.scales.front()) : std::nullopt;
    const std::vector<double> scales = products(a->by, b->by);
    if (!holds(scales, y_scale)) return false;
    Bias bias;
    if (node.inputs.size() > 2 && node.inputs[2] != kAbsent) {
      if (*beta != 1) return false;
      CONVOY_TRY(const std::optional<Bias> found, bias_of(node, node.inputs[2], scales, b_dims[column_axis], y_scale));
      if (!found) return false;
      bias = *found;
    }
    CONVOY_TRY(const int a_zero, quantized_.zero_of(node, a->by));
    CONVOY_TRY(const int b_zero, b_zero_of(node, b->by));
    std::map<std::string, ops::Attribute> attributes;
    for (const char* name : {"transA", "transB"}) {
      if (node.desc.has(name)) attributes.emplace(name, node.desc.attributes.at(name));
    }
    rename(node, "QGemm", kMicrosoft);
    node.desc.attributes = std::move(attributes);
    node.inputs = {a->value, a->by.scale, a_zero, b->value, b->by.scale, b_zero, bias.value};
    if (!limits) return true;
    CONVOY_TRY(const int y_zero, quantized_.zero_of(node, next->to));
    node.inputs.insert(node.inputs.end(), {next->to.scale, y_zero});
    CONVOY_CHECK(finish(node, *next, *limits));
    return true;
  }

  // One zero point, or one a column.
  Result<int> b_zero_of(const Node& node, const Quantization& by) {
    if (by.zero != kAbsent) return by.zero;
    const auto count = static_cast<std::int64_t>(by.zeros.size());
    return quantized_.new_constant(node, ".b_zero_point", by.type, by.per_tensor() ? Dims{} : Dims{count}, by.zeros);
  }

  Result<bool> matmul(Node& node) {
    const auto a = quantized_.activation(node.inputs[0]);
    const auto b = node.inputs.size() > 1 ? quantized_.dequantized(node.inputs[1]) : std::nullopt;
    if (!a || !b || !is_8_bit(b->by.type)) return false;
    const int rank = graph_.values[b->value].desc.rank();
    const Value y = graph_.values[node.outputs[0]];
    if (rank < 2 || !y.known || (!b->by.per_tensor() && (rank != 2 || b->by.axis != 1))) return false;
    CONVOY_TRY(const int a_zero, quantized_.zero_of(node, a->by));
    CONVOY_TRY(const int b_zero, b_zero_of(node, b->by));
    const auto next = behind(node);
    const auto limits = next ? bounds(*next) : std::nullopt;
    const std::vector<double> scales = products(a->by, b->by);
    if (!holds(scales, limits ? std::optional(next->to.scales.front()) : std::nullopt)) return false;
    if (limits) {
      CONVOY_TRY(const int y_zero, quantized_.zero_of(node, next->to));
      rename(node, "QLinearMatMul", "");
      node.inputs = {a->value, a->by.scale, a_zero, b->value, b->by.scale, b_zero, next->to.scale, y_zero};
      CONVOY_CHECK(finish(node, *next, *limits));
      return true;
    }
    const auto count = static_cast<std::int64_t>(scales.size());
    CONVOY_TRY(const int scale, quantized_.new_constant(node, ".scales", DataType::f32,
                                                        b->by.per_tensor() ? Dims{} : Dims{count}, scales));
    const int real = node.outputs[0];
    const int sums = quantized_.new_value(node, ".sums");
    graph_.values[sums].known = true;
    graph_.values[sums].desc = TensorDesc::packed(DataType::s32, y.desc.dims);
    rename(node, "MatMulInteger", "");
    node.inputs = {a->value, b->value, a_zero, b_zero};
    node.outputs = {sums};
    Node& back = quantized_.append(node, "DequantizeLinear", "", 13, {sums, scale}, real);
    back.desc.attributes = {{"axis", std::int64_t{-1}}};
    return true;
  }

  Result<bool> binary(Node& node) {
    if (node.desc.opset < 7 || node.inputs.size() != 2) return false;
    const auto a = quantized_.activation(node.inputs[0]), b = quantized_.activation(node.inputs[1]);
    if (!a || !b) return false;
    const auto next = behind(node);
    const auto limits = next ? bounds(*next) : std::nullopt;
    if (!limits || a->by.type != next->to.type || b->by.type != next->to.type) return false;
    rename(node, node.desc.op == "Add" ? "QLinearAdd" : "QLinearMul", kMicrosoft);
    node.desc.attributes.clear();
    node.inputs = {a->value, a->by.scale, a->by.zero, b->value, b->by.scale, b->by.zero, next->to.scale, next->to.zero};
    CONVOY_CHECK(finish(node, *next, *limits));
    return true;
  }

  Result<bool> unary(Node& node) {
    const auto x = quantized_.activation(node.inputs[0]);
    const auto next = behind(node);
    const auto limits = next ? bounds(*next) : std::nullopt;
    if (!x || !limits || x->by.type != next->to.type || node.inputs.size() != 1) return false;
    const int rank = graph_.values[x->value].desc.rank();
    if (node.desc.op != "Softmax" && (rank < 3 || rank > 5)) return false;
    if (node.desc.op == "Softmax") node.desc.attributes["opset"] = std::int64_t{node.desc.opset};
    rename(node, ("QLinear" + node.desc.op).c_str(), kMicrosoft);
    node.inputs = {x->value, x->by.scale, x->by.zero, next->to.scale, next->to.zero};
    CONVOY_CHECK(finish(node, *next, *limits));
    return true;
  }

  Graph& graph_;
  QuantizedGraph quantized_;
  const PassContext& context_;
};

}  // namespace

Result<int> quantized_folding(Graph& graph, const PassContext& context) { return Folding(graph, context).run(); }

}  // namespace convoy::network
