// What a graph calls instead of spelling it out: the model's own functions, and the branch that an If with a constant
// condition takes. Their nodes are put in the caller's place.
#include <google/protobuf/repeated_field.h>

#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/errors.h"
#include "network/graph/onnx/decode.h"

namespace convoy::onnx_io {
namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

// Functions that call functions can make a small file mean any number of nodes.
constexpr int kMostCalls = 1 << 17;
constexpr std::size_t kMostInlinedBytes = std::size_t{256} << 20;
constexpr int kDeepest = 32;

std::string canonical(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

// How the names of a body read in the graph: those in `map`, all others with `prefix` where the body sees no names but
// its own (a function), as they are otherwise.
struct Names {
  std::string prefix;
  bool closed = false;
  std::map<std::string, std::string> map;

  void apply(std::string& name) const {
    const auto known = map.find(name);
    if (known != map.end()) {
      name = known->second;
    } else if (closed && !name.empty()) {
      name.insert(0, prefix);
    }
  }
  void declare(const std::string& name) {
    if (!name.empty()) map.insert_or_assign(name, prefix + name);
  }
};

void rename_values(NodeProto& node, const Names& names);

// A graph within a node's attribute. Its own names get the prefix, too: else they would hide what a name of around it
// reads as from now on.
void rename(GraphProto& graph, const Names& around) {
  Names names = around;
  for (const auto& input : graph.input()) names.declare(input.name());
  for (const auto& tensor : graph.initializer()) names.declare(tensor.name());
  for (const NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) names.declare(output);
  }
  for (auto& input : *graph.mutable_input()) names.apply(*input.mutable_name());
  for (auto& tensor : *graph.mutable_initializer()) names.apply(*tensor.mutable_name());
  for (NodeProto& node : *graph.mutable_node()) rename_values(node, names);
  for (auto& output : *graph.mutable_output()) names.apply(*output.mutable_name());
}

void rename_values(NodeProto& node, const Names& names) {
  for (std::string& input : *node.mutable_input()) names.apply(input);
  for (std::string& output : *node.mutable_output()) names.apply(output);
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) rename(*attribute.mutable_g(), names);
  }
}

void rename(NodeProto& node, const Names& names) {
  rename_values(node, names);
  node.set_name(names.prefix + (node.name().empty() ? node.op_type() : node.name()));
}

// Attributes that a function's body takes from its caller, or from the function's defaults; left out where neither has
// it.
void bind_attributes(NodeProto& body, const NodeProto& caller, const FunctionProto& function) {
  google::protobuf::RepeatedPtrField<AttributeProto> attributes;
  attributes.Swap(body.mutable_attribute());
  for (AttributeProto& attribute : attributes) {
    if (attribute.ref_attr_name().empty()) {
      if (attribute.has_g()) {
        for (NodeProto& inner : *attribute.mutable_g()->mutable_node()) bind_attributes(inner, caller, function);
      }
      *body.add_attribute() = std::move(attribute);
      continue;
    }
    const auto bind = [&](const auto& candidates) {
      for (const AttributeProto& given : candidates) {
        if (given.name() != attribute.ref_attr_name()) continue;
        AttributeProto& bound = *body.add_attribute();
        bound = given;
        bound.set_name(attribute.name());
        return true;
      }
      return false;
    };
    if (!bind(caller.attribute())) bind(function.attribute_proto());
  }
}

class Inliner {
 public:
  explicit Inliner(ModelProto& model) : model_(model), graph_(model.mutable_graph()) {}

