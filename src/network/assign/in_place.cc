#include "network/assign/in_place.h"

#include <algorithm>
#include <optional>

#include "network/graph/infer.h"
#include "ops/operator_row.h"

namespace convoy::network {
namespace {

constexpr std::int64_t kCacheLine = 64;

// The dims that lie outside of `axis` in memory are 1, so that a part along the axis is one piece.
bool is_outermost(const TensorDesc& desc, std::int64_t axis, Layout layout) {
  for (int i = 0; i < desc.rank(); ++i) {
    if (i == axis || desc.dims[i] == 1) continue;
    const bool channels_last = layout == Layout::nhwc && axis != 0 && (i == 1 || axis == 1);
    const bool outside = channels_last ? i != 1 : i < axis;
    if (outside) return false;
  }
  return true;
}

// The bytes of the whole where each part begins; nothing: they are not pieces of it.
std::optional<std::vector<std::int64_t>> offsets_in(const Value& whole, int along,
                                                    const std::vector<const Value*>& parts, const Format& format) {
  if (!is_outermost(whole.desc, along, has_layout(whole) ? format.layout : Layout::nchw)) return std::nullopt;
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
  for (const Value* part : parts) {
    const TensorDesc desc = described(*part, format);
    const bool in_blocks = desc.channel_block > 1;
    if (in_blocks && (along > 1 || (along == 1 && desc.dims[1] % desc.channel_block != 0))) return std::nullopt;
    if (end % kCacheLine != 0) return std::nullopt;
    offsets.push_back(end);
    end += desc.bytes();
  }
  return end == described(whole, format).bytes() ? std::optional(offsets) : std::nullopt;
}

// Whether a step writes a value, which can write it anywhere.
class Writers {
 public:
  Writers(const Graph& graph, const std::vector<NodeFormats>& formats)
      : graph_(graph), formats_of_nodes_(formats), producers_(graph.producers()) {}

  bool write(int value) const {
    if (value == kAbsent || !graph_.values[value].known || graph_.values[value].constant || graph_.is_output(value)) {
      return false;
    }
    const int producer = producers_[static_cast<std::size_t>(value)];
    if (producer == kAbsent) return false;
    const Node& node = graph_.nodes[static_cast<std::size_t>(producer)];
    if (!is_static(graph_, node)) return false;
    return node.conv || step_problem(graph_, node, formats_of_nodes_[static_cast<std::size_t>(producer)]);
  }

 private:
  const Graph& graph_;
  const std::vector<NodeFormats>& formats_of_nodes_;
  std::vector<int> producers_;
};

struct Division {
  bool joins;
  int axis;  // -1: nothing is joined or split
};

// How a node's parts lie in its whole.
Division division_of(const Graph& graph, const Node& node) {
  const ops::OperatorRow* const row = ops::find_row(node.desc.domain, node.desc.op);
  if (row == nullptr || std::max(node.inputs.size(), node.outputs.size()) < 2) return {false, -1};
  const auto known = [&](int value) { return value != kAbsent && graph.values[value].known; };
  if (!std::ranges::all_of(node.outputs, known)) return {false, -1};
  std::vector<TensorDesc> outputs;
  for (const int value : node.outputs) outputs.push_back(graph.values[value].desc);
  const std::vector<ops::IndexMap> maps = row->maps(node.desc, inputs_of(graph, node), outputs);
  const int joined = ops::joined_dim(maps);
  return {joined >= 0, joined >= 0 ? joined : ops::split_dim(maps)};
}

template <class T>
std::vector<T> of_nodes(const Assignment& assignment, T NodeAssignment::*field) {
  std::vector<T> result;
  for (const NodeAssignment& each : assignment.nodes) result.push_back(each.*field);
  return result;
}

}  // namespace

InPlace::InPlace(const Graph& graph, const std::vector<NodeFormats>& formats)
    : InPlace(graph, formats, std::vector<bool>(graph.nodes.size(), true)) {}

InPlace::InPlace(const Graph& graph, const Assignment& assignment)
    : InPlace(graph, of_nodes(assignment, &NodeAssignment::formats), of_nodes(assignment, &NodeAssignment::in_place)) {}

InPlace::InPlace(const Graph& graph, const std::vector<NodeFormats>& formats, const std::vector<bool>& wanted)
    : in_place_(graph.nodes.size(), false) {
  const Writers steps(graph, formats);
  // The last first: what it reads lies in its output, and so do the outputs of those before it.
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    if (node.conv || !wanted[n] || !is_static(graph, node) || formats[n].reads != formats[n].writes) continue;
    const auto [joins, axis] = division_of(graph, node);
    if (axis < 0) continue;
    const int whole = joins ? node.outputs[0] : node.inputs[0];
    const std::vector<int>& parts = joins ? node.inputs : node.outputs;
    const auto is_written = [&](int value) { return steps.write(value); };
    if (!is_written(whole) || !std::ranges::all_of(parts, is_written)) continue;
    std::vector<const Value*> values;
    for (const int part : parts) values.push_back(&graph.values[part]);
    const Format format = formats[n].reads;
    const auto offsets = offsets_in(graph.values[whole], axis, values, format);
    if (!offsets) continue;
    // Where a Concat has the first part, it may have the others behind it.
    const View* const known = view(whole) != nullptr ? view(whole) : view(parts[0]);
    const bool lies_apart = view(whole) == nullptr && known != nullptr;
    if (lies_apart && !std::ranges::all_of(parts, [&](int part) { return view(part) != nullptr; })) continue;
    const View home = known != nullptr ? *known : View{format, whole, 0};
    if (home.format == format) in_place_[n] = place(whole, parts, *offsets, home);
  }
}

// False, and nothing is done: a value is there twice, or lies elsewhere.
bool InPlace::place(int whole, const std::vector<int>& parts, const std::vector<std::int64_t>& offsets,
                    const View& home) {
  std::map<int, View> placed{{whole, home}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!placed.try_emplace(parts[i], View{home.format, home.whole, home.offset + offsets[i]}).second) return false;
  }
  const bool fits = std::ranges::all_of(placed, [&](const auto& each) {
    const View* const elsewhere = view(each.first);
    return elsewhere == nullptr || *elsewhere == each.second;
  });
  if (fits) views_.insert(placed.begin(), placed.end());
  return fits;
}

void put_in_place(const Graph& graph, Assignment& assignment) {
  const InPlace possible(graph, of_nodes(assignment, &NodeAssignment::formats));
  for (std::size_t n = 0; n < assignment.nodes.size(); ++n) assignment.nodes[n].in_place = possible.has(n);
}

}  // namespace convoy::network
