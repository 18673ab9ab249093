// Products of bytes with a constant matrix run as 1x1 convolutions, which integer engines compute:
//   QGemm, QLinearMatMul, MatMulInteger of x [.., K] and b [K, N]  ->  Reshape to [M, K, 1, 1], convolution, Reshape
//   back
// A DequantizeLinear of MatMulInteger's sums becomes the convolution's scales.
#include <algorithm>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"
#include "network/graph/passes/quantization.h"

namespace convoy::network {
namespace {

// Where an operator has its inputs; kAbsent: it has none of the kind.
struct OperandIndices {
  int b, a_scale, a_zero, b_scale, b_zero, bias, y_scale, y_zero;
};

std::optional<OperandIndices> operands_of(const ops::NodeDesc& desc) {
  if (desc.op == "QGemm" && desc.domain == "com.microsoft") return OperandIndices{3, 1, 2, 4, 5, 6, 7, 8};
  if (!desc.domain.empty()) return std::nullopt;
  if (desc.op == "QLinearMatMul") return OperandIndices{3, 1, 2, 4, 5, kAbsent, 6, 7};
  if (desc.op == "MatMulInteger") return OperandIndices{1, kAbsent, 2, kAbsent, 3, kAbsent, kAbsent, kAbsent};
  return std::nullopt;
}

class QuantizedProductRewriting {
 public:
  QuantizedProductRewriting(Graph& graph, const PassContext& context)
      : graph_(graph), quantized_(graph), context_(context) {}

  Result<int> run() {
    const std::size_t count = graph_.nodes.size();
    int changes = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const Node node = graph_.nodes[n];
      const auto operands = operands_of(node.desc);
      if (!operands || node.outputs.size() != 1 || !is_inferred(graph_, node)) continue;
      CONVOY_TRY(const bool changed, rewrite(static_cast<int>(n), node, *operands));
      if (changed) ++changes;
    }
    graph_.sweep();
    CONVOY_CHECK(topological_order(graph_, context_));
    return changes;
  }

 private:
  std::int64_t elements(int value) const { return graph_.values[value].desc.elements(); }

  // Absent, or of that many elements.
  bool is_sized(int value, std::initializer_list<std::int64_t> counts) const {
    return value == kAbsent ||
           (graph_.values[value].known && std::find(counts.begin(), counts.end(), elements(value)) != counts.end());
  }

  // One value a column, as a convolution's bias is; a constant may have a dim of 1 before.
  bool is_row(int value, std::int64_t columns) const {
    const Dims& dims = graph_.values[value].desc.dims;
    return dims == Dims{columns} || (dims == Dims{1, columns} && graph_.constant_of(value) != nullptr);
  }

  // What makes f32 of MatMulInteger's sums, by one scale or one a column; null: nothing, or it is not alone.
  Node* dequantizer_of(const Node& node) {
    Node* const next = node.desc.op == "MatMulInteger" ? quantized_.only_reader(node.outputs[0]) : nullptr;
    if (next == nullptr || !is_dequantize(*next) || next->inputs[0] != node.outputs[0]) return nullptr;
    const auto by = quantization_of(graph_, *next);
    if (!by || std::any_of(by->zeros.begin(), by->zeros.end(), [](double zero) { return zero != 0; })) return nullptr;
    return by->per_tensor() || by->axis == graph_.values[node.outputs[0]].desc.rank() - 1 ? next : nullptr;
  }

