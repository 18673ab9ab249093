#include "ort/model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ort/wire.h"

namespace convoy::ort {
namespace {

// Fields of onnx.proto.
enum Model { ir_version = 1, graph_of_model = 7, opset_import = 8 };
enum Opset { domain_of_opset = 1, version_of_opset = 2 };
enum Graph { node_of_graph = 1, name_of_graph = 2, initializer = 5, input_of_graph = 11, output_of_graph = 12 };
enum Node { input_of_node = 1, output_of_node, name_of_node, op_type, attribute_of_node, domain_of_node = 7 };
enum Attribute { name_of_attribute = 1, f, i, s, t, floats = 7, ints, strings, type_of_attribute = 20 };
enum Tensor { dims = 1, data_type = 2, name_of_tensor = 8, raw_data = 9 };
enum Value { name_of_value = 1, type_of_value = 2, tensor_type = 1, elem_type = 1, shape = 2, dim = 1 };
enum Dimension { dim_value = 1, dim_param = 2 };
constexpr int kStringElements = 8;  // TensorProto.DataType
// AttributeProto.AttributeType by AttributeType.
constexpr int kAttributeTypes[] = {0, 2, 7, 1, 6, 3, 8, 5, 4};

Error unsupported(std::string message) { return {ErrorCode::unsupported, std::move(message)}; }

class Encoder {
 public:
  Encoder(const Api& api, const OrtGraph* graph, const std::set<std::string>& checked)
      : api_(api), graph_(graph), checked_(checked) {}

  Result<GraphModel> run() {
    CONVOY_TRY(const auto nodes,
               (list_of<const OrtNode*, OrtGraph>(api_, api_.Graph_GetNumNodes, api_.Graph_GetNodes, graph_)));
    Message graph;
    graph.text(name_of_graph, "onnxruntime");
    for (const OrtNode* node : nodes) {
      CONVOY_TRY(const Message encoded, encode(node));
      graph.message(node_of_graph, encoded);
    }
    CONVOY_TRY(const auto inputs,
               (list_of<const OrtValueInfo*, OrtGraph>(api_, api_.Graph_GetNumInputs, api_.Graph_GetInputs, graph_)));
    std::set<std::string> seen;
    for (const OrtValueInfo* input : inputs) {
      CONVOY_TRY(const std::string name, name_of(api_, input));
      // 1.23 lists both, and values around a body as often as they are read.
      if (constants_.contains(name) || made_here_.contains(name) || !seen.insert(name).second) continue;
      CONVOY_TRY(TensorInfo info, encode(input, name, input_of_graph, graph));
      const bool free = std::ranges::any_of(info.dims, [](std::int64_t size) { return size < 0; });
      if (!says_sizes(name, info) || free) made_.fixed = false;
      made_.inputs.push_back(name);
      made_.input_infos.push_back(std::move(info));
    }
    CONVOY_TRY(const auto outputs,
               (list_of<const OrtValueInfo*, OrtGraph>(api_, api_.Graph_GetNumOutputs, api_.Graph_GetOutputs, graph_)));
    for (const OrtValueInfo* output : outputs) {
      CONVOY_TRY(std::string name, name_of(api_, output));
      CONVOY_TRY(const TensorInfo info, encode(output, name, output_of_graph, graph));
      made_.outputs.push_back(std::move(name));
    }
    Message model;
    model.number(ir_version, 10);
    CONVOY_CHECK(encode_opsets(model));
    for (const Message& each : initializers_) graph.message(initializer, each);
    made_.onnx = model.message(graph_of_model, graph).bytes();
    return std::move(made_);
  }

 private:
  // A tensor up to its values.
  struct Constant {
    Message before;
    std::string_view values;
  };

  Result<void> encode_opsets(Message& model) {
    std::size_t count = 0;
    CONVOY_CHECK(done(api_, api_.Graph_GetNumOperatorSets(graph_, &count)));
    std::vector<const char*> domains(count);
    std::vector<std::int64_t> versions(count);
    CONVOY_CHECK(done(api_, api_.Graph_GetOperatorSets(graph_, domains.data(), versions.data(), count)));
    for (std::size_t k = 0; k < count; ++k) {
      model.message(opset_import, Message().text(domain_of_opset, domains[k]).number(version_of_opset, versions[k]));
    }
    return {};
  }