  Result<void> run() {
    for (const FunctionProto& function : model_.functions()) {
      const Key key{canonical(function.domain()), function.name(), function.overload()};
      if (!functions_.emplace(key, &function).second) return corrupt(describe(function) + " is defined twice");
    }
    CONVOY_CHECK(add_all(0));
    model_.clear_functions();
    return {};
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

  static std::string describe(const FunctionProto& function) {
    return "function '" + (function.domain().empty() ? "" : function.domain() + ".") + function.name() + "'";
  }

  // The nodes of the graph at hand, anew.
  Result<void> add_all(int depth) {
    for (const TensorProto& tensor : graph_->initializer()) remember(tensor.name(), tensor);
    google::protobuf::RepeatedPtrField<NodeProto> nodes;
    nodes.Swap(graph_->mutable_node());
    for (NodeProto& node : nodes) CONVOY_CHECK(add(std::move(node), depth));
    return {};
  }

  // The same of a graph within a node's attribute, whose own names hide those around it.
  Result<void> add_within(GraphProto& body, int depth) {
    GraphProto* const around = std::exchange(graph_, &body);
    const std::map<std::string, bool> constants_around = constants_;
    for (const auto& input : body.input()) constants_.erase(input.name());
    for (const TensorProto& tensor : body.initializer()) constants_.erase(tensor.name());
    for (const NodeProto& node : body.node()) {
      for (const std::string& output : node.output()) constants_.erase(output);
    }
    auto done = add_all(depth);
    constants_ = constants_around;
    graph_ = around;
    return done;
  }

  Result<void> add(NodeProto node, int depth) {
    const auto function = functions_.find({canonical(node.domain()), node.op_type(), node.overload()});
    if (function != functions_.end()) return call(*function->second, node, depth);
    if (canonical(node.domain()).empty() && node.op_type() == "If" && node.input_size() == 1) {
      const auto condition = constants_.find(node.input(0));
      if (condition != constants_.end()) return take_branch(node, condition->second, depth);
    }
    if (node.op_type() == "Constant" && node.output_size() == 1 && node.attribute_size() == 1) {
      remember(node.output(0), node.attribute(0).t());
    }
    for (AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) CONVOY_CHECK(add_within(*attribute.mutable_g(), depth));
    }
    *graph_->add_node() = std::move(node);
    return {};
  }

  void remember(const std::string& name, const TensorProto& tensor) {
    if (tensor.data_type() != TensorProto::BOOL || tensor.dims_size() > 1) return;
    if (tensor.raw_data().size() == 1) constants_[name] = tensor.raw_data()[0] != 0;
    if (tensor.int32_data_size() == 1) constants_[name] = tensor.int32_data(0) != 0;
  }

  // No two calls have one: nodes without a name within a function have the same in each call of it.
  std::string prefix_of(const NodeProto& node) {
    const std::string number = "_" + std::to_string(calls_);
    std::string prefix = (node.name().empty() ? node.op_type() + number : node.name()) + "/";
    while (!prefixes_.insert(prefix).second) prefix.insert(prefix.size() - 1, number);
    return prefix;
  }

