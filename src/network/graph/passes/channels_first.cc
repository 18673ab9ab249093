#include "network/graph/passes/channels_first.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "ops/operator_row.h"

namespace convoy::network {
namespace {

using Order = std::vector<std::int64_t>;

// A constant that broadcasts to `rank` dims, with the channels first.
Result<HostTensor> turned(const HostTensor& given, int rank) {
  Dims dims = given.desc.dims;
  dims.insert(dims.begin(), static_cast<std::size_t>(rank) - dims.size(), 1);
  const std::int64_t channels = dims.back(), images = dims.front();
  CONVOY_TRY(HostTensor moved, HostTensor::allocate(TensorDesc::packed(given.desc.type, channels_first(dims))));
  const std::int64_t elements = given.desc.elements();
  const std::int64_t pixels = elements == 0 ? 0 : elements / images / channels;
  const std::size_t size = size_of(given.desc.type);
  const auto* from = given.as<std::byte>();
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t p = 0; p < pixels; ++p) {
      for (std::int64_t c = 0; c < channels; ++c, from += size) {
        std::memcpy(moved.as<std::byte>() + static_cast<std::size_t>((n * channels + c) * pixels + p) * size, from,
                    size);
      }
    }
  }
  return moved;
}

Result<HostTensor> integers(const Order& list) {
  CONVOY_TRY(HostTensor tensor,
             HostTensor::allocate(TensorDesc::packed(DataType::s64, {static_cast<std::int64_t>(list.size())})));
  std::copy(list.begin(), list.end(), tensor.as<std::int64_t>());
  return tensor;
}

class Rules {
 public:
  Rules(const Graph& graph, int rank, const std::function<bool(int)>& comes_first)
      : graph_(graph), rank_(rank), comes_first_(comes_first) {}

