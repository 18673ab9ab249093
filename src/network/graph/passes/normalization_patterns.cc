// Normalizations as exporters write them before the opsets that have them, in five nodes or more, as the one they mean:
//   LayerNormalization  d = x - mean(x), d / sqrt(mean(d^2) + epsilon), over the last dims, times a constant, plus
//   another RMSNormalization    x / sqrt(mean(x^2) + epsilon), over the last dims, times a constant
//   GroupNormalization  groups of channels as the channels of an InstanceNormalization, then a scale and a bias of each
//   channel
#include <algorithm>
#include <cmath>

#include "network/graph/pass.h"
#include "network/graph/passes/affine.h"
#include "network/graph/passes/matcher.h"
#include "network/graph/passes/take_over.h"

namespace convoy::network {
namespace {

class Normalization {
 public:
  Normalization(Graph& graph, Matcher& matcher) : graph_(graph), m_(matcher) {}

  // Whether node n, the Mul or the Add at the end, was made one.
  Result<bool> rewrite(int n) {
    m_.start();
    const Node node = graph_.nodes[n];
    int scaled = node.outputs[0], bias = kAbsent;
    const Node* mul = &node;
    if (node.desc.op == "Add") {
      std::tie(mul, bias) = beside_constant(node, "Mul");
      if (mul == nullptr) return false;
    }
    scaled = mul->outputs[0];
    if (mul->desc.op != "Mul" || mul->inputs.size() != 2) return false;
    for (const int side : {0, 1}) {
      const int scale = mul->inputs[side];
      if (graph_.constant_of(scale) == nullptr) continue;
      const auto found = normalized(mul->inputs[1 - side]);
      if (!found || (!found->centred && bias != kAbsent) || !m_.closed(n)) return false;
      const Value& x = graph_.values[found->x];
      const Dims dims(x.desc.dims.end() - found->dims, x.desc.dims.end());
      // A constant of a higher rank would add dims.
      for (const int value : {scaled, node.outputs[0]}) {
        if (graph_.values[value].desc.dims != x.desc.dims) return false;
      }
      if (!fits(scale, dims, x.desc.type)) return false;
      if (bias != kAbsent && !fits(bias, dims, x.desc.type)) return false;
      CONVOY_TRY(const int scales, as_row(scale, dims));
      std::vector<int> inputs{found->x, scales};
      if (bias != kAbsent) {
        CONVOY_TRY(const int biases, as_row(bias, dims));
        inputs.push_back(biases);
      }
      m_.replace(n, std::move(inputs), found->centred ? "LayerNormalization" : "RMSNormalization",
                 {{"axis", std::int64_t{-found->dims}}, {"epsilon", found->epsilon}});
      return true;
    }
    return false;
  }

 private:
  struct Found {
    int x = kAbsent;
    std::int64_t dims = 0;  // over so many of the last
    double epsilon = 0;
    bool centred = false;
  };

  // The operand of this kind, and the constant beside it.
  std::pair<const Node*, int> beside_constant(const Node& node, std::string_view op) {
    const std::size_t mark = m_.mark();
    for (const int side : {0, 1}) {
      m_.back_to(mark);
      if (node.inputs.size() != 2 || graph_.constant_of(node.inputs[side]) == nullptr) continue;
      if (const Node* other = m_.behind(node.inputs[1 - side], op)) return {other, node.inputs[side]};
    }
    return {nullptr, kAbsent};
  }

  // Of as many of the last dims as the mean is taken of; 0: it is none, or not of the last ones.
  std::int64_t last_dims(const Node& mean) const {
    const Value& x = graph_.values[mean.inputs[0]];
    const auto keeps = mean.desc.integer("keepdims", 1);
    if (!x.known || !keeps.ok() || *keeps == 0) return 0;
    std::vector<std::int64_t> axes;
    if (mean.desc.opset >= 18) {
      const auto given = mean.inputs.size() > 1 ? small_integers(graph_, mean.inputs[1], 8) : std::nullopt;
      if (!given) return 0;
      axes = *given;
    } else {
      const auto given = mean.desc.integers("axes", {});
      if (!given.ok()) return 0;
      axes = *given;
    }
    for (std::int64_t& axis : axes) axis += axis < 0 ? x.desc.rank() : 0;
    std::ranges::sort(axes);
    const auto count = static_cast<std::int64_t>(axes.size());
    for (std::int64_t i = 0; i < count; ++i) {
      if (axes[i] != x.desc.rank() - count + i) return 0;
    }
    return count < x.desc.rank() ? count : 0;
  }

