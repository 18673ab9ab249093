// Scan as a Loop: the body takes its slices of the scanned inputs by Gather, its scan outputs are a Loop's, put in the
// order and along the axis that the node asks for.
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "network/graph/onnx/decode.h"

namespace convoy::onnx_io {
namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

AttributeProto* attribute_of(NodeProto& node, const std::string& name) {
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

class ScanToLoop {
 public:
  // `index`: of the node in its graph; `number`: of the Scan in the model, so that no two make values of one name.
  ScanToLoop(NodeProto& scan, int index, int number, int opset)
      : scan_(scan),
        opset_(opset),
        name_(scan.name().empty() ? fmt::format("Scan_{}", index) : scan.name()),
        prefix_(fmt::format("{}/scan {}/", name_, number)) {}

  // The nodes that take the Scan's place.
  Result<std::vector<NodeProto>> run() {
    AttributeProto* const body = attribute_of(scan_, "body");
    AttributeProto* const count = attribute_of(scan_, "num_scan_inputs");
    if (body == nullptr || !body->has_g()) return bad("has no body");
    if (opset_ < 9) return refused("is of opset 8, with a batch of sequences; export the model with opset 9 or later");
    scanned_ = count == nullptr ? 0 : static_cast<int>(count->i());
    if (scanned_ < 1 || scanned_ > scan_.input_size())
      return bad(fmt::format("num_scan_inputs={}, of {} inputs", scanned_, scan_.input_size()));
    states_ = scan_.input_size() - scanned_;
    graph_ = body->mutable_g();
    if (graph_->input_size() != scan_.input_size()) {
      return bad(fmt::format("the body has {} inputs, the node {}", graph_->input_size(), scan_.input_size()));
    }
    if (graph_->output_size() != scan_.output_size() || scan_.output_size() < states_) {
      return bad(fmt::format("the body has {} outputs, the node {}, of which {} are states", graph_->output_size(),
                             scan_.output_size(), states_));
    }
    const int kept = scan_.output_size() - states_;
    CONVOY_TRY(input_axes_, numbers("scan_input_axes", scanned_));
    CONVOY_TRY(input_directions_, numbers("scan_input_directions", scanned_));
    CONVOY_TRY(output_axes_, numbers("scan_output_axes", kept));
    CONVOY_TRY(output_directions_, numbers("scan_output_directions", kept));
    NodeProto loop = take_inputs();
    CONVOY_CHECK(give_outputs(loop));
    nodes_.insert(nodes_.begin() + static_cast<std::ptrdiff_t>(before_), std::move(loop));
    return std::move(nodes_);
  }

 private:
  // What is read before the Loop, and the body's slices.
  NodeProto take_inputs() {
    NodeProto loop;
    loop.set_op_type("Loop");
    loop.set_name(name_);
    const std::string first = scan_.input(states_);
    add(nodes_, "Shape", {first}, "dims");
    constant(nodes_, "axis", {input_axes_[0]}, true);
    add(nodes_, "Gather", {prefix_ + "dims", prefix_ + "axis"}, "trips");
    constant(nodes_, "one", {1}, true);
    add(nodes_, "Sub", {prefix_ + "trips", prefix_ + "one"}, "last");
    loop.add_input(trips());
    loop.add_input("");
    for (int i = 0; i < states_; ++i) loop.add_input(scan_.input(i));

    std::vector<NodeProto> slices;
    for (int i = 0; i < scanned_; ++i) {
      const std::string whole = fmt::format("input_{}", i);
      add(nodes_, "Identity", {scan_.input(states_ + i)}, whole);
      std::string at = prefix_ + "trip";
      if (input_directions_[i] != 0) {
        at = prefix_ + fmt::format("backwards_{}", i);
        add(slices, "Sub", {prefix_ + "last", prefix_ + "trip"}, fmt::format("backwards_{}", i));
      }
      NodeProto& slice = add(slices, "Gather", {prefix_ + whole, at}, "");
      slice.set_output(0, graph_->input(states_ + i).name());
      integer(slice, "axis", input_axes_[i]);
    }
    add(slices, "Identity", {prefix_ + "goes_on"}, "condition");
    before_ = nodes_.size();

    GraphProto body;
    value(*body.add_input(), "trip", TensorProto::INT64);
    value(*body.add_input(), "goes_on", TensorProto::BOOL);
    for (int i = 0; i < states_; ++i) *body.add_input() = graph_->input(i);
    for (NodeProto& slice : slices) *body.add_node() = std::move(slice);
    for (NodeProto& node : *graph_->mutable_node()) *body.add_node() = std::move(node);
    value(*body.add_output(), "condition", TensorProto::BOOL);
    for (const auto& output : graph_->output()) *body.add_output() = output;
    body.mutable_initializer()->Swap(graph_->mutable_initializer());
    body.mutable_sparse_initializer()->Swap(graph_->mutable_sparse_initializer());
    body.set_name(graph_->name());
    *graph_ = std::move(body);
    AttributeProto& attribute = *loop.add_attribute();
    attribute.set_name("body");
    attribute.set_type(AttributeProto::GRAPH);
    attribute.mutable_g()->Swap(graph_);
    graph_ = attribute.mutable_g();
    return loop;
  }

  // The value that has the number of trips. Of inputs with more slices than the first one it is an index outside.
  std::string trips() {
    std::string checked = prefix_ + "trips";
    if (scanned_ > 1) {
      constant(nodes_, "axes", {input_axes_[0]}, false);
      add(nodes_, "Gather", {prefix_ + "dims", prefix_ + "axes"}, "all_trips");
    }
    for (int i = 1; i < scanned_; ++i) {
      const std::string dims = fmt::format("dims_{}", i), axis = fmt::format("axis_{}", i);
      const std::string slices = fmt::format("slices_{}", i), more = fmt::format("more_{}", i);
      add(nodes_, "Shape", {scan_.input(states_ + i)}, dims);
      constant(nodes_, axis, {input_axes_[i]}, true);
      add(nodes_, "Gather", {prefix_ + dims, prefix_ + axis}, slices);
      add(nodes_, "Sub", {prefix_ + slices, checked}, more);
      const std::string same = fmt::format("as many slices of scan inputs 0 and {}", i);
      checked = add(nodes_, "Gather", {prefix_ + "all_trips", prefix_ + more}, same).output(0);
    }
    return checked;
  }

  Result<void> give_outputs(NodeProto& loop) {
    for (int i = 0; i < states_; ++i) loop.add_output(scan_.output(i));
    for (int k = 0; states_ + k < scan_.output_size(); ++k) {
      const std::string& wanted = scan_.output(states_ + k);
      const bool backwards = output_directions_[k] != 0;
      std::string at_hand = wanted;
      if (!wanted.empty() && (backwards || output_axes_[k] != 0)) at_hand = prefix_ + fmt::format("rows_{}", k);
      loop.add_output(at_hand);
      if (at_hand == wanted) continue;
      std::vector<std::int64_t> order;
      if (output_axes_[k] != 0) {
        CONVOY_TRY(order, order_of(k));
      }
      if (backwards) {
        if (opset_ < 10) return refused(fmt::format("scan_output_directions[{}]=1 needs opset 10", k));
        const std::string starts = fmt::format("starts_{}", k), ends = fmt::format("ends_{}", k);
        const std::string axes = fmt::format("axes_{}", k), steps = fmt::format("steps_{}", k);
        constant(nodes_, starts, {-1}, false);
        constant(nodes_, ends, {std::numeric_limits<std::int64_t>::min()}, false);
        constant(nodes_, axes, {0}, false);
        constant(nodes_, steps, {-1}, false);
        NodeProto& slice =
            add(nodes_, "Slice", {at_hand, prefix_ + starts, prefix_ + ends, prefix_ + axes, prefix_ + steps},
                fmt::format("forwards_{}", k));
        if (order.empty()) slice.set_output(0, wanted);
        at_hand = slice.output(0);
      }
      if (order.empty()) continue;
      NodeProto& transpose = add(nodes_, "Transpose", {at_hand}, "");
      transpose.set_output(0, wanted);
      AttributeProto& perm = *transpose.add_attribute();
      perm.set_name("perm");
      perm.set_type(AttributeProto::INTS);
      for (const std::int64_t d : order) perm.add_ints(d);
    }
    return {};
  }

  // Of a Transpose that moves a Loop's axis 0 to where output k has it.
  Result<std::vector<std::int64_t>> order_of(int k) {
    const auto& info = graph_->output(1 + states_ + k);
    if (!info.type().tensor_type().has_shape())
      return refused(fmt::format("scan_output_axes[{}]={}, of a body's output '{}' whose rank the file doesn't say", k,
                                 output_axes_[k], info.name()));
    const std::int64_t rank = info.type().tensor_type().shape().dim_size() + 1;
    const std::int64_t axis = output_axes_[k] < 0 ? output_axes_[k] + rank : output_axes_[k];
    if (axis < 0 || axis >= rank) return bad(fmt::format("scan_output_axes[{}]={}, of rank {}", k, axis, rank));
    std::vector<std::int64_t> order;
    for (std::int64_t d = 1; d < rank; ++d) order.push_back(d);
    order.insert(order.begin() + axis, 0);
    return order;
  }

  // One number for each input or output: those of the attribute, or 0.
  Result<std::vector<std::int64_t>> numbers(const std::string& name, int count) {
    const AttributeProto* const given = attribute_of(scan_, name);
    std::vector<std::int64_t> all(static_cast<std::size_t>(count), 0);
    if (given == nullptr) return all;
    if (given->ints_size() != count)
      return bad(fmt::format("{} has {} numbers, {} are needed", name, given->ints_size(), count));
    all.assign(given->ints().begin(), given->ints().end());
    return all;
  }

  // A node whose output is `output` with the prefix.
  NodeProto& add(std::vector<NodeProto>& to, const std::string& op, const std::vector<std::string>& inputs,
                 const std::string& output) {
    NodeProto& node = to.emplace_back();
    node.set_op_type(op);
    node.set_name(prefix_ + (output.empty() ? op : output));
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(prefix_ + output);
    return node;
  }

  void constant(std::vector<NodeProto>& to, const std::string& name, const std::vector<std::int64_t>& values,
                bool scalar) {
    AttributeProto& attribute = *add(to, "Constant", {}, name).add_attribute();
    attribute.set_name("value");
    attribute.set_type(AttributeProto::TENSOR);
    TensorProto& tensor = *attribute.mutable_t();
    tensor.set_data_type(TensorProto::INT64);
    if (!scalar) tensor.add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t each : values) tensor.add_int64_data(each);
  }

  static void integer(NodeProto& node, const std::string& name, std::int64_t number) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(AttributeProto::INT);
    attribute.set_i(number);
  }