  Result<bool> rewrite(int n, const Node& node, const OperandIndices& operands) {
    const auto at = [&](int operand) {
      return operand != kAbsent && operand < static_cast<int>(node.inputs.size()) ? node.inputs[operand] : kAbsent;
    };
    const auto trans_a = node.desc.integer("transA", 0), trans_b = node.desc.integer("transB", 0);
    const auto alpha = node.desc.real("alpha", 1);
    if (graph_.constant_of(at(operands.b)) == nullptr) return false;
    // Copies: values move when some are added.
    const HostTensor b = *graph_.constant_of(at(operands.b));
    const Value x = graph_.values[node.inputs[0]], y = graph_.values[node.outputs[0]];
    if (!trans_a.ok() || *trans_a != 0 || !trans_b.ok() || !alpha.ok() || *alpha != 1) return false;
    if (b.desc.rank() != 2 || x.desc.rank() < 2) return false;
    const bool transposed = *trans_b != 0;
    const std::int64_t depth = b.desc.dims[transposed ? 1 : 0], columns = b.desc.dims[transposed ? 0 : 1];
    if (x.desc.elements() == 0 || depth == 0 || columns == 0 || x.desc.dims.back() != depth) return false;
    const std::int64_t rows = x.desc.elements() / depth;
    if (!is_sized(at(operands.a_scale), {1}) || !is_sized(at(operands.a_zero), {1}) ||
        !is_sized(at(operands.y_scale), {1}) || !is_sized(at(operands.y_zero), {1}) ||
        !is_sized(at(operands.b_scale), {1, columns}) || !is_sized(at(operands.b_zero), {1, columns}) ||
        !is_sized(at(operands.bias), {columns})) {
      return false;
    }
    if (at(operands.bias) != kAbsent && !is_row(at(operands.bias), columns)) return false;
    for (int operand : {operands.a_scale, operands.b_scale, operands.b_zero, operands.y_scale, operands.y_zero}) {
      if (at(operand) != kAbsent && graph_.constant_of(at(operand)) == nullptr) return false;
    }
    const bool requantizes = at(operands.y_scale) != kAbsent;
    if (requantizes && at(operands.a_zero) != kAbsent && graph_.constant_of(at(operands.a_zero)) == nullptr)
      return false;
    CONVOY_TRY(const int filters, filters_of(node, b, transposed));
    CONVOY_TRY(const int a_scale, flat(node, at(operands.a_scale)));
    CONVOY_TRY(const int own_a_zero, flat(node, at(operands.a_zero)));
    CONVOY_TRY(const int b_zero, flat(node, at(operands.b_zero)));
    CONVOY_TRY(const int y_scale, flat(node, at(operands.y_scale)));
    CONVOY_TRY(const int own_y_zero, flat(node, at(operands.y_zero)));
    CONVOY_TRY(const int b_scale, flat(node, at(operands.b_scale)));
    CONVOY_TRY(const int bias, flat(node, at(operands.bias)));
    CONVOY_TRY(const int image, reshaped(node, node.inputs[0], {rows, depth, 1, 1}));

    int real = node.outputs[0], sum_scales = kAbsent;
    DataType type = y.desc.type;
    const Dims y_dims = y.desc.dims;
    if (Node* const dequantizer = dequantizer_of(node)) {
      real = dequantizer->outputs[0];
      sum_scales = dequantizer->inputs[1];
      type = DataType::f32;
      std::vector<std::string>& sources = graph_.nodes[n].sources;
      sources.insert(sources.end(), dequantizer->sources.begin(), dequantizer->sources.end());
      dequantizer->erased = true;
    }
    Node& conv = graph_.nodes[n];
    conv.desc.domain.clear();
    conv.desc.opset = 10;
    conv.desc.attributes.clear();
    conv.desc.op = requantizes ? "QLinearConv" : "ConvInteger";
    if (requantizes) {
      CONVOY_TRY(const int a_zero, zero_or(node, own_a_zero, x.desc.type));
      CONVOY_TRY(const int w_zero, zero_or(node, b_zero, b.desc.type));
      CONVOY_TRY(const int y_zero, zero_or(node, own_y_zero, type));
      graph_.nodes[n].inputs = {image, a_scale, a_zero, filters, b_scale, w_zero, y_scale, y_zero};
      add_bias(graph_.nodes[n], bias);
    } else {
      conv.inputs = {image, filters, own_a_zero, b_zero};
      if (b_scale != kAbsent) {
        CONVOY_TRY(sum_scales, products(node, a_scale, b_scale));
      }
      if (sum_scales != kAbsent) graph_.nodes[n].fusion.scales = add_fused_input(graph_.nodes[n], sum_scales);
      add_bias(graph_.nodes[n], bias);
    }
    const int result = quantized_.new_value(node, ".columns");
    graph_.values[result].known = true;
    graph_.values[result].desc = TensorDesc::packed(type, {rows, columns, 1, 1});
    graph_.nodes[n].outputs = {result};
    return reshape_to(node, result, real, y_dims);
  }