  // The x of value = x - mean(x) over so many dims; kAbsent: it is something else.
  int centred(int value, std::int64_t dims) {
    const std::size_t mark = m_.mark();
    const Node* const sub = m_.behind(value, "Sub");
    const Node* const mean =
        sub == nullptr || sub->inputs.size() != 2 ? nullptr : m_.behind(sub->inputs[1], "ReduceMean");
    if (mean != nullptr && mean->inputs[0] == sub->inputs[0] && last_dims(*mean) == dims) return sub->inputs[0];
    m_.back_to(mark);
    return kAbsent;
  }

  // The x of value = 1 / x.
  int reciprocal(int value) {
    const std::size_t mark = m_.mark();
    if (const Node* const node = m_.behind(value, "Reciprocal")) return node->inputs[0];
    const Node* const div = m_.behind(value, "Div");
    if (div != nullptr && div->inputs.size() == 2 && scalar_constant(graph_, div->inputs[0]) == 1.0)
      return div->inputs[1];
    m_.back_to(mark);
    return kAbsent;
  }

  std::optional<Found> normalized(int value) {
    const std::size_t mark = m_.mark();
    if (const Node* const div = m_.behind(value, "Div"); div != nullptr && div->inputs.size() == 2) {
      return by_root(div->inputs[0], div->inputs[1]);
    }
    m_.back_to(mark);
    const Node* const mul = m_.behind(value, "Mul");
    if (mul == nullptr || mul->inputs.size() != 2) return std::nullopt;
    const std::size_t inside = m_.mark();
    for (const int side : {0, 1}) {
      m_.back_to(inside);
      const int root = reciprocal(mul->inputs[1 - side]);
      if (root != kAbsent) return by_root(mul->inputs[side], root);
    }
    return std::nullopt;
  }

  // numerator / root
  std::optional<Found> by_root(int numerator, int root) {
    const Node* const sqrt = m_.behind(root, "Sqrt");
    const Node* const add = sqrt == nullptr ? nullptr : m_.behind(sqrt->inputs[0], "Add");
    if (add == nullptr || numerator == kAbsent) return std::nullopt;
    const auto [mean, constant] = beside_constant(*add, "ReduceMean");
    const auto epsilon = scalar_constant(graph_, constant);
    const std::int64_t dims = mean == nullptr ? 0 : last_dims(*mean);
    if (dims == 0 || !epsilon) return std::nullopt;
    int squared = kAbsent;
    if (const Node* const pow = m_.behind(mean->inputs[0], "Pow")) {
      squared = m_.beside(*pow, 2, false);
    } else if (const Node* const mul = m_.behind(mean->inputs[0], "Mul"); mul != nullptr && mul->inputs.size() == 2) {
      if (mul->inputs[0] == mul->inputs[1]) squared = mul->inputs[0];
    }
    if (squared == kAbsent) return std::nullopt;
    const int x = centred(numerator, dims);
    if (squared == numerator) return Found{x == kAbsent ? numerator : x, dims, *epsilon, x != kAbsent};
    // Some wrote the difference twice.
    if (x == kAbsent || centred(squared, dims) != x) return std::nullopt;
    return Found{x, dims, *epsilon, true};
  }

  // A constant with these dims, but for some of 1 before.
  bool fits(int value, const Dims& dims, DataType type) const {
    const TensorDesc& desc = graph_.constant_of(value)->desc;
    const auto rank = static_cast<std::ptrdiff_t>(dims.size());
    if (desc.type != type || desc.rank() < rank) return false;
    return std::equal(dims.begin(), dims.end(), desc.dims.end() - rank) &&
           std::all_of(desc.dims.begin(), desc.dims.end() - rank, [](std::int64_t dim) { return dim == 1; });
  }

  Result<int> as_row(int value, const Dims& dims) {
    HostTensor tensor = *graph_.constant_of(value);
    if (tensor.desc.dims == dims) return value;
    if (!tensor.desc.is_packed(Layout::nchw)) {
      CONVOY_TRY(tensor, converted(tensor, tensor.desc.with_layout(Layout::nchw)));
    }
    tensor.desc = TensorDesc::packed(tensor.desc.type, dims);
    return graph_.add_constant(graph_.values[value].name, std::move(tensor));
  }

