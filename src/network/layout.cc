#include "network/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "network/conv_node.h"
#include "convert/convert.h"
#include "network/infer.h"

namespace convoy::network {
namespace {

// Conversions read and write a tensor once each; what a core of a current server moves while both are cold.
constexpr double kConvertBytesPerSecond = 8e9;

struct Region {
  double nchw_seconds = 0;
  double nhwc_seconds = 0;
  bool has_conv = false;
};

class Regions {
 public:
  explicit Regions(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void join(int a, int b) { parent_[find(a)] = find(b); }

 private:
  std::vector<int> parent_;
};

bool all_known(const Graph& graph, const Node& node) {
  const auto known = [&](int id) { return id == kAbsent || graph.values[id].known; };
  return std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), known);
}

// Whether the operator takes nhwc for all its activations.
bool accepts_nhwc(const Graph& graph, const Node& node) {
  const ops::Operator* op = ops::find_operator(node.desc.domain, node.desc.op);
  if (op == nullptr || !all_known(graph, node)) return false;
  std::vector<ops::Input> inputs = inputs_of(graph, node);
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent || !has_layout(graph.values[node.inputs[i]])) continue;
    if (inputs[i].desc.rank() > 5) return false;
    inputs[i].desc = inputs[i].desc.with_layout(Layout::nhwc);
    any = true;
  }
  return any && op->accepts(node.desc, inputs, Layout::nhwc);
}

// A rule or a filter that only takes one layout must not fail because of the other.
void add_conv(Region& region, const ConvProblem& conv, const void* weights, Selector& selector) {
  constexpr double kOracle = 1e6;  // seconds: as good as never, yet summable
  const ConvProblem problem = selector.allowed(conv);
  region.has_conv = true;
  region.nchw_seconds += selector.predict(in_layout(problem, Layout::nchw), weights).value_or(kOracle);
  region.nhwc_seconds += selector.predict(in_layout(problem, Layout::nhwc), weights).value_or(kOracle);
}

}  // namespace

bool has_layout(const Value& value) { return !value.constant && value.desc.rank() >= 3; }

ConvProblem in_layout(ConvProblem problem, Layout layout) {
  problem.x = problem.x.with_layout(layout);
  problem.y = problem.y.with_layout(layout);
  return problem;
}

Result<std::vector<Layout>> assign_layouts(const Graph& graph, Selector& selector) {
  const std::size_t count = graph.nodes.size();
  std::vector<bool> flexible(count, false);
  for (std::size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    flexible[n] = is_convolution(node) ? all_known(graph, node) : accepts_nhwc(graph, node);
  }
  const auto producers = graph.producers();
  Regions regions(count);
  const auto flexible_producer = [&](int value) {
    return value != kAbsent && producers[value] != kAbsent && flexible[producers[value]];
  };
  for (std::size_t n = 0; n < count; ++n) {
    if (!flexible[n]) continue;
    for (int input : graph.nodes[n].inputs) {
      if (flexible_producer(input) && has_layout(graph.values[input]))
        regions.join(static_cast<int>(n), producers[input]);
    }
  }
  std::map<int, Region> totals;
  for (std::size_t n = 0; n < count; ++n) {
    if (!flexible[n] || !is_convolution(graph.nodes[n])) continue;
    CONVOY_TRY(const ConvNode conv, conv_problem(graph.nodes[n], inputs_of(graph, graph.nodes[n])));
    const HostTensor* weights = graph.constant_of(graph.nodes[n].inputs[conv_weight_input(graph.nodes[n].desc)]);
    add_conv(totals[regions.find(static_cast<int>(n))], conv.problem, weights ? weights->data.get() : nullptr,
             selector);
  }
  // A border is a value that one side holds in nhwc and the other in nchw; it is converted once for each region.
  const auto readers = graph.readers();
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (!value.known || !has_layout(value) || same_bytes(value.desc.dims, Layout::nchw, Layout::nhwc)) continue;
    const double seconds = 2.0 * static_cast<double>(value.desc.bytes()) / kConvertBytesPerSecond;
    const bool inside = flexible_producer(static_cast<int>(v));
    const int region = inside ? regions.find(producers[v]) : kAbsent;
    bool leaves = graph.is_output(static_cast<int>(v));
    std::vector<int> entered;
    for (int reader : readers[v]) {
      if (!flexible[reader]) {
        leaves = true;
      } else if (!inside && std::find(entered.begin(), entered.end(), regions.find(reader)) == entered.end()) {
        entered.push_back(regions.find(reader));
        totals[entered.back()].nhwc_seconds += seconds;
      }
    }
    if (inside && leaves) totals[region].nhwc_seconds += seconds;
  }
  std::vector<Layout> layouts(count, Layout::nchw);
  for (std::size_t n = 0; n < count; ++n) {
    if (!flexible[n]) continue;
    const Region& region = totals[regions.find(static_cast<int>(n))];
    if (region.has_conv && region.nhwc_seconds < region.nchw_seconds) layouts[n] = Layout::nhwc;
  }
  return layouts;
}

}  // namespace convoy::network
