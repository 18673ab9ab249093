#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "convert/convert.h"
#include "network/assign/layout_rules.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"

namespace convoy::network {
namespace {

// What a value takes between row-major and channels-last, either way: `to_nhwc` or back.
double seconds_to_move(const Value& value, bool to_nhwc, Chooser& chooser) {
  const TensorDesc nchw = described(value, Layout::nchw), nhwc = described(value, Layout::nhwc);
  return to_nhwc ? chooser.costs().seconds_of_conversion(nchw, nhwc)
                 : chooser.costs().seconds_of_conversion(nhwc, nchw);
}

// A conversion's cost is that of a value which the step before has just made. At a border many are read long
// afterwards, from memory: one of yolo_tiny's took five times as long there as alone. A guess at the average.
constexpr double kAtABorder = 1.5;

struct Region {
  double nchw_seconds = 0;
  double nhwc_seconds = 0;
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

// Which formats of a node can be nhwc.
struct Flexible {
  bool reads = false;
  bool writes = false;
};

Flexible flexible(const Graph& graph, const Node& node) {
  if (can_work(graph, node, {Layout::nhwc, Layout::nhwc})) return {true, true};
  if (can_work(graph, node, {Layout::nhwc, Layout::nchw})) return {true, false};
  if (can_work(graph, node, {Layout::nchw, Layout::nhwc})) return {false, true};
  return {};
}

// A rule or a filter that only takes one layout must not fail because of the other.
void add_conv(Region& region, const Graph& graph, const Node& node, DataType type, Chooser& chooser) {
  constexpr double kOracle = 1e6;  // seconds: as good as never, yet summable
  const auto seconds = [&](Layout layout) {
    return chooser.predict(conv_query(graph, node, {{layout, type}, {layout, type}}, chooser)).value_or(kOracle);
  };
  region.nchw_seconds += seconds(Layout::nchw);
  region.nhwc_seconds += seconds(Layout::nhwc);
}

// The formats in which one convolution alone is predicted to be clearly faster than in its region's, conversions
// included.
NodeFormats improved(const Graph& graph, const Node& node, const NodeFormats& given, Chooser& chooser) {
  constexpr double kClearly = 0.9;
  const auto to_move = [&](int value, const Format& from, const Format& to) {
    if (value == kAbsent) return 0.0;
    return chooser.costs().seconds_of_conversion(described(graph.values[value], from),
                                                 described(graph.values[value], to));
  };
  const auto moving = [&](const NodeFormats& formats) {
    return to_move(conv_inputs(node).data, given.reads, formats.reads) +
           to_move(conv_inputs(node).residual, given.writes, formats.writes) +
           to_move(node.outputs[0], formats.writes, given.writes);
  };
  const auto seconds = [&](const NodeFormats& formats) -> std::optional<double> {
    const auto alone = chooser.predict(conv_query(graph, node, formats, chooser));
    return alone ? std::optional(*alone + moving(formats)) : std::nullopt;
  };
  NodeFormats best = given;
  auto least = seconds(given);
  if (!least) return given;
  for (const Layout reads : {Layout::nchw, Layout::nhwc}) {
    for (const Layout writes : {Layout::nchw, Layout::nhwc}) {
      const NodeFormats formats{{reads, given.reads.real}, {writes, given.writes.real}};
      // Predicting a convolution between two layouts may ask oneDNN, which takes up to milliseconds.
      if (moving(formats) >= kClearly * *least) continue;
      const auto other = seconds(formats);
      if (other && *other < kClearly * *least) best = formats, least = other;
    }
  }
  return best;
}

// Borders are crossed where values have fewer bytes: a QuantizeLinear at the beginning of a region in nhwc, which reads
// f32, works before the conversion, and a DequantizeLinear at its end behind it.
void move_borders(const Graph& graph, std::vector<NodeFormats>& formats, Chooser& chooser) {
  const auto producers = graph.producers();
  const auto readers = graph.readers();
  const auto is_made_in_nhwc = [&](int value) {
    return producers[value] != kAbsent && formats[producers[value]].writes.layout == Layout::nhwc;
  };
  const auto is_read_in_nhwc = [&](int value) {
    return std::ranges::any_of(readers[value],
                               [&](int reader) { return formats[reader].reads.layout == Layout::nhwc; });
  };
  const auto visit = [&](std::size_t n, bool at_beginning) {
    const Node& node = graph.nodes[n];
    if (node.conv || formats[n].reads.layout != Layout::nhwc || formats[n].writes.layout != Layout::nhwc) return;
    int input = kAbsent;
    for (const int value : node.inputs) {
      if (value == kAbsent || graph.constant_of(value) != nullptr || !has_layout(graph.values[value])) continue;
      if (input != kAbsent) return;
      input = value;
    }
    if (input == kAbsent || node.outputs.size() != 1 || !has_layout(graph.values[node.outputs[0]])) return;
    const int output = node.outputs[0];
    const double before = seconds_to_move(graph.values[input], at_beginning, chooser);
    const double behind = seconds_to_move(graph.values[output], at_beginning, chooser);
    const bool moves = at_beginning ? !is_made_in_nhwc(input) && readers[input].size() == 1 && behind < before
                                    : is_made_in_nhwc(input) && !is_read_in_nhwc(output) && before < behind;
    if (moves) formats[n].reads.layout = formats[n].writes.layout = Layout::nchw;
  };
  for (std::size_t n = 0; n < formats.size(); ++n) visit(n, true);
  for (std::size_t n = formats.size(); n-- > 0;) visit(n, false);
}

}  // namespace

std::vector<NodeFormats> greedy_formats(const Graph& graph, std::span<const DataType> types, Chooser& chooser) {
  const std::size_t count = graph.nodes.size();
  std::vector<Flexible> can(count);
  for (std::size_t n = 0; n < count; ++n) can[n] = flexible(graph, graph.nodes[n]);
  const auto producers = graph.producers();
  Regions regions(count);
  const auto inside = [&](int value) {
    return value != kAbsent && producers[value] != kAbsent && can[producers[value]].writes;
  };
  for (std::size_t n = 0; n < count; ++n) {
    if (!can[n].reads) continue;
    for (int input : graph.nodes[n].inputs) {
      if (inside(input) && has_layout(graph.values[input])) regions.join(static_cast<int>(n), producers[input]);
    }
  }
  std::map<int, Region> totals;
  for (std::size_t n = 0; n < count; ++n) {
    const Node& node = graph.nodes[n];
    if (!can[n].reads && !can[n].writes) continue;
    Region& region = totals[regions.find(static_cast<int>(n))];
    if (can[n].reads !=
        can[n].writes) {  // a Transpose, which relabels in nhwc, or copies where a graph's output is made
      const auto seconds = [&](const NodeFormats& formats) {
        const auto problem = step_problem(graph, node, formats);
        return problem ? chooser.costs().of(*problem).seconds : 0;
      };
      region.nchw_seconds += seconds({});
      region.nhwc_seconds +=
          seconds({can[n].reads ? Layout::nhwc : Layout::nchw, can[n].writes ? Layout::nhwc : Layout::nchw});
    }
    if (!node.conv) continue;
    add_conv(region, graph, what_runs(graph, node, types[n], chooser), types[n], chooser);
  }
  // A border is a value that one side holds in nhwc and the other in nchw; it is converted once for each region.
  const auto readers = graph.readers();
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (!value.known || !has_layout(value)) continue;
    if (same_bytes(value.desc, value.desc.with_layout(Layout::nhwc))) continue;
    const bool is_inside = inside(static_cast<int>(v));
    bool leaves = graph.is_output(static_cast<int>(v));
    std::vector<int> entered;
    for (int reader : readers[v]) {
      if (!can[reader].reads) {
        leaves = true;
      } else if (!is_inside && std::find(entered.begin(), entered.end(), regions.find(reader)) == entered.end()) {
        entered.push_back(regions.find(reader));
        totals[entered.back()].nhwc_seconds += kAtABorder * seconds_to_move(value, true, chooser);
      }
    }
    if (is_inside && leaves)
      totals[regions.find(producers[v])].nhwc_seconds += kAtABorder * seconds_to_move(value, false, chooser);
  }
  std::vector<NodeFormats> formats(count);
  for (std::size_t n = 0; n < count; ++n) {
    formats[n] = {{Layout::nchw, types[n]}, {Layout::nchw, types[n]}};
    const Region& region = totals[regions.find(static_cast<int>(n))];
    if (!(region.nhwc_seconds < region.nchw_seconds)) continue;
    if (can[n].reads) formats[n].reads.layout = Layout::nhwc;
    if (can[n].writes) formats[n].writes.layout = Layout::nhwc;
  }
  for (std::size_t n = 0; n < count; ++n) {
    if (can[n].reads && graph.nodes[n].conv)
      formats[n] = improved(graph, what_runs(graph, graph.nodes[n], types[n], chooser), formats[n], chooser);
  }
  move_borders(graph, formats, chooser);
  return formats;
}

}  // namespace convoy::network
