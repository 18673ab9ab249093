// conv(x, w) + conv(x, w') is conv(x, w + w') where the taps of w' are among those of w, and BatchNormalization(x) is a
// convolution of one tap: networks that are trained with several branches and meant to be run with one (RepVGG,
// MobileOne). Not where finite weights have a sum that is infinite.
#include <algorithm>
#include <cmath>
#include <limits>

#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/graph/pass.h"
#include "network/graph/passes/affine.h"

namespace convoy::network {
namespace {

// A branch: what it adds to the output at tap positions of x, relative to the output's.
struct Branch {
  int node = kAbsent;
  std::optional<ConvProblem> conv;  // none: a map of channels
  std::optional<Affine> affine;
  int data = kAbsent;
};

std::optional<Branch> branch_of(const Graph& graph, int n) {
  const Node& node = graph.nodes[n];
  if (node.erased || node.inputs.empty() || node.inputs[0] == kAbsent) return std::nullopt;
  Branch branch{n, {}, {}, node.inputs[0]};
  const Value& x = graph.values[branch.data];
  if (!x.known || x.desc.rank() < 3) return std::nullopt;
  if (node.desc.op == "BatchNormalization" && node.desc.domain.empty()) {
    branch.affine = affine_of(graph, node, branch.data, x.desc.rank(), x.desc.dims[1]);
    if (!branch.affine) return std::nullopt;
    return branch;
  }
  if (!has_constant_weights(graph, node) || conv_form(node)->transposed) return std::nullopt;
  if (x.desc.type != DataType::f32 && x.desc.type != DataType::f64) return std::nullopt;  // sums of halves would differ
  auto conv = conv_problem(node, inputs_of(graph, node));
  if (!conv.ok()) return std::nullopt;
  branch.conv = std::move(conv->problem);
  return branch;
}

// The index among `wide`'s taps of each of the other's taps in one dim (position -pre + tap * dilation); empty: one is
// not among them.
std::vector<std::int64_t> taps_among(const ConvProblem& wide, const Branch& other, int dim) {
  const std::int64_t count = other.conv ? other.conv->w.dims[2 + dim] : 1;
  std::vector<std::int64_t> taps;
  for (std::int64_t tap = 0; tap < count; ++tap) {
    const std::int64_t position = other.conv ? tap * other.conv->dilation[dim] - other.conv->pre_padding[dim] : 0;
    const std::int64_t from_first = position + wide.pre_padding[dim];
    const std::int64_t at = from_first / wide.dilation[dim];
    if (from_first < 0 || from_first % wide.dilation[dim] != 0 || at >= wide.w.dims[2 + dim]) return {};
    taps.push_back(at);
  }
  return taps;
}

// False where the sum of two finite values is none.
bool add_to(const HostTensor& to, std::int64_t i, double value) {
  const DataType type = to.desc.type;
  const double before = load_as_double(type, to.data.get(), i);
  store_from_double(type, to.data.get(), i, before + value);
  return std::isfinite(load_as_double(type, to.data.get(), i)) || !std::isfinite(before) || !std::isfinite(value);
}

// Whether a filter has a tap, as large as its largest of all channels, that is small beside another: Winograd's
// transforms would lose it, so cpu.winograd computes such filters directly, which takes longer than the branches do.
bool is_uneven(const HostTensor& weights) {
  constexpr double kReach = 1024;
  const Dims& dims = weights.desc.dims;
  const std::int64_t taps = weights.desc.elements() / std::max<std::int64_t>(1, dims[0] * dims[1]);
  for (std::int64_t k = 0; k < dims[0]; ++k) {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
      double largest = 0;
      for (std::int64_t c = 0; c < dims[1]; ++c) {
        const double value = load_as_double(weights.desc.type, weights.data.get(), (k * dims[1] + c) * taps + t);
        largest = std::max(largest, std::abs(value));
      }
      most = std::max(most, largest);
      if (largest > 0) least = std::min(least, largest);
    }
    if (most > kReach * least) return true;
  }
  return false;
}

// `other`'s weights and bias become part of `wide`'s; false where they can't.
Result<bool> merge(Graph& graph, const Branch& wide, const Branch& other) {
  const ConvProblem& problem = *wide.conv;
  const int spatial = problem.spatial_dims();
  const Dims& dims = problem.w.dims;
  if (other.conv) {
    const ConvProblem& p = *other.conv;
    if (p.groups != problem.groups || p.stride != problem.stride || p.w.dims[0] != dims[0]) return false;
  } else {
    const auto is_one = [](std::int64_t stride) { return stride == 1; };
    if (!std::ranges::all_of(problem.stride, is_one) || problem.x.dims[1] != dims[0]) return false;
  }
  // [d]: of three dims, the last ones
  std::vector<std::int64_t> taps[3] = {{0}, {0}, {0}};
  std::int64_t size[3] = {1, 1, 1};
  for (int d = 0; d < spatial; ++d) {
    taps[3 - spatial + d] = taps_among(problem, other, d);
    size[3 - spatial + d] = dims[2 + d];
    if (taps[3 - spatial + d].empty()) return false;
  }
  Node& node = graph.nodes[wide.node];
  const ConvForm& form = *conv_form(node);
  const ConvInputs own = conv_inputs(node);
  const HostTensor& before = *graph.constant_of(own.weights);
  CONVOY_TRY(const HostTensor weights, HostTensor::allocate(before.desc));
  std::copy_n(before.data.get(), before.desc.bytes(), weights.data.get());
  const ConvInputs theirs = other.conv ? conv_inputs(graph.nodes[other.node]) : ConvInputs{};
  const HostTensor* const more = graph.constant_of(theirs.weights);
  std::int64_t from = 0;  // in the other's weights
  for (std::int64_t k = 0; k < dims[0]; ++k) {
    for (std::int64_t c = 0; c < dims[1]; ++c) {
      if (!other.conv && c != k % dims[1]) continue;  // as many in as out: group and channel are the output's
      for (const std::int64_t t : taps[0]) {
        for (const std::int64_t r : taps[1]) {
          for (const std::int64_t s : taps[2]) {
            const std::int64_t to = (((k * dims[1] + c) * size[0] + t) * size[1] + r) * size[2] + s;
            const double value = more != nullptr ? load_as_double(more->desc.type, more->data.get(), from++)
                                                 : other.affine->scale[static_cast<std::size_t>(k)];
            if (!add_to(weights, to, value)) return false;
          }
        }
      }
    }
  }
  const bool may_be_winograd = dims[1] > 1 && std::ranges::all_of(problem.stride, [](auto each) { return each == 1; });
  if (may_be_winograd && is_uneven(weights) && !is_uneven(before)) return false;
  const HostTensor* const old_bias = graph.constant_of(own.bias);
  const HostTensor* const more_bias = graph.constant_of(theirs.bias);
  CONVOY_TRY(const HostTensor bias, HostTensor::allocate(TensorDesc::packed(weights.desc.type, {dims[0]})));
  for (std::int64_t k = 0; k < dims[0]; ++k) {
    store_from_double(bias.desc.type, bias.data.get(), k,
                      old_bias != nullptr ? load_as_double(bias.desc.type, old_bias->data.get(), k) : 0);
    const double value = !other.conv            ? other.affine->shift[static_cast<std::size_t>(k)]
                         : more_bias != nullptr ? load_as_double(bias.desc.type, more_bias->data.get(), k)
                                                : 0;
    if (!add_to(bias, k, value)) return false;
  }
  node.inputs.resize(static_cast<std::size_t>(form.inputs), kAbsent);
  node.inputs[form.weights] = graph.add_constant(graph.values[own.weights].name + ".merged", weights);
  if (old_bias != nullptr || more_bias != nullptr || !other.conv) {
    node.inputs[form.bias] = graph.add_constant(node.desc.name + ".merged_bias", bias);
  }
  return true;
}

bool is_sum(const Node& node) {
  if (node.erased || !node.desc.domain.empty() || node.desc.opset < 7)
    return false;  // before, Add's axis was an attribute
  return node.desc.op == "Add" || node.desc.op == "Sum";
}

// Two of the sum's inputs become one, or the sum itself a convolution: whether they did.
Result<bool> merge_two(Graph& graph, Node& sum, const std::vector<int>& producers,
                       const std::vector<std::vector<int>>& readers) {
  const Value& out = graph.values[sum.outputs[0]];
  if (!out.known) return false;
  std::vector<std::pair<std::size_t, Branch>> branches;  // by the index among the sum's inputs
  for (std::size_t i = 0; i < sum.inputs.size(); ++i) {
    const int value = sum.inputs[i];
    if (value == kAbsent || producers[value] == kAbsent || readers[value].size() != 1 || graph.is_output(value))
      continue;
    if (!graph.values[value].known || graph.values[value].desc.dims != out.desc.dims) continue;
    if (auto branch = branch_of(graph, producers[value])) branches.emplace_back(i, std::move(*branch));
  }
  for (const auto& [at, wide] : branches) {
    if (!wide.conv) continue;
    for (const auto& [other_at, other] : branches) {
      if (at == other_at || wide.data != other.data) continue;
      CONVOY_TRY(const bool merged, merge(graph, wide, other));
      if (!merged) continue;
      Node& conv = graph.nodes[wide.node];
      Node& gone = graph.nodes[other.node];
      conv.sources.insert(conv.sources.end(), gone.sources.begin(), gone.sources.end());
      gone.erased = true;
      sum.inputs.erase(sum.inputs.begin() + static_cast<std::ptrdiff_t>(other_at));
      if (sum.inputs.size() == 1) {
        conv.sources.insert(conv.sources.end(), sum.sources.begin(), sum.sources.end());
        conv.outputs[0] = sum.outputs[0];
        sum.erased = true;
      }
      return true;
    }
  }
  return false;
}

}  // namespace

Result<int> branch_merging(Graph& graph, const PassContext&) {
  int changes = 0;
  auto producers = graph.producers();
  auto readers = graph.readers();
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    while (is_sum(graph.nodes[n])) {
      CONVOY_TRY(const bool merged, merge_two(graph, graph.nodes[n], producers, readers));
      if (!merged) break;
      producers = graph.producers();
      readers = graph.readers();
      ++changes;
    }
  }
  graph.sweep();
  return changes;
}

}  // namespace convoy::network
