// Reshape, Transpose, Reshape and a Gather behind them that only bring channels into another order become one Gather of
// channels: a shuffle, or a half of one. Unlike them it works in channels-last layouts.
#include <algorithm>
#include <numeric>

#include "network/graph/pass.h"

namespace convoy::network {
namespace {

constexpr std::int64_t kMostElements = 1 << 22;  // all of which are looked at

bool is(const Node& node, const char* op) {
  return !node.erased && node.desc.op == op && node.desc.domain.empty() && node.outputs.size() == 1;
}

std::int64_t product(std::span<const std::int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

// A transposed tensor: where in what is transposed its elements are, one after another.
std::optional<std::vector<std::int64_t>> order_of(const Node& transpose, const Dims& from) {
  Dims perm(from.size());
  std::iota(perm.rbegin(), perm.rend(), 0);
  const auto given = transpose.desc.integers("perm", perm);
  if (!given.ok() || given->size() != from.size() || product(from) > kMostElements) return std::nullopt;
  if (!std::is_permutation(given->begin(), given->end(), perm.begin())) return std::nullopt;
  const Dims strides = TensorDesc::packed(DataType::f32, from).strides;
  std::vector<std::int64_t> order = {0};
  for (const std::int64_t d : *given) {  // outermost first: each dim makes elements of each
    std::vector<std::int64_t> next;
    for (const std::int64_t at : order) {
      for (std::int64_t i = 0; i < from[d]; ++i) next.push_back(at + i * strides[d]);
    }
    order = std::move(next);
  }
  return order;
}

// The channels of x that a tensor of `dims` has, whose elements in x are `order`; nothing where it is more than that.
std::optional<std::vector<std::int64_t>> channels_of(std::span<const std::int64_t> order, const Dims& dims,
                                                     const Dims& x) {
  if (x.size() < 3 || dims.size() != x.size() || dims[0] != x[0] || order.empty()) return std::nullopt;
  if (!std::equal(dims.begin() + 2, dims.end(), x.begin() + 2)) return std::nullopt;
  const std::int64_t plane = product(std::span(x).subspan(2));
  std::vector<std::int64_t> channels;
  for (std::int64_t n = 0; n < dims[0]; ++n) {
    for (std::int64_t k = 0; k < dims[1]; ++k, order = order.subspan(plane)) {
      const std::int64_t first = order[0], channel = first / plane - n * x[1];
      if (n == 0) channels.push_back(channel);
      if (first % plane != 0 || channel != channels[k] || channel < 0 || channel >= x[1]) return std::nullopt;
      for (std::int64_t i = 0; i < plane; ++i) {
        if (order[i] != first + i) return std::nullopt;
      }
    }
  }
  return channels;
}

class ChannelGather {
 public:
  explicit ChannelGather(Graph& graph) : graph_(graph), producers_(graph.producers()), readers_(graph.readers()) {}

  int run() {
    const std::size_t count = graph_.nodes.size();
    for (std::size_t n = 0; n < count; ++n) {
      if (is(graph_.nodes[n], "Reshape")) look_at(graph_.nodes[n]);
    }
    return changes_;
  }

 private:
  Node* maker(int value, const char* op) {
    const int producer = value == kAbsent ? kAbsent : producers_[value];
    return producer != kAbsent && is(graph_.nodes[producer], op) ? &graph_.nodes[producer] : nullptr;
  }
  std::optional<Dims> dims(int value) const {
    if (value == kAbsent || !graph_.values[value].known) return std::nullopt;
    return graph_.values[value].desc.dims;
  }

  void look_at(Node& last) {
    Node* const transpose = last.inputs.empty() ? nullptr : maker(last.inputs[0], "Transpose");
    Node* const first =
        transpose == nullptr || transpose->inputs.empty() ? nullptr : maker(transpose->inputs[0], "Reshape");
    if (first == nullptr || first->inputs.empty() || graph_.constant_of(first->inputs[0]) != nullptr) return;
    const int x = first->inputs[0], z = last.outputs[0];
    const auto from = dims(x), between = dims(first->outputs[0]), to = dims(z);
    if (!from || !between || !to) return;
    const auto order = order_of(*transpose, *between);
    if (!order || static_cast<std::int64_t>(order->size()) != product(*to)) return;
    const std::vector<const Node*> chain = {first, transpose, &last};
    if (const auto channels = channels_of(*order, *to, *from)) return replace(last, chain, x, *channels);
    for (const int reader : readers_[z]) {
      Node& gather = graph_.nodes[reader];
      if (!is(gather, "Gather") || gather.inputs.size() != 2) continue;
      const auto index = scalar_constant(graph_, gather.inputs[1]);
      const auto axis = gather.desc.integer("axis", 0);
      const auto part = dims(gather.outputs[0]);
      if (!index || !part || !axis.ok() || *axis != 0 || part->size() + 1 != to->size()) continue;
      const std::int64_t size = product(*part), which = static_cast<std::int64_t>(*index);
      const std::int64_t begin = (which < 0 ? which + to->front() : which) * size;
      if (begin < 0 || begin + size > static_cast<std::int64_t>(order->size())) continue;
      const auto channels = channels_of(std::span(*order).subspan(begin, size), *part, *from);
      if (channels) replace(gather, {first, transpose, &last, &gather}, x, *channels);
    }
  }

  void replace(Node& node, const std::vector<const Node*>& chain, int x, const std::vector<std::int64_t>& channels) {
    auto indices = HostTensor::zeros(TensorDesc::packed(DataType::s64, {static_cast<std::int64_t>(channels.size())}));
    if (!indices.ok()) return;
    std::ranges::copy(channels, indices->as<std::int64_t>());
    std::vector<std::string> sources;
    for (const Node* each : chain) sources.insert(sources.end(), each->sources.begin(), each->sources.end());
    node.desc.op = "Gather";
    node.desc.opset = 13;
    node.desc.attributes = {{"axis", std::int64_t{1}}};
    node.inputs = {x, graph_.add_constant(node.desc.name + ".channels", *std::move(indices))};
    node.sources = std::move(sources);
    ++changes_;
  }

  Graph& graph_;
  const std::vector<int> producers_;
  const std::vector<std::vector<int>> readers_;
  int changes_ = 0;
};

}  // namespace

Result<int> channel_gather(Graph& graph, const PassContext&) { return ChannelGather(graph).run(); }

}  // namespace convoy::network