  Result<Message> encode(const OrtNode* node) {
    const char *name = nullptr, *op = nullptr, *domain = nullptr;
    CONVOY_CHECK(done(api_, api_.Node_GetName(node, &name)));
    CONVOY_CHECK(done(api_, api_.Node_GetOperatorType(node, &op)));
    CONVOY_CHECK(done(api_, api_.Node_GetDomain(node, &domain)));
    const std::string what = std::string(op) + " '" + name + "'";
    std::size_t bodies = 0;
    CONVOY_CHECK(done(api_, api_.Node_GetNumSubgraphs(node, &bodies)));
    if (bodies > 0) return unsupported(what + " has a body");
    Message encoded;
    encoded.text(name_of_node, name).text(op_type, op).text(domain_of_node, domain);
    CONVOY_TRY(const auto inputs, inputs_of(api_, node));
    for (const OrtValueInfo* input : inputs) {
      CONVOY_TRY(const std::string value, name_of(api_, input));
      encoded.text(input_of_node, value);
      if (!value.empty()) CONVOY_CHECK(encode_constant(input, value));
    }
    CONVOY_TRY(const auto outputs, outputs_of(api_, node));
    for (const OrtValueInfo* output : outputs) {
      CONVOY_TRY(const std::string value, name_of(api_, output));
      encoded.text(output_of_node, value);
      made_here_.insert(value);
    }
    CONVOY_TRY(const auto attributes,
               (list_of<const OrtOpAttr*, OrtNode>(api_, api_.Node_GetNumAttributes, api_.Node_GetAttributes, node)));
    for (const OrtOpAttr* attribute : attributes) {
      const auto made = encode(attribute);
      if (!made.ok()) return made.error().within(what);
      encoded.message(attribute_of_node, *made);
    }
    return encoded;
  }

  Result<Message> encode(const OrtOpAttr* attribute) {
    const char* name = nullptr;
    int type = 0;
    CONVOY_CHECK(done(api_, api_.OpAttr_GetName(attribute, &name)));
    CONVOY_CHECK(done(api_, api_.OpAttr_GetType(attribute, &type)));
    if (type < kInt || type > kTensor || type == kGraph) {
      return unsupported("attribute '" + std::string(name) + "' is of another kind");
    }
    Message encoded;
    encoded.text(name_of_attribute, name).number(type_of_attribute, kAttributeTypes[type]);
    if (type == kTensor) {
      OrtValue* tensor = nullptr;
      CONVOY_CHECK(done(api_, api_.OpAttr_GetTensorAttributeAsOrtValue(attribute, &tensor)));
      auto made = encode(tensor, "");
      if (made.ok()) encoded.message(t, Message(made->before).text(raw_data, made->values));
      api_.ReleaseValue(tensor);
      if (!made.ok()) return made.error();
      return encoded;
    }
    std::size_t size = 0;
    // The first call says how many bytes there are; an empty list has none.
    if (OrtStatus* asked = api_.ReadOpAttr(attribute, type, nullptr, 0, &size)) api_.ReleaseStatus(asked);
    std::string data(size, '\0');
    if (size > 0) CONVOY_CHECK(done(api_, api_.ReadOpAttr(attribute, type, data.data(), size, &size)));
    const auto each = [&]<class T>(T value, auto add) {
      for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
        std::memcpy(&value, data.data() + at, sizeof(T));
        add(value);
      }
    };
    if (type == kInt || type == kInts) {
      each(std::int64_t(), [&](std::int64_t value) { encoded.number(type == kInt ? i : ints, value); });
    } else if (type == kFloat || type == kFloats) {
      each(float(), [&](float value) { encoded.real(type == kFloat ? f : floats, value); });
    } else if (type == kString) {
      encoded.text(s, data.c_str());
    } else {  // one behind the other, each with a 0 at its end
      for (std::size_t at = 0; at < data.size(); at += std::strlen(data.c_str() + at) + 1) {
        encoded.text(strings, data.c_str() + at);
      }
    }
    return encoded;
  }

  Result<Constant> encode(const OrtValue* tensor, const std::string& name) {
    CONVOY_TRY(const TensorInfo info, info_of(api_, tensor));
    if (info.type == kStringElements) return unsupported("a tensor of strings");
    Constant made;
    for (const std::int64_t size : info.dims) made.before.number(dims, size);
    made.before.number(data_type, info.type).text(name_of_tensor, name);
    const void* data = nullptr;
    std::size_t size = 0;
    CONVOY_CHECK(done(api_, api_.GetTensorSizeInBytes(tensor, &size)));
    CONVOY_CHECK(done(api_, api_.GetTensorData(tensor, &data)));
    made.values = {static_cast<const char*>(data), size};
    return made;
  }

