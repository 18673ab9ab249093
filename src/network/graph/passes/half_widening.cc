// Networks in f16 and bf16 run in f32 where the processor computes that faster: engines for 16 bits would convert each
// layer's tensors to f32 and back (cpu.in_f32, onednn.in_f32). Inputs are converted once, outputs back, constants now.
// Nothing is rounded to 16 bits in between, so results are as precise or more.
#include <algorithm>
#include <array>

#include "network/graph/infer.h"
#include "network/graph/pass.h"

namespace convoy::network {
namespace {

constexpr std::int64_t kOnnxFloat = 1, kOnnxFloat16 = 10, kOnnxBfloat16 = 16;

// No processor's f16 engines are faster so far; bf16 is where there are matrix units. (vdpbf16ps, AVX512-BF16, does
// half as many products a second as f32's FMAs: ResNet-50 took 1.5 times as long in bf16.)
bool is_widened(DataType type, const CpuFeatures& cpu) {
  return type == DataType::f16 || (type == DataType::bf16 && !cpu.amx_bf16);
}

std::int64_t onnx_type(DataType type) { return type == DataType::f16 ? kOnnxFloat16 : kOnnxBfloat16; }

bool is_widened_onnx(std::int64_t type, const CpuFeatures& cpu) {
  return (type == kOnnxFloat16 && is_widened(DataType::f16, cpu)) ||
         (type == kOnnxBfloat16 && is_widened(DataType::bf16, cpu));
}

class Widening {
 public:
  Widening(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  Result<int> run() {
    const bool worth = std::ranges::any_of(graph_.nodes, [&](const Node& node) {
      return node.conv && is_widened(node.conv->problem.x.type, context_.cpu);
    });
    if (!worth) return 0;
    std::vector<std::optional<DataType>> inputs, outputs;
    for (const int id : graph_.inputs) inputs.push_back(half_of(graph_.values[id]));
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Value& value = graph_.values[graph_.outputs[i]];
      if (!value.known && i >= graph_.output_info.size()) return 0;  // whose type nobody knows yet
      outputs.push_back(value.known ? half_of(value) : declared_half(i));
    }
    CONVOY_CHECK(widen_all());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]) cast_output(graph_.outputs[i], *outputs[i]);
    }
    std::vector<Node> casts;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]) casts.push_back(cast_input(graph_.inputs[i], *inputs[i]));
    }
    graph_.nodes.insert(graph_.nodes.begin(), casts.begin(), casts.end());
    CONVOY_CHECK(shape_inference(graph_, context_));
    drop_casts();
    return changes_;
  }

 private:
  // Its type, where that is widened.
  std::optional<DataType> half_of(const Value& value) const {
    return value.known && is_widened(value.desc.type, context_.cpu) ? std::optional(value.desc.type) : std::nullopt;
  }
  // Of an output that is known only when the network runs.
  std::optional<DataType> declared_half(std::size_t output) const {
    if (output >= graph_.output_info.size()) return std::nullopt;
    const DataType type = graph_.output_info[output].type;
    return is_widened(type, context_.cpu) ? std::optional(type) : std::nullopt;
  }

  // Bodies too: what they get is f32 then.
  Result<void> widen_all() {
    for (Node& node : graph_.nodes) {
      CONVOY_CHECK(widen_attributes(node));
      for (auto& body : node.bodies) {
        Graph wide = *body;
        CONVOY_CHECK(Widening(wide, context_).widen_all());
        body = std::make_shared<const Graph>(std::move(wide));
      }
    }
    for (Value& value : graph_.values) CONVOY_CHECK(widen(value));
    return {};
  }

  // Of Cast and of what makes values from nothing: the element type of the output.
  Result<void> widen_attributes(Node& node) const {
    for (const char* name : {"to", "dtype", "output_dtype", "output_datatype"}) {
      const auto found = node.desc.attributes.find(name);
      if (found == node.desc.attributes.end()) continue;
      if (auto* type = std::get_if<std::int64_t>(&found->second); type && is_widened_onnx(*type, context_.cpu)) {
        *type = kOnnxFloat;
      }
    }
    for (auto& [name, attribute] : node.desc.attributes) {
      auto* tensor = std::get_if<HostTensor>(&attribute);
      if (tensor == nullptr || !is_widened(tensor->desc.type, context_.cpu)) continue;
      CONVOY_TRY(*tensor, converted(*tensor, TensorDesc::packed(DataType::f32, tensor->desc.dims)));
    }
    return {};
  }

  Result<void> widen(Value& value) {
    if (!value.known || !is_widened(value.desc.type, context_.cpu)) return {};
    value.desc = TensorDesc::packed(DataType::f32, value.desc.dims);
    if (value.constant) {
      auto wide = converted(*value.constant, value.desc);
      if (!wide.ok()) return wide.error().within("constant '" + value.name + "' in f32");
      value.constant = std::move(*wide);
    }
    ++changes_;
    return {};
  }

  Node cast(int from, int to, std::int64_t type) const {
    Node node;
    node.desc.op = "Cast";
    node.desc.name = graph_.values[to].name;
    node.desc.attributes["to"] = type;
    node.inputs = {from};
    node.outputs = {to};
    node.sources = {node.desc.name};
    return node;
  }

  // The input keeps its name and type; whoever read it reads what is made of it.
  Node cast_input(int id, DataType type) {
    const int wide = graph_.add_value(graph_.values[id].name + " in f32");
    graph_.replace_uses(id, wide);
    graph_.values[id].desc = TensorDesc::packed(type, graph_.values[id].desc.dims);
    return cast(id, wide, kOnnxFloat);
  }

  // The output's name goes to what has its type.
  void cast_output(int& output, DataType type) {
    const int narrow = graph_.add_value(graph_.values[output].name);
    graph_.values[output].name += " in f32";
    graph_.values[narrow].known = graph_.values[output].known;
    graph_.values[narrow].desc = TensorDesc::packed(type, graph_.values[output].desc.dims);
    graph_.nodes.push_back(cast(output, narrow, onnx_type(type)));
    output = narrow;
  }

  // From f32 to f32, as those at the borders of a network that a converter narrowed are now. A graph's output keeps
  // its name: who makes the input makes it instead.
  void drop_casts() {
    for (Node& node : graph_.nodes) {
      if (node.desc.op != "Cast" || !node.desc.domain.empty()) continue;
      const int from = node.inputs[0], to = node.outputs[0];
      const bool same = graph_.values[from].known && graph_.values[to].known &&
                        graph_.values[from].desc.type == graph_.values[to].desc.type;
      if (!same) continue;
      if (!graph_.is_output(to)) {
        graph_.replace_uses(to, from);
      } else if (const int maker = graph_.producers()[from]; maker != kAbsent && !graph_.is_output(from)) {
        std::ranges::replace(graph_.nodes[maker].outputs, from, to);
        graph_.replace_uses(from, to);
      } else {
        continue;
      }
      node.erased = true;
    }
    graph_.sweep();
  }

  Graph& graph_;
  const PassContext& context_;
  int changes_ = 0;  // values
};

}  // namespace

Result<int> half_widening(Graph& graph, const PassContext& context) {
  return context.on_gpu ? 0 : Widening(graph, context).run();  // GPUs compute in both
}

}  // namespace convoy::network
