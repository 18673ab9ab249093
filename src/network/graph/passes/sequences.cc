// ONNX's lists and optional values: which tensors they hold is known once sizes are, so their readers take the tensors
// themselves, and nothing of them is left. In a graph a list is what SequenceConstruct or SequenceEmpty makes.
#include "network/graph/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "network/graph/pass.h"
#include "network/graph/splice.h"

namespace convoy::network {
namespace {

constexpr int kSequencesOpset = 21;  // of the nodes that take the place of those on lists
constexpr std::int64_t kMostParts = 1 << 14;

HostTensor integers(Dims dims, const std::vector<std::int64_t>& values) {
  HostTensor tensor = *HostTensor::allocate(TensorDesc::packed(DataType::s64, std::move(dims)));
  std::ranges::copy(values, tensor.as<std::int64_t>());
  return tensor;
}

class Sequences {
 public:
  explicit Sequences(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (Node& node : nodes) {
      for (int& input : node.inputs) input = current(input);
      const bool own = is_sequence_operator(node.desc.domain, node.desc.op);
      CONVOY_TRY(const bool resolved, own ? resolve(node) : Result<bool>(false));
      changes_ += resolved;
      if (!resolved || is_list(node)) graph_.nodes.push_back(std::move(node));
    }
    for (int& output : graph_.outputs) output = current(output);
    drop_unread_lists();
    return changes_;
  }

 private:
  using List = std::vector<int>;

  static bool is_list(const Node& node) {
    return node.desc.domain.empty() && (node.desc.op == "SequenceConstruct" || node.desc.op == "SequenceEmpty");
  }

  int current(int value) const {
    const auto found = same_.find(value);
    return found == same_.end() ? value : found->second;
  }

  static Error bad(const Node& node, const std::string& text) {
    return Error{ErrorCode::invalid_argument, describe(node) + ": " + text};
  }

  int input(const Node& node, std::size_t index) const {
    return index < node.inputs.size() ? node.inputs[index] : kAbsent;
  }

  const List* list_of(int value) const {
    const auto found = lists_.find(value);
    return found == lists_.end() ? nullptr : &found->second;
  }

  // Whether nothing of the node is left but the list that it may have become.
  Result<bool> resolve(Node& node) {
    const std::string& op = node.desc.op;
    if (is_list(node)) {
      if (std::ranges::find(node.inputs, kAbsent) != node.inputs.end()) return bad(node, "an input is left out");
      lists_[node.outputs[0]] = node.inputs;
      return false;
    }
    if (op == "Optional" || op == "OptionalGetElement") {
      if (input(node, 0) == kAbsent) return false;
      return give(node, node.inputs[0]);
    }
    if (op == "OptionalHasElement") return has_element(node);
    if (op == "SplitToSequence") return split(node);
    if (op == "SequenceMap") return map(node);
    const int value = input(node, 0);
    if (value == kAbsent) return bad(node, "input 0 is left out");
    const List* const list = list_of(value);
    if (list == nullptr) return false;
    if (op == "SequenceLength") {
      return give(node, constant(integers({}, {static_cast<std::int64_t>(list->size())})));
    }
    if (op == "SequenceInsert") return insert(node, *list);
    if (op == "SequenceErase") return erase(node, *list);
    if (op == "SequenceAt") return at(node, *list);
    return concat(node, *list);
  }

  bool give(const Node& node, int value) {
    same_[node.outputs[0]] = value;
    return true;
  }

  bool become(Node& node, List list) {
    node.desc.op = "SequenceConstruct";
    node.desc.attributes.clear();
    node.inputs = list;
    lists_[node.outputs[0]] = std::move(list);
    return true;
  }