  Result<bool> work(const Node& node, ChannelsFirst& moved) {
    const std::string& op = node.desc.op;
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, op) != names.end();
    };
    if (op == "Concat") {
      CONVOY_TRY(const bool works, operands(node, moved, false));
      return works && map_axis(moved.desc, 0);
    }
    const ops::OperatorRow* const row = ops::find_row(node.desc.domain, op);
    const ops::Values values = row == nullptr ? ops::Values{} : row->values(node.desc);
    if (is_one_of({"Max", "Min", "Sum", "Mean", "Mod", "Where"}) ||
        (values.kind == ops::Values::mapped && values.operands[1] == 1)) {
      return operands(node, moved, true);
    }
    if (!comes_first_(node.inputs[0])) return false;
    if (op == "Cast" || (values.kind == ops::Values::mapped && values.operands == std::array{0, -1})) {
      return std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](int input) {
        return input == kAbsent || (is_known(input) && graph_.values[input].desc.elements() == 1);
      });
    }
    if (op == "Split") return map_axis(moved.desc, 0);
    if (is_one_of({"Softmax", "LogSoftmax"})) return node.desc.opset >= 13 && map_axis(moved.desc, -1);
    if (is_one_of({"ArgMax", "ArgMin"})) {
      const auto axis = node.desc.integer("axis", 0);
      return axis.ok() && reduces(node, {*axis}, moved) && map_axis(moved.desc, 0);
    }
    if (op.starts_with("Reduce")) return reduction(node, moved);
    if (op == "Pad") return pad(node, moved);
    if (op == "Slice") return slice(node, moved);
    if (op == "Resize") return resize(node, moved);
    return false;
  }

 private:
  bool is_known(int value) const { return value != kAbsent && graph_.values[value].known; }
  int rank_of(int value) const { return graph_.values[value].desc.rank(); }

  std::optional<std::int64_t> mapped(std::int64_t axis) const {
    if (axis < -rank_ || axis >= rank_) return std::nullopt;
    return last_order(rank_)[axis < 0 ? axis + rank_ : axis];
  }
  std::optional<Order> mapped(Order axes) const {
    for (std::int64_t& axis : axes) {
      const auto now = mapped(axis);
      if (!now) return std::nullopt;
      axis = *now;
    }
    return axes;
  }
  bool map_axis(ops::NodeDesc& desc, std::int64_t fallback) const {
    const auto axis = desc.integer("axis", fallback);
    const auto now = axis.ok() ? mapped(*axis) : std::nullopt;
    if (now) desc.attributes["axis"] = *now;
    return now.has_value();
  }
  Result<bool> put(ChannelsFirst& moved, int input, const std::optional<Order>& list) {
    if (!list) return false;
    CONVOY_TRY(moved.constants[input], integers(*list));
    return true;
  }

  // All inputs are operands alike, which broadcast to the outputs' rank or are of it.
  Result<bool> operands(const Node& node, ChannelsFirst& moved, bool broadcast) {
    if (rank_of(node.outputs[0]) != rank_) return false;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      const int input = node.inputs[i];
      if (!is_known(input)) return false;
      const TensorDesc& desc = graph_.values[input].desc;
      if (!broadcast && desc.rank() != rank_) return false;
      if (comes_first_(input)) {
        if (desc.rank() != rank_) return false;
      } else if (broadcast && desc.elements() == 1) {
        continue;
      } else if (const HostTensor* const constant = graph_.constant_of(input)) {
        if (constant->desc.bytes() != constant->desc.elements() * static_cast<std::int64_t>(size_of(desc.type))) {
          return false;
        }
        CONVOY_TRY(moved.constants[i], turned(*constant, rank_));
      } else if (desc.rank() == rank_ && moves_nothing(desc.dims)) {
        moved.transposed.push_back(i);
      } else {
        return false;
      }
    }
    return true;
  }

  // What is left keeps its order where the channels go or everything but them does.
  bool reduces(const Node& node, const Order& axes, ChannelsFirst& moved) const {
    if (rank_of(node.outputs[0]) == rank_) return true;
    moved.outputs_too = false;
    std::vector<bool> gone(static_cast<std::size_t>(rank_), axes.empty());
    for (const std::int64_t axis : axes) {
      if (!mapped(axis)) return false;
      gone[axis < 0 ? axis + rank_ : axis] = true;
    }
    return gone.back() || std::all_of(gone.begin() + 1, gone.end() - 1, [](bool is) { return is; });
  }
  Result<bool> reduction(const Node& node, ChannelsFirst& moved) {
    if (node.desc.has("axes")) {
      const auto axes = node.desc.integers("axes", {});
      const auto now = axes.ok() ? mapped(*axes) : std::nullopt;
      if (!now || !reduces(node, *axes, moved)) return false;
      moved.desc.attributes["axes"] = *now;
      return true;
    }
    if (node.inputs.size() < 2 || node.inputs[1] == kAbsent) return reduces(node, {}, moved);
    const auto axes = small_integers(graph_, node.inputs[1], rank_);
    if (!axes || !reduces(node, *axes, moved)) return false;
    return put(moved, 1, mapped(*axes));
  }

  Result<bool> pad(const Node& node, ChannelsFirst& moved) {
    const auto fits = [&](const Order& pads) { return pads.size() == 2 * static_cast<std::size_t>(rank_); };
    const auto permuted = [&](const Order& pads) {
      Order now(pads.size());
      for (int a = 0; a < rank_; ++a) {
        now[last_order(rank_)[a]] = pads[a];
        now[rank_ + last_order(rank_)[a]] = pads[rank_ + a];
      }
      return now;
    };
    if (node.desc.opset < 11) {
      const auto pads = node.desc.integers("pads", {});
      if (!pads.ok() || !fits(*pads)) return false;
      moved.desc.attributes["pads"] = permuted(*pads);
      return true;
    }
    if (node.inputs.size() > 3 && node.inputs[3] != kAbsent) {
      const auto axes = small_integers(graph_, node.inputs[3], rank_);
      return axes ? put(moved, 3, mapped(*axes)) : Result<bool>(false);
    }
    const auto pads = node.inputs.size() < 2 ? std::nullopt : small_integers(graph_, node.inputs[1], 2L * rank_);
    return pads && fits(*pads) ? put(moved, 1, permuted(*pads)) : Result<bool>(false);
  }

  Result<bool> slice(const Node& node, ChannelsFirst& moved) {
    if (node.desc.opset < 10 || !is_known(node.inputs[1])) return false;
    std::optional<Order> axes;
    if (node.inputs.size() > 3 && node.inputs[3] != kAbsent) {
      axes = small_integers(graph_, node.inputs[3], rank_);
    } else {
      axes.emplace(static_cast<std::size_t>(graph_.values[node.inputs[1]].desc.elements()));
      std::iota(axes->begin(), axes->end(), 0);
    }
    return axes ? put(moved, 3, mapped(*axes)) : Result<bool>(false);
  }

  // Scales or sizes by dim, or for the dims that `axes` names.
  Result<bool> resize(const Node& node, ChannelsFirst& moved) {
    const auto mode = node.desc.text("coordinate_transformation_mode", "half_pixel");
    if (!mode.ok() || *mode == "tf_crop_and_resize") return false;
    if (node.desc.has("axes")) {
      const auto axes = node.desc.integers("axes", {});
      const auto now = axes.ok() ? mapped(*axes) : std::nullopt;
      if (now) moved.desc.attributes["axes"] = *now;
      return now.has_value();
    }
    for (int i = 1; i < static_cast<int>(node.inputs.size()); ++i) {
      const HostTensor* const given = graph_.constant_of(node.inputs[i]);
      if (node.inputs[i] == kAbsent || (given != nullptr && given->desc.elements() == 0)) continue;
      if (given == nullptr || given->desc.dims != Dims{rank_}) return false;
      CONVOY_TRY(HostTensor now, HostTensor::allocate(given->desc));
      const std::size_t size = size_of(given->desc.type);
      for (int a = 0; a < rank_; ++a) {
        std::memcpy(now.as<std::byte>() + static_cast<std::size_t>(last_order(rank_)[a]) * size,
                    given->as<std::byte>() + static_cast<std::size_t>(a) * size, size);
      }
      moved.constants[i] = std::move(now);
    }
    return true;
  }

  const Graph& graph_;
  const int rank_;
  const std::function<bool(int)>& comes_first_;
};

}  // namespace

