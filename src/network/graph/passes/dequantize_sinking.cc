// DequantizeLinear moves behind operators that only move or select values, and what then stands between a
// DequantizeLinear and a QuantizeLinear disappears or becomes a table:
//   move(DQ(x))        ->  DQ(move(x))           Reshape, MaxPool, Concat of equally quantized parts, ...
//   Q(DQ(x))           ->  x, or a table where the two differ in scale, zero point or type
//   Q(f(DQ(x)))        ->  a table, f a function of one element (Sigmoid, Clip, ...): 256 bytes have 256 results
//   Q(Concat(DQ(x)..)) ->  QLinearConcat(x..)
// All give the bits they gave before.
#include <algorithm>
#include <array>

#include "network/graph/pass.h"
#include "network/graph/passes/quantization.h"
#include "ops/operator_row.h"

namespace convoy::network {
namespace {

ops::Values values_of(const Node& node) {
  const ops::OperatorRow* const row = ops::find_row(node.desc.domain, node.desc.op);
  return row == nullptr || !node.desc.domain.empty() ? ops::Values{} : row->values(node.desc);
}

// Whether a node only moves or selects the values of its first input, so that any increasing function may be applied
// behind instead; its other inputs are shapes and indices.
bool moves_values(const Node& node) { return values_of(node).kind == ops::Values::moved; }

bool is_function(const Node& node) {
  const ops::Values values = values_of(node);
  return values.kind == ops::Values::mapped && values.operands == std::array{0, -1};
}

class Sinking {
 public:
  Sinking(Graph& graph, const PassContext& context) : graph_(graph), quantized_(graph), context_(context) {}

  Result<int> run() {
    const std::size_t count = graph_.nodes.size();  // what is appended needs no visit
    int changes = 0;
    for (std::size_t n = 0; n < count; ++n) {
      if (graph_.nodes[n].erased) continue;
      CONVOY_TRY(const bool changed, visit(static_cast<int>(n)));
      if (changed) ++changes;
    }
    graph_.sweep();
    CONVOY_CHECK(topological_order(graph_, context_));
    return changes;
  }

 private:
  Result<bool> visit(int n) {
    const Node& node = graph_.nodes[n];
    if (is_quantize(node)) return meet(n, {});
    if (node.inputs.empty() || node.outputs.empty() || node.outputs[0] == kAbsent) return false;
    if (is_function(node)) {
      const Node* reader = quantized_.only_reader(node.outputs[0]);
      if (reader == nullptr || !is_quantize(*reader)) return false;
      return meet(static_cast<int>(reader - graph_.nodes.data()), {n});
    }
    if (node.desc.op == "Concat" && node.desc.domain.empty()) return concat(n);
    if (node.desc.op == "Pad" && node.desc.domain.empty()) return pad(n);
    if (moves_values(node)) return sink(n);
    return false;
  }

  // DequantizeLinear, the functions between, QuantizeLinear: nothing, or a table.
  Result<bool> meet(int q, std::vector<int> functions) {
    const Node quantize = graph_.nodes[q];
    const int first = functions.empty() ? q : functions.front();
    const auto from = quantized_.activation(graph_.nodes[first].inputs[0]);
    const auto to = quantization_of(graph_, quantize);
    if (!from || !to || !to->is_plain()) return false;
    const int out = quantize.outputs[0];
    if (functions.empty() && same(from->by, *to)) {
      graph_.nodes[q].erased = true;
      graph_.replace_uses(out, from->value);
      quantized_.count_readers();
      return true;
    }
    functions.push_back(q);
    CONVOY_TRY(std::optional<HostTensor> table, table_of(from->by, functions));
    if (!table) return false;
    const int id = quantized_.new_value(quantize, ".table");
    graph_.values[id].known = true;
    graph_.values[id].desc = table->desc;
    graph_.values[id].constant = std::move(*table);
    Node& lookup = quantized_.append(quantize, "Lookup", "convoy", 1, {from->value, id}, out);
    lookup.sources.clear();
    for (int f : functions) {
      lookup.sources.insert(lookup.sources.end(), graph_.nodes[f].sources.begin(), graph_.nodes[f].sources.end());
      graph_.nodes[f].erased = true;
    }
    return true;
  }

