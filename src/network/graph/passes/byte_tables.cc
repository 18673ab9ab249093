// What is computed of one 8-bit tensor, element by element, by however many nodes becomes one table of 256 bytes:
//   QLinearMul(x, QLinearSigmoid(x))  ->  a table (Swish)        Lookup(Lookup(x))  ->  a table
// Scales, zero points and tables must be constants. All give the bits they gave before.
#include <algorithm>
#include <map>

#include "network/graph/pass.h"
#include "ops/operator_row.h"

namespace convoy::network {
namespace {

// The inputs of a node that are tensors of bytes, computed element by element; none where it is no such node.
std::vector<std::size_t> operands_of(const Node& node) {
  if (node.desc.domain.empty() || node.outputs.size() != 1) return {};
  const ops::OperatorRow* const row = ops::find_row(node.desc.domain, node.desc.op);
  if (row == nullptr) return {};
  const ops::Values values = row->values(node.desc);
  std::vector<std::size_t> operands;
  for (const int operand : values.operands) {
    if (values.kind == ops::Values::mapped && operand >= 0) operands.push_back(static_cast<std::size_t>(operand));
  }
  if (operands.empty() || node.inputs.size() <= operands.back()) return {};
  return operands;
}

class Tables {
 public:
  Tables(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  Result<int> run() {
    CONVOY_CHECK(topological_order(graph_, context_));
    int changes = 0;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      CONVOY_TRY(const bool changed, visit(graph_.nodes[n]));
      if (changed) ++changes;
    }
    return changes;
  }

 private:
  struct Function {
    int of = kAbsent;  // a value
    HostTensor table;  // of all its bytes
    std::vector<std::string> sources;

    // Each once, though both operands may come from the same node.
    void add_sources(const std::vector<std::string>& names) {
      for (const std::string& name : names) {
        if (std::ranges::find(sources, name) == sources.end()) sources.push_back(name);
      }
    }
  };

  Result<bool> visit(Node& node) {
    const std::vector<std::size_t> operands = operands_of(node);
    if (operands.empty()) return false;
    int root = kAbsent;
    bool composed = operands.size() > 1;  // it is more than a table already
    for (const std::size_t i : operands) {
      const int value = node.inputs[i];
      if (value == kAbsent || graph_.constant_of(value) != nullptr) return false;
      const auto known = functions_.find(value);
      const int of = known == functions_.end() ? value : known->second.of;
      composed |= known != functions_.end();
      if (root != kAbsent && of != root) return false;
      root = of;
    }
    const Value& x = graph_.values[root];
    if (!x.known || (x.desc.type != DataType::u8 && x.desc.type != DataType::s8)) return false;
    CONVOY_TRY(std::optional<Function> made, function_of(node, operands, root));
    if (!made) return false;
    if (composed) replace(node, *made);
    functions_.emplace(node.outputs[0], std::move(*made));
    return composed;
  }

  // The node of the tables of its operands; nothing where another of its inputs is not constant.
  Result<std::optional<Function>> function_of(const Node& node, const std::vector<std::size_t>& operands, int root) {
    Graph small;
    Node alone = node;
    Function made{root, {}, {}};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int value = node.inputs[i];
      if (value == kAbsent) continue;
      if (std::ranges::find(operands, i) == operands.end()) {
        const HostTensor* constant = graph_.constant_of(value);
        if (constant == nullptr) return std::optional<Function>();
        alone.inputs[i] = small.add_constant(graph_.values[value].name, *constant);
        continue;
      }
      if (const auto known = functions_.find(value); known != functions_.end()) {
        alone.inputs[i] = small.add_constant("table", known->second.table);
        made.add_sources(known->second.sources);
        continue;
      }
      CONVOY_TRY(HostTensor bytes, HostTensor::allocate(TensorDesc::packed(graph_.values[root].desc.type, {256})));
      for (int byte = 0; byte < 256; ++byte) bytes.as<std::uint8_t>()[byte] = static_cast<std::uint8_t>(byte);
      alone.inputs[i] = small.add_constant("bytes", std::move(bytes));
    }
    made.add_sources(node.sources);
    const int y = small.add_value("y");
    alone.outputs = {y};
    small.nodes.push_back(std::move(alone));
    CONVOY_CHECK(constant_folding(small, context_));
    const auto& table = small.values[y].constant;
    if (!table || table->desc.dims != Dims{256}) return std::optional<Function>();
    made.table = *table;
    return std::optional(std::move(made));
  }

  void replace(Node& node, const Function& made) {
    const int table = graph_.add_constant(node.desc.name + ".table", made.table);
    node.desc.op = "Lookup";
    node.desc.domain = "convoy";
    node.desc.opset = 1;
    node.desc.attributes.clear();
    node.inputs = {made.of, table};
    node.sources = made.sources;
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<int, Function> functions_;  // by the value that is made
};

}  // namespace

Result<int> byte_tables(Graph& graph, const PassContext& context) { return Tables(graph, context).run(); }

}  // namespace convoy::network