  Result<void> encode_constant(const OrtValueInfo* value, const std::string& name) {
    bool constant = false;
    CONVOY_CHECK(done(api_, api_.ValueInfo_IsConstantInitializer(value, &constant)));
    if (!constant || !constants_.insert(name).second) return {};
    const OrtValue* tensor = nullptr;
    CONVOY_CHECK(done(api_, api_.ValueInfo_GetInitializerValue(value, &tensor)));
    if (tensor == nullptr) return unsupported("initializer '" + name + "' has no values");
    CONVOY_TRY(Constant made, encode(tensor, name));
    initializers_.push_back(std::move(made.before));
    made_.weights.add(name, made.values.data(), made.values.size());
    return {};
  }

  // No dims may also mean that nobody knows the rank.
  bool says_sizes(const std::string& name, const TensorInfo& info) const {
    return checked_.contains(name) && !info.dims.empty();
  }

  Result<TensorInfo> encode(const OrtValueInfo* value, const std::string& name, int field, Message& graph) {
    const OrtTypeInfo* type = nullptr;
    CONVOY_CHECK(done(api_, api_.GetValueInfoTypeInfo(value, &type)));
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    if (type != nullptr) CONVOY_CHECK(done(api_, api_.CastTypeInfoToTensorInfo(type, &tensor)));
    if (tensor == nullptr) return unsupported("'" + name + "' is no tensor");
    CONVOY_TRY(TensorInfo info, info_of(api_, tensor));
    std::vector<const char*> symbols(info.dims.size());
    CONVOY_CHECK(done(api_, api_.GetSymbolicDimensions(tensor, symbols.data(), symbols.size())));
    Message sizes;
    for (std::size_t d = 0; d < info.dims.size(); ++d) {
      Message one;
      if (info.dims[d] >= 0) {
        one.number(dim_value, info.dims[d]);
      } else if (symbols[d] != nullptr && *symbols[d] != '\0') {
        one.text(dim_param, symbols[d]);
      }
      sizes.message(dim, one);
    }
    Message declared;
    declared.number(elem_type, info.type);
    if (says_sizes(name, info)) declared.message(shape, sizes);
    graph.message(field,
                  Message().text(name_of_value, name).message(type_of_value, Message().message(tensor_type, declared)));
    return info;
  }

  const Api& api_;
  const OrtGraph* graph_;
  const std::set<std::string>& checked_;
  GraphModel made_;
  std::vector<Message> initializers_;
  std::set<std::string> constants_, made_here_;  // by nodes of the graph
};

}  // namespace

void Weights::add(std::string name, const void* data, std::size_t bytes) {
  names.push_back(std::move(name));
  initializers.push_back({names.back().c_str(), data, static_cast<std::int64_t>(bytes)});
}

Result<Weights> Weights::copied() const {
  constexpr std::size_t kAlignment = 64;
  const auto room = [](std::int64_t bytes) {
    return (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  };
  std::size_t total = kAlignment;
  for (const convoy_initializer& each : initializers) total += room(each.bytes);
  Weights made;
  made.memory = {std::aligned_alloc(kAlignment, total), std::free};
  if (made.memory == nullptr) {
    return Error{ErrorCode::out_of_memory, "can't allocate " + std::to_string(total) + " bytes for weights"};
  }
  auto* at = static_cast<std::byte*>(made.memory.get());
  for (const convoy_initializer& each : initializers) {
    if (each.bytes > 0) std::memcpy(at, each.data, static_cast<std::size_t>(each.bytes));
    made.add(each.name, at, static_cast<std::size_t>(each.bytes));
    at += room(each.bytes);
  }
  return made;
}

Result<GraphModel> model_of(const Api& api, const OrtGraph* graph, const std::set<std::string>& checked) {
  return Encoder(api, graph, checked).run();
}

Result<std::vector<const OrtValueInfo*>> inputs_of(const Api& api, const OrtNode* node) {
  return list_of<const OrtValueInfo*, OrtNode>(api, api.Node_GetNumInputs, api.Node_GetInputs, node);
}

Result<std::vector<const OrtValueInfo*>> outputs_of(const Api& api, const OrtNode* node) {
  return list_of<const OrtValueInfo*, OrtNode>(api, api.Node_GetNumOutputs, api.Node_GetOutputs, node);
}

Result<std::string> name_of(const Api& api, const OrtValueInfo* value) {
  if (value == nullptr) return std::string();
  const char* name = nullptr;
  CONVOY_CHECK(done(api, api.GetValueInfoName(value, &name)));
  return std::string(name);
}

}  // namespace convoy::ort