  Graph& graph_;
  Matcher& m_;
};

Node* only_reader(Graph& graph, int value) {
  const std::vector<int> readers = graph.readers()[value];
  return readers.size() == 1 && !graph.is_output(value) ? &graph.nodes[readers[0]] : nullptr;
}

bool is_reshape(const Node& node) { return node.desc.op == "Reshape" && node.desc.domain.empty(); }

// `first`, then `second`; nothing where finite numbers of this type become others.
std::optional<Affine> composed(const Affine& first, const Affine& second, DataType type) {
  Affine result = first;
  const auto is_finite = [&](double value) {
    double place = 0;
    store_from_double(type, &place, 0, value);
    return std::isfinite(load_as_double(type, &place, 0));
  };
  for (std::size_t c = 0; c < first.scale.size(); ++c) {
    result.scale[c] *= second.scale[c];
    result.shift[c] = result.shift[c] * second.scale[c] + second.shift[c];
    if (!is_finite(result.scale[c]) || !is_finite(result.shift[c])) return std::nullopt;
  }
  return result;
}

Result<int> constant_row(Graph& graph, const std::string& name, const std::vector<double>& values, DataType type) {
  const auto count = static_cast<std::int64_t>(values.size());
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, {count})));
  for (std::int64_t i = 0; i < count; ++i) store_from_double(type, tensor.data.get(), i, values[i]);
  return graph.add_constant(name, std::move(tensor));
}

// Reshape of x to [N, groups, rest], `normal`, Reshape back, maps of channels: `normal` becomes all of them.
Result<bool> to_group_normalization(Graph& graph, Node& normal) {
  if (normal.erased || normal.desc.op != "InstanceNormalization" || !normal.desc.domain.empty()) return false;
  const int grouped = normal.inputs[0];
  const int maker = graph.producers()[grouped];
  Node* const back = only_reader(graph, normal.outputs[0]);
  if (maker == kAbsent || !is_reshape(graph.nodes[maker]) || back == nullptr || !is_reshape(*back)) return false;
  Node& to_groups = graph.nodes[maker];
  const Value& x = graph.values[to_groups.inputs[0]];
  const TensorDesc& rows = graph.values[grouped].desc;
  if (!x.known || x.desc.rank() < 2 || !graph.values[grouped].known || rows.rank() < 2) return false;
  const TensorDesc desc = x.desc;
  const std::int64_t groups = rows.dims[1], channels = desc.dims[1];
  if (groups < 1 || rows.dims[0] != desc.dims[0] || channels % groups != 0) return false;
  if (back->inputs[0] != normal.outputs[0] || graph.values[back->outputs[0]].desc.dims != desc.dims) return false;
  const auto scales = small_constant(graph, normal.inputs[1], groups);
  const auto biases = small_constant(graph, normal.inputs[2], groups);
  if (!scales || !biases) return false;

  Affine affine;
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int64_t group = c / (channels / groups);
    affine.scale.push_back((*scales)[group]);
    affine.shift.push_back((*biases)[group]);
  }
  const int input = to_groups.inputs[0];
  if (only_reader(graph, grouped) != nullptr) {
    normal.sources.insert(normal.sources.begin(), to_groups.sources.begin(), to_groups.sources.end());
    to_groups.erased = true;
  }
  take_over(normal, *back);
  while (Node* const next = only_reader(graph, normal.outputs[0])) {
    const auto behind = affine_of(graph, *next, normal.outputs[0], desc.rank(), channels);
    if (!behind || graph.values[next->outputs[0]].desc.dims != desc.dims) break;
    const auto both = composed(affine, *behind, desc.type);
    if (!both) break;
    affine = *both;
    take_over(normal, *next);
  }
  CONVOY_TRY(const int scale, constant_row(graph, normal.desc.name + ".scale", affine.scale, desc.type));
  CONVOY_TRY(const int bias, constant_row(graph, normal.desc.name + ".bias", affine.shift, desc.type));
  normal.inputs = {input, scale, bias};
  normal.desc.op = "GroupNormalization";
  normal.desc.opset = 21;  // from which on each channel has its scale
  normal.desc.attributes["num_groups"] = groups;
  return true;
}

}  // namespace

Result<int> normalization_patterns(Graph& graph, const PassContext&) {
  int changes = 0;
  Matcher matcher(graph);
  // A Mul may be the last node, or has an Add behind it: that is tried first.
  for (const std::string_view op : {"Add", "Mul"}) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (node.erased || node.desc.op != op || !node.desc.domain.empty() || node.desc.opset < 7) continue;
      CONVOY_TRY(const bool changed, Normalization(graph, matcher).rewrite(static_cast<int>(n)));
      changes += changed;
    }
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    CONVOY_TRY(const bool changed, to_group_normalization(graph, graph.nodes[n]));
    changes += changed;
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
