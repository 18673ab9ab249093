#include "network/graph/onnx/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/errors.h"
#include "core/text.h"
#include "network/graph/composite.h"
#include "network/graph/conv_node.h"
#include "network/graph/onnx/decode.h"
#include "network/graph/onnx/ways_around.h"
#include "network/graph/sequences.h"

namespace convoy::onnx_io {
namespace {

using network::Graph;
using network::kAbsent;
using network::Node;
using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::ValueInfoProto;

constexpr const char* kSizeKey = "convoy.size.";
// Up to here each operator's changes have been read, and followed or refused; what a later set changes is not known.
constexpr int kNewestOpset = 28;

// ONNX's own domain has two spellings.
std::string canonical_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

// What exporters write for a size that they do not know. It is no name: two of them are two sizes.
bool says_unknown(std::string_view name) {
  return name == "?" || name == "*" || name == "-1" || name == "None" || name == "unknown";
}

// `of_body`: of an If's or a Loop's body, where it may be a list.
Result<NetworkValue> value_of(const ValueInfoProto& info, const std::string& role, bool of_body) {
  NetworkValue value;
  value.name = info.name();
  const std::string what = role + " '" + info.name() + "'";
  const bool may_be_list = of_body && (info.type().has_sequence_type() || info.type().has_optional_type());
  if (!info.has_type() || info.type().value_case() == ::onnx::TypeProto::VALUE_NOT_SET || may_be_list) {
    value.known_rank = false;
    return value;
  }
  if (!info.type().has_tensor_type()) {
    return unsupported(what + ": only tensors are supported as inputs and outputs; " + std::string(kTensorsInstead));
  }
  const auto& tensor = info.type().tensor_type();
  CONVOY_TRY(value.type, data_type_of(tensor.elem_type(), what));
  value.known_rank = tensor.has_shape();
  for (const auto& dim : tensor.shape().dim()) {
    // Exporters write 0 and negative numbers for sizes they do not know.
    value.dims.push_back(dim.has_dim_value() && dim.dim_value() > 0 ? dim.dim_value() : -1);
    value.dim_names.push_back(says_unknown(dim.dim_param()) ? "" : dim.dim_param());
  }
  return value;
}

ModelInfo info_of(const ModelProto& model) {
  ModelInfo info = {.producer_name = model.producer_name(),
                    .producer_version = model.producer_version(),
                    .domain = model.domain(),
                    .description = model.doc_string(),
                    .graph_name = model.graph().name(),
                    .graph_description = model.graph().doc_string(),
                    .version = model.model_version()};
  for (const auto& entry : model.metadata_props()) info.metadata.insert_or_assign(entry.key(), entry.value());
  return info;
}

// Every node, those within If and Loop too.
template <class Visit>
void visit_nodes(const GraphProto& graph, const Visit& visit) {
  for (int i = 0; i < graph.node_size(); ++i) {
    visit(graph.node(i), i);
    for (const AttributeProto& attribute : graph.node(i).attribute()) {
      if (attribute.has_g()) visit_nodes(attribute.g(), visit);
    }
  }
}

std::string name_of_node(const NodeProto& node, int index) {
  return node.name().empty() ? node.op_type() + "_" + std::to_string(index) : node.name();
}

// The attributes that are the bodies of a node, in the order of Node::bodies; none: it has no bodies.
std::span<const std::string_view> body_attributes(const NodeProto& node) {
  static constexpr std::string_view kOfIf[] = {"then_branch", "else_branch"}, kOfLoop[] = {"body"};
  if (!canonical_domain(node.domain()).empty()) return {};
  if (node.op_type() == "If") return kOfIf;
  if (node.op_type() == "Loop" || node.op_type() == "SequenceMap") return kOfLoop;
  return {};
}

bool draws_numbers(const ops::NodeDesc& node) {
  return node.domain.empty() && (node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial");
}

// A model's graph, or that of a body, which finds names around it.
class Importer {
 public:
  // `given`: initializers whose values are not the model's.
  Importer(ModelProto& model, std::string folder, TensorsByName given)
      : model_(model), proto_(*model.mutable_graph()), folder_(std::move(folder)), given_(std::move(given)) {}
  Importer(GraphProto& body, Importer& around)
      : model_(around.model_), proto_(body), folder_(around.folder_), around_(&around), opsets_(around.opsets_) {}

  Result<Graph> run(const std::string& name) {
    graph_.name = name;
    graph_.info = info_of(model_);
    CONVOY_CHECK(inline_calls(model_));
    CONVOY_CHECK(scans_to_loops(model_));
    CONVOY_CHECK(read_opsets());
    CONVOY_CHECK(check_opset());
    CONVOY_CHECK(check_operators());
    CONVOY_CHECK(read_graph());
    return std::move(graph_);
  }

 private:
  // A graph that reads nothing from around it, and which values around it its last inputs are.
  struct Body {
    Graph graph;
    std::vector<int> captured;
  };

  Result<Body> run_body(const std::string& name, bool of_loop) {
    graph_.name = name;
    of_loop_ = of_loop;
    CONVOY_CHECK(read_graph());
    return Body{std::move(graph_), std::move(captured_)};
  }

  Result<void> read_graph() {
    CONVOY_CHECK(read_initializers());
    CONVOY_CHECK(read_inputs());
    CONVOY_CHECK(declare_outputs());
    for (int i = 0; i < proto().node_size(); ++i) CONVOY_CHECK(read_node(i));
    CONVOY_CHECK(read_outputs());
    return check_acyclic();
  }

  GraphProto& proto() { return proto_; }

  // The value of that name, which of a body may be one around it; nothing: there is none.
  std::optional<int> find(const std::string& name) {
    if (const auto own = ids_.find(name); own != ids_.end()) return own->second;
    const std::optional<int> outer = around_ == nullptr ? std::nullopt : around_->find(name);
    if (!outer) return std::nullopt;
    int id = kAbsent;
    if (const HostTensor* constant = around_->graph_.constant_of(*outer)) {
      id = graph_.add_constant(name, *constant);
    } else {
      id = graph_.add_value(name);
      graph_.inputs.push_back(id);
      graph_.input_info.push_back({.name = name, .known_rank = false});
      captured_.push_back(*outer);
    }
    ids_.emplace(name, id);
    return id;
  }

  Result<void> read_opsets() {
    for (const auto& entry : model_.opset_import()) {
      const std::int64_t version = entry.version();
      if (version < 1 || version > 1000) {
        return corrupt("opset_import of domain '" + entry.domain() + "': version=" + std::to_string(version));
      }
      opsets_[canonical_domain(entry.domain())] = static_cast<int>(version);
    }
    // Before IR version 3 models did not say, and meant 1.
    if (model_.ir_version() < 3) opsets_.try_emplace("", 1);
    return {};
  }

  std::string node_name(int index) { return name_of_node(proto().node(index), index); }

  Result<void> check_opset() {
    const auto opset = opsets_.find("");
    if (opset == opsets_.end() || opset->second <= kNewestOpset) return {};
    std::set<std::string> used;
    visit_nodes(proto(), [&](const NodeProto& node, int) {
      if (canonical_domain(node.domain()).empty()) used.insert(node.op_type());
    });
    std::string text = "the model is of opset " + std::to_string(opset->second) + ", operators are known up to " +
                       std::to_string(kNewestOpset) + "; it uses";
    for (const std::string& op : used) text += (op == *used.begin() ? " " : ", ") + op;
    return unsupported(text);
  }

  // All unknown operators at once, so that a person knows how far a model is from running.
  Result<void> check_operators() {
    std::map<std::string, std::vector<std::string>> unknown;
    visit_nodes(proto(), [&](const NodeProto& node, int i) {
      const std::string domain = canonical_domain(node.domain());
      const bool known =
          knows_operator(domain, node.op_type()) || network::is_sequence_operator(domain, node.op_type());
      if (!known) unknown[(domain.empty() ? "" : domain + ".") + node.op_type()].push_back(name_of_node(node, i));
    });
    if (unknown.empty()) return {};
    constexpr std::size_t kNamesShown = 8;
    std::string text = "operators not supported:";
    for (const auto& [op, nodes] : unknown) {
      text += "\n  " + op + " (" + std::to_string(nodes.size()) + (nodes.size() == 1 ? " node): " : " nodes): ");
      for (std::size_t i = 0; i < std::min(nodes.size(), kNamesShown); ++i) text += (i > 0 ? ", " : "") + nodes[i];
      if (nodes.size() > kNamesShown) text += ", ...";
      if (const std::string_view way = way_around(op); !way.empty()) text += "; " + std::string(way);
    }
    return unsupported(text);
  }

  Result<int> declare(const std::string& value, const std::string& by) {
    const int id = graph_.add_value(value);
    const auto [entry, added] = ids_.try_emplace(value, id);
    if (!added) return corrupt(by + ": the name '" + value + "' is taken by another value");
    return id;
  }

  Result<void> read_initializers() {
    if (proto().sparse_initializer_size() > 0) {
      return unsupported("sparse initializer '" + proto().sparse_initializer(0).values().name() + "' is not supported");
    }
    for (int i = 0; i < proto().initializer_size(); ++i) {
      TensorProto& tensor = *proto().mutable_initializer(i);
      const std::string what = "initializer '" + tensor.name() + "'";
      if (tensor.name().empty()) return corrupt("initializer " + std::to_string(i) + " has no name");
      CONVOY_TRY(const int id, declare(tensor.name(), what));
      if (const auto given = given_.find(tensor.name()); given != given_.end()) {
        set_constant(id, std::move(given->second));
      } else {
        CONVOY_CHECK(set_constant(id, tensor, what));
      }
      TensorProto().Swap(&tensor);  // the bytes have been copied; holding both would double the peak
    }
    return {};
  }

  Result<void> set_constant(int id, const TensorProto& tensor, const std::string& what) {
    CONVOY_TRY(HostTensor host, decode_tensor(tensor, what, folder_));
    set_constant(id, std::move(host));
    return {};
  }
  void set_constant(int id, HostTensor tensor) {
    network::Value& value = graph_.values[id];
    value.known = true;
    value.desc = tensor.desc;
    value.constant = std::move(tensor);
  }

  Result<void> read_inputs() {
    std::set<std::string> seen;
    for (const ValueInfoProto& info : proto().input()) {
      if (info.name().empty()) return corrupt("a graph input has no name");
      if (!seen.insert(info.name()).second) return corrupt("graph input '" + info.name() + "' is declared twice");
      if (ids_.contains(info.name())) continue;  // an input with an initializer is a weight
      CONVOY_TRY(NetworkValue value, value_of(info, "graph input", around_ != nullptr));
      if (around_ == nullptr && !info.type().has_tensor_type()) {
        return corrupt("graph input '" + info.name() + "' has no tensor type");
      }
      CONVOY_CHECK(propose_sizes(value));
      CONVOY_TRY(const int id, declare(info.name(), "graph input '" + info.name() + "'"));
      graph_.inputs.push_back(id);
      graph_.input_info.push_back(std::move(value));
    }
    return {};
  }

  Result<void> propose_sizes(NetworkValue& value) {
    value.proposed_dims = value.dims;
    for (std::size_t i = 0; i < value.dims.size(); ++i) {
      if (value.dims[i] >= 0 || value.dim_names[i].empty()) continue;
      const auto entry = graph_.info.metadata.find(kSizeKey + value.dim_names[i]);
      if (entry == graph_.info.metadata.end()) continue;
      const auto size = parse_integer(entry->second);
      if (!size.ok() || *size < 1) {
        return corrupt("metadata " + entry->first + ": '" + entry->second + "' is not a size");
      }
      value.proposed_dims[i] = *size;
    }
    return {};
  }

  Result<void> declare_outputs() {
    for (int i = 0; i < proto().node_size(); ++i) {
      for (const std::string& output : proto().node(i).output()) {
        if (output.empty()) continue;
        if (auto id = declare(output, "node '" + node_name(i) + "', output"); !id.ok()) return id.error();
      }
    }
    return {};
  }

  Result<void> read_node(int index) {
    NodeProto& proto_node = *proto().mutable_node(index);
    Node node;
    node.desc.op = proto_node.op_type();
    node.desc.domain = canonical_domain(proto_node.domain());
    node.desc.name = node_name(index);
    node.sources = {node.desc.name};
    const std::string what = network::describe(node);
    const auto opset = opsets_.find(node.desc.domain);
    if (opset == opsets_.end() && node.desc.domain.empty())
      return corrupt(what + ": the model imports no opset of domain ''");
    // ONNX Runtime's own operators have one, and it runs models that do not say so.
    node.desc.opset = opset == opsets_.end() ? 1 : opset->second;
    for (int i = 0; i < proto_node.input_size(); ++i) {
      const std::string& input = proto_node.input(i);
      if (input.empty()) {
        node.inputs.push_back(kAbsent);
        continue;
      }
      const auto id = find(input);
      if (!id) {
        return corrupt(fmt::format("{}: input {} '{}' is no graph input, initializer or node output", what, i, input));
      }
      node.inputs.push_back(*id);
    }
    for (const std::string& output : proto_node.output()) {
      node.outputs.push_back(output.empty() ? kAbsent : ids_.at(output));
    }
    node.desc.output_count = static_cast<int>(node.outputs.size());
    if (std::ranges::all_of(node.outputs, [](int output) { return output == kAbsent; })) {
      return corrupt(what + ": no outputs");
    }
    CONVOY_CHECK(read_bodies(proto_node, node));
    for (const AttributeProto& attribute : proto_node.attribute()) {
      if (std::ranges::find(body_attributes(proto_node), attribute.name()) != body_attributes(proto_node).end())
        continue;
      if (attribute.has_tp() && node.desc.op == "Optional") continue;  // a type, which the value has, too
      CONVOY_TRY(ops::Attribute value, read_attribute(attribute, what));
      if (!node.desc.attributes.emplace(attribute.name(), std::move(value)).second) {
        return corrupt(what + ": attribute '" + attribute.name() + "' is given twice");
      }
    }
    if (draws_numbers(node.desc)) add_trips(node);
    proto_node.clear_attribute();
    ++graph_.file_nodes;
    if (node.desc.op == "Constant" && node.desc.domain.empty()) return read_constant(node);
    graph_.nodes.push_back(std::move(node));
    return {};
  }

  // Each trip of the Loops around it draws its own numbers (ops/index/random.cc).
  void add_trips(Node& node) {
    const std::vector<int> trips = trips_around();
    node.desc.attributes.erase("trips");
    if (trips.empty()) return;
    node.inputs.insert(node.inputs.end(), trips.begin(), trips.end());
    node.desc.attributes["trips"] = static_cast<std::int64_t>(trips.size());
  }

  // The outermost Loop's first.
  std::vector<int> trips_around() {
    std::vector<int> trips;
    if (around_ == nullptr) return trips;
    for (const int outer : around_->trips_around()) trips.push_back(capture(outer));
    if (of_loop_ && graph_.inputs.size() > captured_.size()) trips.push_back(graph_.inputs[0]);
    return trips;
  }

  int capture(int outer) {
    const auto at = std::ranges::find(captured_, outer);
    if (at != captured_.end()) return *(graph_.inputs.end() - (captured_.end() - at));
    const std::string name = around_->graph_.values[outer].name;
    if (!ids_.contains(name) && around_->find(name) == outer) return *find(name);
    const int id = graph_.add_value(name);
    graph_.inputs.push_back(id);
    graph_.input_info.push_back({.name = name, .known_rank = false});
    captured_.push_back(outer);
    return id;
  }

  Result<void> read_bodies(NodeProto& proto_node, Node& node) {
    const auto names = body_attributes(proto_node);
    if (names.empty()) return {};
    const std::string what = network::describe(node);
    const bool loop = node.desc.op == "Loop", branch = node.desc.op == "If";
    if (loop && node.inputs.size() < 2) node.inputs.resize(2, kAbsent);
    if (branch && (node.inputs.size() != 1 || node.inputs[0] == kAbsent)) return corrupt(what + ": needs one input");
    for (std::size_t i = loop ? 2 : 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kAbsent) return corrupt(fmt::format("{}: input {} is left out", what, i));
    }
    const std::size_t own_inputs = branch ? 0 : node.inputs.size();
    const std::size_t own_outputs = loop ? node.inputs.size() - 1 : node.outputs.size();  // at least
    std::vector<Body> bodies;
    for (const std::string_view name : names) {
      const auto attribute = std::ranges::find(*proto_node.mutable_attribute(), name, &AttributeProto::name);
      if (attribute == proto_node.mutable_attribute()->end() || !attribute->has_g()) {
        return corrupt(fmt::format("{} has no {}", what, name));
      }
      auto body = Importer(*attribute->mutable_g(), *this).run_body(node.desc.name, loop);
      if (!body.ok()) return body.error().within(fmt::format("{}, {}", what, name));
      const Graph& graph = body->graph;
      if (const std::size_t own = graph.inputs.size() - body->captured.size(); own != own_inputs) {
        return corrupt(fmt::format("{}: {} has {} inputs, it must have {}", what, name, own, own_inputs));
      }
      const std::size_t wanted = loop ? node.outputs.size() + 1 : node.outputs.size();
      if (graph.outputs.size() != wanted || graph.outputs.size() < own_outputs) {
        return corrupt(
            fmt::format("{}: {} has {} outputs, the node {}", what, name, graph.outputs.size(), node.outputs.size()));
      }
      graph_.file_nodes += graph.file_nodes;
      bodies.push_back(std::move(*body));
    }
    // Each has an input for whatever any of them reads.
    std::vector<int> captured;
    for (const Body& body : bodies) {
      for (const int id : body.captured) {
        if (std::ranges::find(captured, id) == captured.end()) captured.push_back(id);
      }
    }
    for (Body& body : bodies) {
      std::vector<int> inputs(body.graph.inputs.begin(), body.graph.inputs.begin() + static_cast<int>(own_inputs));
      std::vector<NetworkValue> info(body.graph.input_info.begin(),
                                     body.graph.input_info.begin() + static_cast<int>(own_inputs));
      for (const int id : captured) {
        const std::string& name = graph_.values[static_cast<std::size_t>(id)].name;
        const auto at = static_cast<std::size_t>(std::ranges::find(body.captured, id) - body.captured.begin());
        inputs.push_back(at < body.captured.size() ? body.graph.inputs[own_inputs + at] : body.graph.add_value(name));
        info.push_back({.name = name, .known_rank = false});
      }
      body.graph.inputs = std::move(inputs);
      body.graph.input_info = std::move(info);
      node.bodies.push_back(std::make_shared<const Graph>(std::move(body.graph)));
    }
    node.captured = static_cast<int>(captured.size());
    node.inputs.insert(node.inputs.end(), captured.begin(), captured.end());
    return {};
  }

  Result<ops::Attribute> read_attribute(const AttributeProto& attribute, const std::string& node) {
    const std::string what = node + ": attribute '" + attribute.name() + "'";
    auto type = attribute.type();
    if (type == AttributeProto::UNDEFINED) {  // before IR version 2 the field in use said the type
      type = attribute.has_f()          ? AttributeProto::FLOAT
             : attribute.has_i()        ? AttributeProto::INT
             : attribute.has_s()        ? AttributeProto::STRING
             : attribute.has_t()        ? AttributeProto::TENSOR
             : attribute.floats_size()  ? AttributeProto::FLOATS
             : attribute.ints_size()    ? AttributeProto::INTS
             : attribute.strings_size() ? AttributeProto::STRINGS
                                        : AttributeProto::UNDEFINED;
    }
    switch (type) {
      case AttributeProto::FLOAT:
        return ops::Attribute(static_cast<double>(attribute.f()));
      case AttributeProto::INT:
        return ops::Attribute(static_cast<std::int64_t>(attribute.i()));
      case AttributeProto::STRING:
        return ops::Attribute(attribute.s());
      case AttributeProto::FLOATS:
        return ops::Attribute(std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
      case AttributeProto::INTS:
        return ops::Attribute(std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
      case AttributeProto::STRINGS:
        return ops::Attribute(std::vector<std::string>(attribute.strings().begin(), attribute.strings().end()));
      case AttributeProto::TENSOR: {
        CONVOY_TRY(HostTensor tensor, decode_tensor(attribute.t(), what, folder_));
        return ops::Attribute(std::move(tensor));
      }
      default:
        break;
    }
    const std::string& kind = ::onnx::AttributeProto_AttributeType_Name(type);
    return unsupported(what + " is of kind " + kind + ", which is not supported");
  }

  template <class T, class Values>
  static Result<HostTensor> tensor_of(DataType type, Dims dims, const Values& values) {
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, std::move(dims))));
    for (std::size_t i = 0; i < values.size(); ++i) tensor.as<T>()[i] = static_cast<T>(values[i]);
    return tensor;
  }