std::vector<std::int64_t> last_order(int rank) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank), 0);
  std::iota(order.begin() + 1, order.end(), 2);
  order.back() = 1;
  return order;
}
std::vector<std::int64_t> first_order(int rank) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank), 0);
  std::iota(order.begin() + 2, order.end(), 1);
  order[1] = rank - 1;
  return order;
}

Dims channels_first(Dims dims) {
  std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

bool moves_nothing(const Dims& dims) {
  return std::count_if(dims.begin() + 1, dims.end(), [](std::int64_t dim) { return dim != 1; }) <= 1;
}

void add_transpose(Graph& graph, const Node& like, int from, int to, std::vector<std::int64_t> perm) {
  Node node;
  node.desc = {.op = "Transpose", .domain = {}, .name = like.desc.name, .opset = 13, .attributes = {}};
  node.desc.attributes["perm"] = std::move(perm);
  node.inputs = {from};
  node.outputs = {to};
  node.sources = like.sources;
  graph.nodes.push_back(std::move(node));
}

Result<std::optional<ChannelsFirst>> channels_first(const Graph& graph, const Node& node,
                                                    const std::function<bool(int)>& comes_first) {
  const auto one = std::ranges::find_if(node.inputs, comes_first);
  if (one == node.inputs.end() || !node.desc.domain.empty() || node.desc.opset < 7) {
    return std::optional<ChannelsFirst>();
  }
  for (const int output : node.outputs) {
    if (output == kAbsent || !graph.values[output].known) return std::optional<ChannelsFirst>();
  }
  ChannelsFirst now{.desc = node.desc, .constants = {}, .transposed = {}};
  CONVOY_TRY(const bool works, Rules(graph, graph.values[*one].desc.rank(), comes_first).work(node, now));
  return works ? std::optional(std::move(now)) : std::nullopt;
}

}  // namespace convoy::network