  // As the operator's own input where it has one of this type, else behind its inputs.
  void add_bias(Node& conv, int bias) {
    if (bias == kAbsent) return;
    const ConvForm& form = *conv_form(conv);
    if (form.bias == kAbsent || graph_.values[bias].desc.type != DataType::s32) {
      conv.fusion.bias = add_fused_input(conv, bias);
    } else {
      conv.inputs.push_back(bias);
    }
  }

  Result<int> shape_constant(const Node& node, const Dims& dims) {
    return quantized_.new_constant(node, ".shape", DataType::s64, {static_cast<std::int64_t>(dims.size())},
                                   std::vector<double>(dims.begin(), dims.end()));
  }

  Result<bool> reshape_to(const Node& node, int from, int to, const Dims& dims) {
    CONVOY_TRY(const int shape, shape_constant(node, dims));
    quantized_.append(node, "Reshape", "", 13, {from, shape}, to);
    return true;
  }

  Result<int> reshaped(const Node& node, int value, const Dims& dims) {
    const int to = quantized_.new_value(node, ".rows");
    graph_.values[to].known = true;
    graph_.values[to].desc = TensorDesc::packed(graph_.values[value].desc.type, dims);
    CONVOY_CHECK(reshape_to(node, value, to, dims));
    return to;
  }

  // A constant of one dim (none for a single element), as convolutions take their parameters.
  Result<int> flat(const Node& node, int value) {
    const HostTensor* constant = graph_.constant_of(value);
    if (constant == nullptr || constant->desc.rank() <= 1) return value;
    return quantized_.new_constant(node, ".flat", constant->desc.type, {constant->desc.elements()},
                                   *small_constant(graph_, value, constant->desc.elements()));
  }

  Result<int> zero_or(const Node& node, int value, DataType type) {
    if (value != kAbsent) return value;
    return quantized_.new_constant(node, ".zero_point", type, {}, {0});
  }

  Result<int> products(const Node& node, int a_scale, int b_scale) {
    const double factor = graph_.constant_of(a_scale)->at(0);
    std::vector<double> scales = *small_constant(graph_, b_scale, elements(b_scale));
    for (double& scale : scales) scale *= factor;
    return quantized_.new_constant(node, ".scales", DataType::f32, {static_cast<std::int64_t>(scales.size())}, scales);
  }

  // [N, K, 1, 1] of [K, N], or of [N, K].
  Result<int> filters_of(const Node& node, const HostTensor& b, bool transposed) {
    const std::int64_t columns = b.desc.dims[transposed ? 0 : 1], depth = b.desc.dims[transposed ? 1 : 0];
    CONVOY_TRY(HostTensor filters, HostTensor::allocate(TensorDesc::packed(b.desc.type, {columns, depth, 1, 1})));
    const auto* from = b.as<std::uint8_t>();
    auto* to = filters.as<std::uint8_t>();
    for (std::int64_t n = 0; n < columns; ++n) {
      for (std::int64_t k = 0; k < depth; ++k)
        to[n * depth + k] = transposed ? from[n * depth + k] : from[k * columns + n];
    }
    const int id = quantized_.new_value(node, ".filters");
    graph_.values[id].known = true;
    graph_.values[id].desc = filters.desc;
    graph_.values[id].constant = std::move(filters);
    return id;
  }

  Graph& graph_;
  QuantizedGraph quantized_;
  const PassContext& context_;
};

}  // namespace

Result<int> quantized_matmul(Graph& graph, const PassContext& context) {
  return QuantizedProductRewriting(graph, context).run();
}

}  // namespace convoy::network