  // The position that input `index` is, in [0, places) of a list of `length`; nothing: it is not known.
  Result<std::optional<std::size_t>> position(const Node& node, std::size_t index, std::size_t length,
                                              std::size_t places, std::int64_t left_out) const {
    std::int64_t given = left_out;
    if (input(node, index) != kAbsent) {
      const auto values = small_integers(graph_, node.inputs[index], 1);
      if (!values) return std::optional<std::size_t>();
      if (values->size() != 1) return bad(node, fmt::format("input {} (position) must be one number", index));
      given = values->front();
    }
    const std::int64_t from_start = given < 0 ? given + static_cast<std::int64_t>(length) : given;
    if (from_start < 0 || from_start >= static_cast<std::int64_t>(places)) {
      return bad(node, fmt::format("position {} in a sequence of {} tensors", given, length));
    }
    return std::optional(static_cast<std::size_t>(from_start));
  }

  Result<bool> insert(Node& node, List list) {
    if (input(node, 1) == kAbsent) return bad(node, "input 1 (tensor) is left out");
    const auto end = static_cast<std::int64_t>(list.size());
    CONVOY_TRY(const auto where, position(node, 2, list.size(), list.size() + 1, end));
    if (!where) return false;
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(*where), node.inputs[1]);
    return become(node, std::move(list));
  }

  Result<bool> erase(Node& node, List list) {
    CONVOY_TRY(const auto where, position(node, 1, list.size(), list.size(), -1));
    if (!where) return false;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(*where));
    return become(node, std::move(list));
  }

  Result<bool> at(const Node& node, const List& list) {
    if (input(node, 1) == kAbsent) return bad(node, "input 1 (position) is left out");
    CONVOY_TRY(const auto where, position(node, 1, list.size(), list.size(), 0));
    if (where) return give(node, list[*where]);
    // Which of them data decides: tensors of one shape are rows of one.
    const auto like_the_first = [&](int value) {
      const Value &first = graph_.values[list[0]], &other = graph_.values[value];
      return first.known && other.known && first.desc.type == other.desc.type && first.desc.dims == other.desc.dims;
    };
    if (list.empty() || !std::ranges::all_of(list, like_the_first)) return false;
    const int rows = add(node, "Concat", rows_of(node, list, 0), {{"axis", std::int64_t{0}}});
    const Value& position = graph_.values[node.inputs[1]];
    int one = node.inputs[1];
    if (!position.known || position.desc.rank() > 0) {  // one number of any shape
      one = add(node, "Reshape", {one, constant(integers({0}, {}))}, {});
    }
    return give(node, add(node, "Gather", {rows, one}, {{"axis", std::int64_t{0}}}));
  }

  Result<bool> concat(const Node& node, const List& list) {
    if (list.empty()) return bad(node, "the sequence is empty");
    if (!node.desc.has("axis")) return bad(node, "attribute 'axis' is missing");
    CONVOY_TRY(const std::int64_t axis, node.desc.integer("axis", 0));
    CONVOY_TRY(const std::int64_t new_axis, node.desc.integer("new_axis", 0));
    List parts = new_axis != 0 ? rows_of(node, list, axis) : list;
    return give(node, add(node, "Concat", std::move(parts), {{"axis", axis}}));
  }

  List rows_of(const Node& node, const List& list, std::int64_t axis) {
    const int axes = constant(integers({1}, {axis}));
    List rows;
    for (const int value : list) rows.push_back(add(node, "Unsqueeze", {value, axes}, {}));
    return rows;
  }