  // What the functions make of every byte, computed by themselves. Nothing where one has inputs that are not constant.
  Result<std::optional<HostTensor>> table_of(const Quantization& from, const std::vector<int>& functions) {
    Graph small;
    CONVOY_TRY(HostTensor bytes, HostTensor::allocate(TensorDesc::packed(from.type, {256})));
    for (int i = 0; i < 256; ++i) bytes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
    const auto copied = [&](int value) {
      const HostTensor* constant = graph_.constant_of(value);
      return constant == nullptr ? kAbsent : small.add_constant(graph_.values[value].name, *constant);
    };
    Node dequantize;
    dequantize.desc.op = "DequantizeLinear";
    dequantize.inputs = {small.add_constant("bytes", std::move(bytes)), copied(from.scale)};
    if (from.zero != kAbsent) dequantize.inputs.push_back(copied(from.zero));
    int last = small.add_value("real");
    dequantize.outputs = {last};
    small.nodes.push_back(dequantize);
    for (int f : functions) {
      Node node = graph_.nodes[f];
      node.inputs = {last};
      for (std::size_t i = 1; i < graph_.nodes[f].inputs.size(); ++i) {
        const int value = graph_.nodes[f].inputs[i];
        node.inputs.push_back(copied(value));
        if (value != kAbsent && node.inputs.back() == kAbsent) return std::optional<HostTensor>();
      }
      last = small.add_value("step");
      node.outputs = {last};
      small.nodes.push_back(std::move(node));
    }
    CONVOY_CHECK(constant_folding(small, context_));
    return small.values[last].constant;
  }

  Result<bool> sink(int n) {
    const auto from = quantized_.activation(graph_.nodes[n].inputs[0]);
    if (!from) return false;
    graph_.nodes[n].inputs[0] = from->value;
    const std::size_t moved = graph_.nodes[n].desc.op == "Split" ? graph_.nodes[n].outputs.size() : 1;
    for (std::size_t i = 0; i < moved; ++i) dequantize_behind(n, i, from->by);
    return true;
  }

  // Output `index` becomes a quantized value, and a DequantizeLinear behind makes what it was.
  void dequantize_behind(int n, std::size_t index, const Quantization& by) {
    const int real = graph_.nodes[n].outputs[index];
    if (real == kAbsent) return;
    const int bytes = quantized_.new_value(graph_.nodes[n], ".quantized");
    graph_.values[bytes].known = graph_.values[real].known;
    graph_.values[bytes].desc = TensorDesc::packed(by.type, graph_.values[real].desc.dims);
    graph_.nodes[n].outputs[index] = bytes;
    std::vector<int> inputs = {bytes, by.scale};
    if (by.zero != kAbsent) inputs.push_back(by.zero);
    const Node like = graph_.nodes[n];
    quantized_.append(like, "DequantizeLinear", "", 13, std::move(inputs), real);
  }

  // Padding with zeros is padding with the zero point.
  Result<bool> pad(int n) {
    const Node node = graph_.nodes[n];
    const auto mode = node.desc.text("mode", "constant");
    if (node.desc.opset < 11 || !mode.ok()) return false;
    const auto from = quantized_.activation(node.inputs[0]);
    if (!from) return false;
    if (*mode == "constant") {
      const bool given = node.inputs.size() > 2 && node.inputs[2] != kAbsent;
      if (given && scalar_constant(graph_, node.inputs[2]) != 0.0) return false;
      CONVOY_TRY(const int zero, quantized_.zero_of(node, from->by));
      graph_.nodes[n].inputs.resize(std::max<std::size_t>(node.inputs.size(), 3), kAbsent);
      graph_.nodes[n].inputs[2] = zero;
    } else if (node.inputs.size() > 2) {
      graph_.nodes[n].inputs[2] = kAbsent;  // a value that nothing is padded with, of the type that was
    }
    return sink(n);
  }

  Result<bool> concat(int n) {
    const Node node = graph_.nodes[n];
    std::vector<Dequantized> parts;
    for (int input : node.inputs) {
      const auto part = quantized_.activation(input);
      if (!part || (!parts.empty() && part->by.type != parts.front().by.type)) return false;
      parts.push_back(*part);
    }
    const Quantization first = parts.front().by;
    if (std::all_of(parts.begin(), parts.end(), [&](const Dequantized& part) { return same(part.by, first); })) {
      for (std::size_t i = 0; i < parts.size(); ++i) graph_.nodes[n].inputs[i] = parts[i].value;
      dequantize_behind(n, 0, first);
      return true;
    }
    Node* quantize = quantized_.only_reader(node.outputs[0]);
    if (quantize == nullptr || !is_quantize(*quantize)) return false;
    const auto to = quantization_of(graph_, *quantize);
    if (!to || !to->is_plain() || to->type != first.type) return false;
    quantize->erased = true;
    graph_.nodes[n].erased = true;
    const int out = quantize->outputs[0];
    CONVOY_TRY(const int zero, quantized_.zero_of(node, *to));
    std::vector<int> inputs = {to->scale, zero};
    for (const Dequantized& part : parts) inputs.insert(inputs.end(), {part.value, part.by.scale, part.by.zero});
    quantized_.append(node, "QLinearConcat", "com.microsoft", 1, std::move(inputs), out).desc.attributes =
        node.desc.attributes;
    return true;
  }

  Graph& graph_;
  QuantizedGraph quantized_;
  const PassContext& context_;
};

}  // namespace

Result<int> dequantize_sinking(Graph& graph, const PassContext& context) { return Sinking(graph, context).run(); }

}  // namespace convoy::network