  Result<void> call(const FunctionProto& function, const NodeProto& node, int depth) {
    const std::string what = describe(function);
    if (depth >= kDeepest) return corrupt(what + " calls itself, or calls are nested more than 32 deep");
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
      return corrupt(what + " has " + std::to_string(function.input_size()) + " inputs and " +
                     std::to_string(function.output_size()) + " outputs, a node uses " +
                     std::to_string(node.input_size()) + " and " + std::to_string(node.output_size()));
    }
    CONVOY_CHECK(check_opsets(function));
    CONVOY_CHECK(count_call());
    Names names{prefix_of(node), true, {}};
    for (int i = 0; i < function.input_size(); ++i) {
      names.map[function.input(i)] = i < node.input_size() ? node.input(i) : std::string();
    }
    std::vector<std::pair<std::string, std::string>> copies;  // outputs that are inputs
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      const auto [entry, added] = names.map.try_emplace(function.output(i), node.output(i));
      if (!added) copies.emplace_back(entry->second, node.output(i));
    }
    for (int i = 0; i < function.node_size(); ++i) {
      NodeProto body = function.node(i);
      // Random numbers follow from the name, so no two nodes of a function may share one.
      if (body.name().empty()) body.set_name(body.op_type() + "_" + std::to_string(i));
      rename(body, names);
      bind_attributes(body, node, function);
      CONVOY_CHECK(add_copied(std::move(body), depth + 1));
    }
    for (const auto& [from, to] : copies) CONVOY_CHECK(add_identity(from, to));
    return {};
  }

  // Within a model a node's opset is the model's, so a function may not mean another.
  Result<void> check_opsets(const FunctionProto& function) {
    for (const auto& wanted : function.opset_import()) {
      bool found = false;
      for (const auto& have : model_.opset_import()) {
        if (canonical(have.domain()) != canonical(wanted.domain())) continue;
        found = true;
        if (have.version() == wanted.version()) continue;
        return Error{ErrorCode::unsupported, describe(function) + " is of opset " + std::to_string(wanted.version()) +
                                                 " of '" + wanted.domain() + "', the model of " +
                                                 std::to_string(have.version()) +
                                                 "; only one of a domain is supported"};
      }
      if (!found) *model_.add_opset_import() = wanted;
    }
    return {};
  }

  Result<void> take_branch(const NodeProto& node, bool condition, int depth) {
    if (depth >= kDeepest) return corrupt("If nodes are nested more than 32 deep");
    const std::string wanted = condition ? "then_branch" : "else_branch";
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.name() != wanted || !attribute.has_g()) continue;
      const GraphProto& branch = attribute.g();
      CONVOY_CHECK(count_call());
      if (branch.output_size() != node.output_size()) {
        return corrupt("node '" + node.name() + "' (If): " + wanted + " has " + std::to_string(branch.output_size()) +
                       " outputs, the node " + std::to_string(node.output_size()));
      }
      Names names{prefix_of(node), false, {}};
      for (const TensorProto& tensor : branch.initializer()) names.declare(tensor.name());
      for (const NodeProto& inner : branch.node()) {
        for (const std::string& output : inner.output()) names.declare(output);
      }
      for (const TensorProto& tensor : branch.initializer()) {
        CONVOY_CHECK(count_bytes(tensor.ByteSizeLong()));
        TensorProto& moved = *graph_->add_initializer();
        moved = tensor;
        names.apply(*moved.mutable_name());
        remember(moved.name(), moved);
      }
      for (const NodeProto& inner : branch.node()) {
        NodeProto body = inner;
        rename(body, names);
        CONVOY_CHECK(add_copied(std::move(body), depth + 1));
      }
      for (int i = 0; i < node.output_size(); ++i) {
        std::string made = branch.output(i).name();
        names.apply(made);
        CONVOY_CHECK(add_identity(made, node.output(i)));
      }
      return {};
    }
    return corrupt("node '" + node.name() + "' (If) has no " + wanted);
  }

  Result<void> add_identity(const std::string& from, const std::string& to) {
    if (to.empty()) return {};
    NodeProto copy;
    copy.set_op_type("Identity");
    copy.set_name(to);
    copy.add_input(from);
    copy.add_output(to);
    return add_copied(std::move(copy), 0);
  }

  Result<void> add_copied(NodeProto node, int depth) {
    CONVOY_CHECK(count_bytes(node.ByteSizeLong()));
    return add(std::move(node), depth);
  }

  Result<void> count_call() {
    if (++calls_ <= kMostCalls) return {};
    return corrupt("the model's functions amount to more than " + std::to_string(kMostCalls) + " calls");
  }

  Result<void> count_bytes(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= kMostInlinedBytes) return {};
    return corrupt("the model's functions amount to more than " + std::to_string(kMostInlinedBytes) + " bytes");
  }

  ModelProto& model_;
  GraphProto* graph_;  // that nodes are added to
  std::map<Key, const FunctionProto*> functions_;
  std::map<std::string, bool> constants_;  // single booleans
  std::unordered_set<std::string> prefixes_;
  int calls_ = 0;
  std::size_t bytes_ = 0;  // of copies
};

}  // namespace

Result<void> inline_calls(ModelProto& model) { return Inliner(model).run(); }

}  // namespace convoy::onnx_io