  Result<void> read_constant(const Node& node) {
    const std::string what = network::describe(node);
    if (node.outputs.size() != 1 || node.outputs[0] == kAbsent) return corrupt(what + ": needs one output");
    if (node.desc.attributes.size() != 1) return corrupt(what + ": needs exactly one value attribute");
    const auto& [key, attribute] = *node.desc.attributes.begin();
    const auto count = [](const auto& values) { return Dims{static_cast<std::int64_t>(values.size())}; };
    Result<HostTensor> tensor = corrupt(what + ": attribute '" + key + "' is of the wrong kind");
    if (const auto* value = std::get_if<HostTensor>(&attribute); key == "value" && value) {
      tensor = *value;
    } else if (const auto* real = std::get_if<double>(&attribute); key == "value_float" && real) {
      tensor = tensor_of<float>(DataType::f32, {}, std::vector<double>{*real});
    } else if (const auto* reals = std::get_if<std::vector<double>>(&attribute); key == "value_floats" && reals) {
      tensor = tensor_of<float>(DataType::f32, count(*reals), *reals);
    } else if (const auto* integer = std::get_if<std::int64_t>(&attribute); key == "value_int" && integer) {
      tensor = tensor_of<std::int64_t>(DataType::s64, {}, std::vector<std::int64_t>{*integer});
    } else if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&attribute); key == "value_ints" && ints) {
      tensor = tensor_of<std::int64_t>(DataType::s64, count(*ints), *ints);
    } else if (key == "value_string" || key == "value_strings" || key == "sparse_value") {
      return unsupported(what + ": attribute '" + key + "' is not supported");
    }
    if (!tensor.ok()) return tensor.error();
    set_constant(node.outputs[0], std::move(*tensor));
    return {};
  }

  Result<void> read_outputs() {
    if (proto().output_size() == 0) return corrupt("the graph has no outputs");
    std::set<std::string> seen;
    for (const ValueInfoProto& info : proto().output()) {
      const auto id = find(info.name());
      if (!id) return corrupt("graph output '" + info.name() + "' is no graph input, initializer or node output");
      if (!seen.insert(info.name()).second && around_ == nullptr) {
        return corrupt("graph output '" + info.name() + "' is declared twice");
      }
      CONVOY_TRY(NetworkValue value, value_of(info, "graph output", around_ != nullptr));
      graph_.outputs.push_back(*id);
      graph_.output_info.push_back(std::move(value));
    }
    return {};
  }

  // Kahn: what is left over when no node without open inputs remains lies on or behind a cycle.
  Result<void> check_acyclic() {
    const auto readers = graph_.readers();
    const auto producers = graph_.producers();
    std::vector<int> open(graph_.nodes.size(), 0);
    std::vector<int> ready;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (int input : graph_.nodes[n].inputs) open[n] += input != kAbsent && producers[input] != kAbsent;
      if (open[n] == 0) ready.push_back(static_cast<int>(n));
    }
    std::size_t done = 0;
    while (!ready.empty()) {
      const int n = ready.back();
      ready.pop_back();
      ++done;
      for (int output : graph_.nodes[n].outputs) {
        if (output == kAbsent) continue;
        for (int reader : readers[output]) {
          if (--open[reader] == 0) ready.push_back(reader);
        }
      }
    }
    if (done == graph_.nodes.size()) return {};
    // Walking backwards from any such node among such nodes ends up on the cycle itself.
    int at =
        static_cast<int>(std::find_if(open.begin(), open.end(), [](int count) { return count > 0; }) - open.begin());
    std::vector<bool> visited(graph_.nodes.size(), false);
    while (!visited[at]) {
      visited[at] = true;
      for (int input : graph_.nodes[at].inputs) {
        if (input != kAbsent && producers[input] != kAbsent && open[producers[input]] > 0) {
          at = producers[input];
          break;
        }
      }
    }
    return corrupt(network::describe(graph_.nodes[at]) + " is part of a cycle: its output reaches its own input");
  }

  ModelProto& model_;
  GraphProto& proto_;
  std::string folder_;
  TensorsByName given_;
  Importer* around_ = nullptr;  // of a body
  bool of_loop_ = false;        // that it is
  std::map<std::string, int> opsets_;
  Graph graph_;
  std::unordered_map<std::string, int> ids_;
  std::vector<int> captured_;  // values around a body that its last inputs are
};

}  // namespace

Result<Graph> import_model(ModelProto& model, const std::string& name, const std::string& folder,
                           std::span<const GivenInitializer> given) {
  if (!model.has_graph()) return corrupt("the model has no graph");
  CONVOY_TRY(TensorsByName in_place, take_given(*model.mutable_graph(), given));
  return Importer(model, folder, std::move(in_place)).run(name);
}

bool knows_operator(const std::string& given_domain, const std::string& op) {
  const std::string domain = canonical_domain(given_domain);
  const bool built_in = domain.empty() && (op == "Constant" || op == "If" || op == "Loop" || op == "Scan");
  return built_in || network::conv_form(domain, op) != nullptr || ops::find_operator(domain, op) != nullptr ||
         network::find_composite(domain, op) != nullptr;
}

}  // namespace convoy::onnx_io