  Result<bool> split(Node& node) {
    const int whole = input(node, 0), sizes = input(node, 1);
    if (whole == kAbsent) return bad(node, "input 0 is left out");
    if (!graph_.values[whole].known) return false;
    const Dims dims = graph_.values[whole].desc.dims;
    const auto rank = static_cast<std::int64_t>(dims.size());
    CONVOY_TRY(std::int64_t axis, node.desc.integer("axis", 0));
    CONVOY_TRY(const std::int64_t keepdims, node.desc.integer("keepdims", 1));
    if (axis < -rank || axis >= rank) return bad(node, fmt::format("axis={} of a tensor of rank {}", axis, rank));
    if (axis < 0) axis += rank;
    const std::int64_t size = dims[static_cast<std::size_t>(axis)];
    std::vector<std::int64_t> parts;
    if (sizes != kAbsent && (!graph_.values[sizes].known || graph_.values[sizes].desc.rank() > 0)) {
      const auto given = small_integers(graph_, sizes, kMostParts);
      if (!given) return false;
      parts = *given;
    } else {
      const auto given = sizes == kAbsent ? std::vector<std::int64_t>{1} : small_integers(graph_, sizes, 1);
      if (!given) return false;
      const std::int64_t each = given->front();
      if (each < 1) return bad(node, fmt::format("split={}", each));
      if (size / each >= kMostParts) return bad(node, fmt::format("more than {} parts", kMostParts));
      for (std::int64_t from = 0; from < size; from += each) parts.push_back(std::min(each, size - from));
    }
    Node made = node_like(node, "Split");
    made.desc.attributes = {{"axis", axis}};
    made.inputs = {whole, constant(integers({static_cast<std::int64_t>(parts.size())}, parts))};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      made.outputs.push_back(graph_.add_value(fmt::format("{}/{}", node.desc.name, i)));
    }
    made.desc.output_count = static_cast<int>(parts.size());
    List list = made.outputs;
    if (!parts.empty()) graph_.nodes.push_back(std::move(made));
    if (keepdims == 0 && sizes == kAbsent) {
      const int axes = constant(integers({1}, {axis}));
      for (int& part : list) part = add(node, "Squeeze", {part, axes}, {});
    }
    return become(node, std::move(list));
  }

  // The body for each element of the first list.
  Result<bool> map(const Node& node) {
    const std::size_t own = node.inputs.size() - static_cast<std::size_t>(node.captured);
    const auto producers = graph_.producers();
    std::vector<const List*> lists(node.inputs.size(), nullptr);  // null: a tensor, the same for all elements
    for (std::size_t i = 0; i < own; ++i) {
      lists[i] = list_of(node.inputs[i]);
      const int by = producers[static_cast<std::size_t>(node.inputs[i])];
      const auto makes_list = [](const Node& maker) {
        return !maker.bodies.empty() || is_sequence_operator(maker.desc.domain, maker.desc.op);
      };
      if (lists[i] == nullptr &&
          (i == 0 || (by != kAbsent && makes_list(graph_.nodes[static_cast<std::size_t>(by)])))) {
        return false;
      }
      if (lists[i] != nullptr && lists[i]->size() != lists[0]->size()) {
        return bad(node, fmt::format("input {} has {} tensors, input 0 has {}", i, lists[i]->size(), lists[0]->size()));
      }
    }
    const std::size_t count = lists[0]->size();
    std::vector<List> made(node.outputs.size());
    for (std::size_t k = 0; k < count; ++k) {
      std::vector<int> inputs = node.inputs;
      for (std::size_t i = 0; i < own; ++i) inputs[i] = lists[i] == nullptr ? inputs[i] : (*lists[i])[k];
      const std::string prefix = fmt::format("{}/{}/", node.desc.name, k);
      const std::vector<int> outputs = splice(*node.bodies[0], inputs, prefix, graph_, graph_.nodes);
      for (std::size_t i = 0; i < made.size(); ++i) made[i].push_back(outputs[i]);
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (node.outputs[i] == kAbsent) continue;
      Node list = node_like(node, "SequenceConstruct");
      list.outputs = {node.outputs[i]};
      become(list, std::move(made[i]));
      graph_.nodes.push_back(std::move(list));
    }
    return true;
  }

  // A value that a node of no lists makes is there; so is a list. Of an input of the graph, or what an If hands on,
  // nothing is known.
  Result<bool> has_element(const Node& node) {
    const int value = input(node, 0);
    bool has = false;
    if (value != kAbsent) {
      const auto producers = graph_.producers();
      const int by = producers[value];
      const Node* const maker = by == kAbsent ? nullptr : &graph_.nodes[by];
      const bool absent = maker != nullptr && maker->desc.op == "Optional" && input(*maker, 0) == kAbsent;
      const bool handed_on = maker != nullptr ? !maker->bodies.empty() : !graph_.values[value].known;
      if (handed_on) return false;
      has = !absent;
    }
    HostTensor answer = *HostTensor::allocate(TensorDesc::packed(DataType::boolean, {}));
    *answer.as<std::uint8_t>() = has ? 1 : 0;
    return give(node, constant(std::move(answer)));
  }

  int constant(HostTensor tensor) { return graph_.add_constant("sequence constant", std::move(tensor)); }

  static Node node_like(const Node& node, const std::string& op) {
    Node made;
    made.desc = {.op = op, .domain = {}, .name = node.desc.name, .opset = kSequencesOpset, .attributes = {}};
    made.sources = node.sources;
    return made;
  }

  int add(const Node& node, const std::string& op, std::vector<int> inputs,
          std::map<std::string, ops::Attribute> attributes) {
    Node made = node_like(node, op);
    made.desc.attributes = std::move(attributes);
    made.inputs = std::move(inputs);
    made.outputs = {graph_.add_value(node.desc.name + "/" + op)};
    graph_.nodes.push_back(std::move(made));
    return graph_.nodes.back().outputs[0];
  }

  // Lists of lists' readers come later in the graph, so one walk from its end finds all.
  void drop_unread_lists() {
    std::vector<int> reads(graph_.values.size(), 0);
    for (const Node& node : graph_.nodes) {
      for (const int value : node.inputs) reads[static_cast<std::size_t>(std::max(value, 0))] += value != kAbsent;
    }
    for (const int value : graph_.outputs) ++reads[static_cast<std::size_t>(value)];
    for (Node& node : graph_.nodes) {
      const bool absent_optional = node.desc.op == "Optional" && node.desc.domain.empty();
      node.erased = (is_list(node) || absent_optional) && reads[static_cast<std::size_t>(node.outputs[0])] == 0;
    }
    graph_.sweep();
  }

  Graph& graph_;
  std::map<int, List> lists_;  // by value
  std::map<int, int> same_;    // values that are others
  int changes_ = 0;
};