  void value(::onnx::ValueInfoProto& info, const std::string& name, TensorProto::DataType type) {
    info.set_name(prefix_ + name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    info.mutable_type()->mutable_tensor_type()->mutable_shape();
  }

  Error bad(const std::string& text) const {
    return {ErrorCode::corrupt, fmt::format("node '{}' (Scan): {}", name_, text)};
  }
  Error refused(const std::string& text) const {
    return {ErrorCode::unsupported, fmt::format("node '{}' (Scan): {}", name_, text)};
  }

  NodeProto& scan_;
  const int opset_;
  const std::string name_, prefix_;
  int scanned_ = 0, states_ = 0;
  GraphProto* graph_ = nullptr;  // the body
  std::vector<std::int64_t> input_axes_, input_directions_, output_axes_, output_directions_;
  std::vector<NodeProto> nodes_;
  std::size_t before_ = 0;  // of the nodes, those that come before the Loop
};

// `scans`: how many the model has had before.
Result<void> rewrite(GraphProto& graph, int opset, int& scans) {
  bool any = false;
  for (NodeProto& node : *graph.mutable_node()) {
    for (AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) CONVOY_CHECK(rewrite(*attribute.mutable_g(), opset, scans));
    }
    any |= node.op_type() == "Scan" && (node.domain().empty() || node.domain() == "ai.onnx");
  }
  if (!any) return {};
  google::protobuf::RepeatedPtrField<NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  int index = 0;
  for (NodeProto& node : nodes) {
    if (node.op_type() != "Scan" || !(node.domain().empty() || node.domain() == "ai.onnx")) {
      *graph.add_node() = std::move(node);
    } else {
      CONVOY_TRY(std::vector<NodeProto> instead, ScanToLoop(node, index, scans++, opset).run());
      for (NodeProto& each : instead) *graph.add_node() = std::move(each);
    }
    ++index;
  }
  return {};
}

}  // namespace

Result<void> scans_to_loops(ModelProto& model) {
  std::int64_t opset = 1;
  for (const auto& import : model.opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = import.version();
  }
  int scans = 0;
  return rewrite(*model.mutable_graph(), static_cast<int>(opset), scans);
}

}  // namespace convoy::onnx_io