bool has_sequences(const Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [](const Node& node) { return is_sequence_operator(node.desc.domain, node.desc.op); });
}

}  // namespace

bool is_sequence_operator(std::string_view domain, std::string_view op) {
  static constexpr std::string_view kOperators[] = {"ConcatFromSequence", "Optional",      "OptionalGetElement",
                                                    "OptionalHasElement", "SequenceAt",    "SequenceConstruct",
                                                    "SequenceEmpty",      "SequenceErase", "SequenceInsert",
                                                    "SequenceLength",     "SequenceMap",   "SplitToSequence"};
  return (domain.empty() || domain == "ai.onnx") && std::ranges::find(kOperators, op) != std::end(kOperators);
}

Result<int> resolve_sequences(Graph& graph) {
  if (!has_sequences(graph)) return 0;
  return Sequences(graph).run();
}

Result<int> sequences(Graph& graph, const PassContext& context) {
  int changes = 0;
  while (has_sequences(graph)) {
    CONVOY_CHECK(dead_node_removal(graph, context));
    CONVOY_CHECK(topological_order(graph, context));
    CONVOY_CHECK(identity_removal(graph, context));
    CONVOY_CHECK(constant_folding_but_dequantize(graph, context));
    CONVOY_TRY(const int resolved, resolve_sequences(graph));
    changes += resolved;
    if (resolved > 0) continue;
    for (const Node& node : graph.nodes) {
      if (!is_sequence_operator(node.desc.domain, node.desc.op)) continue;
      return Error{ErrorCode::unsupported,
                   describe(node) +
                       ": which tensors the sequence or optional value holds is not known before the "
                       "network runs: data decides, or it is an output of the graph; " +
                       std::string(kTensorsInsteadOfSequences)};
    }
  }
  return changes;
}

}  // namespace convoy::network
