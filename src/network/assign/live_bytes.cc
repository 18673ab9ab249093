#include "network/assign/live_bytes.h"

#include <algorithm>
#include <set>

#include "convert/convert.h"
#include "network/assign/memory_plan.h"
#include "network/graph/infer.h"
#include "ops/operator_row.h"

namespace convoy::network {
namespace {

// That a node, or the end, reads a value: the point of the conversion that it may need, and of the step itself.
struct Access {
  int node = -1;  // -1: the end
  int conversion = 0, step = 0;
};

class Points {
 public:
  Points(const Graph& graph, const LayoutProblem& layouts, const std::vector<int>& exports)
      : graph_(graph), layouts_(layouts), exports_(exports), producers_(graph.producers()) {
    free_.assign(graph.values.size(), false);
    cut_.assign(graph.values.size(), kNever);
    accesses_.resize(graph.values.size());
    made_at_.assign(graph.values.size(), -1);
    make_schedule();
    find_relabels();
  }

  LiveBytes run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (is_static(graph_, graph_.nodes[n])) add_step(static_cast<int>(n));
    }
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (counts(static_cast<int>(v))) add_value(static_cast<int>(v));
    }
    return std::move(result_);
  }

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();

  int add_point(std::string name) {
    result_.points.push_back({.name = std::move(name), .uses = {}, .pair_uses = {}});
    result_.fixed.push_back(0);
    return static_cast<int>(result_.points.size()) - 1;
  }

  void make_schedule() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_static(graph_, node)) continue;
      std::vector<std::pair<int, int>> read;  // values and their conversions' points
      for (const int value : node.inputs) {
        if (value == kAbsent || graph_.values[value].constant) continue;
        if (std::ranges::find(read, value, &std::pair<int, int>::first) != read.end()) continue;
        read.emplace_back(value,
                          has_layout(graph_.values[value]) ? add_point("a conversion for " + describe(node)) : 0);
      }
      const int step = add_point(describe(node));
      for (const auto& [value, conversion] : read) accesses_[value].push_back({static_cast<int>(n), conversion, step});
      for (const int output : node.outputs) {
        if (output != kAbsent) made_at_[output] = step;
      }
    }
    std::vector<int> kept = graph_.outputs;
    kept.insert(kept.end(), exports_.begin(), exports_.end());
    std::erase_if(kept, [&](int value) { return !graph_.values[value].known || graph_.values[value].constant; });
    std::vector<Access> at_end;
    for (const int value : kept)
      at_end.push_back({-1, add_point("a conversion of '" + graph_.values[value].name + "'")});
    end_ = add_point("the end");
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (!ends(kept[i])) accesses_[kept[i]].push_back({-1, at_end[i].conversion, end_});
    }
  }

  bool ends(int value) const { return !accesses_[value].empty() && accesses_[value].back().node < 0; }
  bool is_input(int value) const { return std::ranges::find(graph_.inputs, value) != graph_.inputs.end(); }
  bool is_export(int value) const { return std::ranges::find(exports_, value) != exports_.end(); }

  // A relabelled value is its source's memory. What then would be counted twice, or may not be in the arena, isn't.
  void find_relabels() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_static(graph_, node) || node.conv || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
      const int source = node.inputs[0], result = node.outputs[0];
      if (source == kAbsent || result == kAbsent) continue;
      if (std::ranges::none_of(alternatives(static_cast<int>(n)),
                               [&](const NodeFormats& formats) { return is_relabel(static_cast<int>(n), formats); })) {
        continue;
      }
      if (free_[source] || is_input(source) || graph_.is_output(source)) free_[result] = true;
      if (accesses_[source].back().node != static_cast<int>(n)) cut_[source] = std::min(cut_[source], made_at_[result]);
    }
  }

  std::vector<NodeFormats> alternatives(int node) const {
    const std::vector<NodeFormats>& formats = layouts_.formats[node];
    return formats.empty() ? std::vector<NodeFormats>{NodeFormats{}} : formats;
  }
  bool is_relabel(int node, const NodeFormats& formats) const {
    return !graph_.nodes[node].conv && !step_problem(graph_, graph_.nodes[node], formats);
  }

  bool counts(int value) const {
    const Value& v = graph_.values[value];
    return v.known && !v.constant && !free_[value] && (made_at_[value] >= 0 || is_input(value));
  }
  bool same(int value, const Format& a, const Format& b) const {
    return same_bytes(described(graph_.values[value], a), described(graph_.values[value], b));
  }
  // Of the arena: the graph's inputs and outputs, which are row-major, lie elsewhere.
  double bytes(int value, const Format& format) const {
    if (!counts(value)) return 0;
    const bool elsewhere = graph_.is_output(value) || (is_input(value) && made_at_[value] < 0);
    if (elsewhere && same(value, format, {})) return 0;
    return static_cast<double>(aligned(described(graph_.values[value], format).bytes()));
  }

  // The input whose memory the first output takes over; -1: none.
  int in_place(int n, const NodeFormats& formats) const {
    const Node& node = graph_.nodes[n];
    if (node.conv || node.outputs.empty() || node.outputs[0] == kAbsent) return -1;
    const int index = ops::find_row(node.desc.domain, node.desc.op)->in_place(node.desc);
    if (index < 0 || index >= static_cast<int>(node.inputs.size()) || node.inputs[index] == kAbsent) return -1;
    const int value = node.inputs[index], output = node.outputs[0];
    const Value& v = graph_.values[value];
    if (v.constant || graph_.is_output(value) || is_export(value) || accesses_[value].back().node != n) return -1;
    if (std::ranges::count(node.inputs, value) != 1) return -1;
    if (!same_placement(described(v, formats.reads), described(graph_.values[output], formats.writes))) return -1;
    return bytes(output, formats.writes) > 0 ? value : -1;
  }

  // What it reads, as it reads it, and what it writes.
  void add_step(int n) {
    const Node& node = graph_.nodes[n];
    std::vector<double> amounts;
    int step = kNever;
    for (const NodeFormats& formats : alternatives(n)) {
      double sum = 0;
      std::set<std::pair<int, Format>> seen;
      const int taken_over = in_place(n, formats);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const int value = node.inputs[i];
        if (value == kAbsent || graph_.values[value].constant) continue;
        step = access_of(n, value).step;
        const Format& format = format_read(node, formats, i);
        const auto known = [&](const auto& each) { return each.first == value && same(value, each.second, format); };
        if (value == taken_over || std::ranges::any_of(seen, known) || step > cut_[value]) continue;
        seen.insert({value, format});
        sum += bytes(value, format);
      }
      for (const int output : node.outputs) {
        if (output == kAbsent) continue;
        step = made_at_[output];
        if (!is_relabel(n, formats)) sum += bytes(output, formats.writes);
      }
      amounts.push_back(sum);
    }
    if (step != kNever) add_uses(step, n, amounts);
  }

  const Access& access_of(int node, int value) const {
    return *std::ranges::find(accesses_[value], node, &Access::node);
  }

  // By a node's alternatives.
  void add_uses(int point, int node, const std::vector<double>& amounts) {
    const double least = *std::ranges::min_element(amounts);
    result_.fixed[point] += least;
    for (std::size_t i = 0; i < amounts.size(); ++i) {
      if (amounts[i] > least) add_use(point, layouts_.numbers[node], i, amounts[i] - least);
    }
  }
  void add_use(int point, int number, std::size_t alternative, double amount) {
    if (amount != 0) result_.points[point].uses.push_back({number, static_cast<int>(alternative), amount});
  }

  // While no step reads or writes it.
  void add_value(int v) {
    const std::vector<Access>& accesses = accesses_[v];
    if (accesses.empty()) return;
    const int producer = producers_[v];
    const bool planned = producer != kAbsent && layouts_.numbers[producer] >= 0;
    const Access& first = accesses.front();
    if (const auto found = layouts_.shared.find(v); found != layouts_.shared.end()) {
      const LayoutProblem::Shared& shared = found->second;
      for (std::size_t i = 0; i < shared.alternatives.size(); ++i) {
        const auto add = [&](int point, double amount) { add_use(point, shared.number, i, amount); };
        LayoutProblem::Shared::Held held = shared.alternatives[i];
        if (held.read.size() != accesses.size()) held.read.clear();  // somebody reads it who is not planned
        add_lives(v, held, add);
      }
    } else if (!has_layout(graph_.values[v])) {
      add_lives(v, {.written = {}, .all = {Format()}, .read = std::vector<Format>(accesses.size())},
                [&](int point, double amount) { result_.fixed[point] += amount; });
    } else if (accesses.size() == 1 && first.node < 0) {
      if (!planned) return;
      for (std::size_t i = 0; i < layouts_.formats[producer].size(); ++i) {
        const Format& written = layouts_.formats[producer][i].writes;
        add_lives(v, {.written = written, .all = {written}, .read = {Format()}},
                  [&](int point, double amount) { add_use(point, layouts_.numbers[producer], i, amount); });
      }
    } else if (accesses.size() == 1 && layouts_.numbers[first.node] >= 0) {
      add_pair(v, planned ? producer : kAbsent, first);
    }
  }

  // As long as each format is needed, but for steps that read it in that one.
  template <class Add>
  void add_lives(int v, const LayoutProblem::Shared::Held& held, Add add) const {
    const std::vector<Access>& accesses = accesses_[v];
    const auto add_life = [&](const Format& format, int from, int to) {
      const double amount = bytes(v, format);
      for (int point = from; amount > 0 && point <= std::min(to, cut_[v]); ++point) {
        const auto reads = [&](std::size_t i) { return accesses[i].step == point && accesses[i].node >= 0; };
        bool counted = false;  // by the step that runs there
        for (std::size_t i = 0; i < accesses.size(); ++i) {
          counted = counted || (reads(i) && (held.read.empty() || same(v, held.read[i], format)));
        }
        if (!counted) add(point, amount);
      }
    };
    if (held.read.empty()) {
      add_life(held.written, made_at_[v] + 1, accesses.front().conversion - 1);
      const auto less = [&](const Format& a, const Format& b) { return bytes(v, a) < bytes(v, b); };
      add_life(*std::ranges::min_element(held.all, less), accesses.front().conversion, accesses.back().step);
      return;
    }
    int written_until = made_at_[v];
    std::vector<Format> converted;
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const Format& format = held.read[i];
      const auto is_this = [&](const Format& other) { return same(v, format, other); };
      if (is_this(held.written)) {
        written_until = std::max(written_until, accesses[i].step);
      } else if (std::ranges::none_of(converted, is_this)) {
        converted.push_back(format);
        written_until = std::max(written_until, accesses[i].conversion);
        std::size_t last = i;
        for (std::size_t j = i; j < accesses.size(); ++j) last = is_this(held.read[j]) ? j : last;
        add_life(format, accesses[i].conversion, accesses[last].step);
      }
    }
    add_life(held.written, made_at_[v] + 1, written_until);
  }

  // Of a value with one reader, which may read it in two layouts.
  void add_pair(int v, int producer, const Access& access) {
    const std::vector<NodeFormats>& reader = layouts_.formats[access.node];
    const Node& node = graph_.nodes[access.node];
    const int number = layouts_.numbers[access.node];
    std::vector<std::vector<Format>> read(reader.size());
    for (std::size_t j = 0; j < reader.size(); ++j) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != v) continue;
        const Format& format = format_read(node, reader[j], i);
        if (std::ranges::none_of(read[j], [&](const Format& other) { return same(v, format, other); })) {
          read[j].push_back(format);
        }
      }
      if (read[j].size() > 1) continue;
      for (int point = access.conversion + 1; point < access.step; ++point) {
        add_use(point, number, j, bytes(v, read[j].front()));
      }
    }
    const std::vector<NodeFormats> inputs = {NodeFormats{}};  // of the graph
    const std::vector<NodeFormats>& writer = producer == kAbsent ? inputs : layouts_.formats[producer];
    for (std::size_t i = 0; i < writer.size(); ++i) {
      const Format& written = writer[i].writes;
      for (int point = made_at_[v] + 1; point <= access.conversion && producer != kAbsent; ++point) {
        add_use(point, layouts_.numbers[producer], i, bytes(v, written));
      }
      for (std::size_t j = 0; j < reader.size(); ++j) {
        if (read[j].size() > 1 || same(v, written, read[j].front())) continue;
        const double amount = bytes(v, read[j].front());
        if (amount == 0) continue;
        if (producer == kAbsent) {
          add_use(access.conversion, number, j, amount);
        } else {
          result_.points[access.conversion].pair_uses.push_back(
              {layouts_.numbers[producer], number, static_cast<int>(i), static_cast<int>(j), amount});
        }
      }
    }
  }

  const Graph& graph_;
  const LayoutProblem& layouts_;
  const std::vector<int>& exports_;
  std::vector<int> producers_;
  LiveBytes result_;
  int end_ = 0;
  std::vector<bool> free_;                     // by value: may be memory outside the arena
  std::vector<int> cut_;                       // by value: the last point at which it surely is not counted twice
  std::vector<std::vector<Access>> accesses_;  // by value, in order
  std::vector<int> made_at_;                   // by value: the step's point; -1: none
};

}  // namespace

LiveBytes live_bytes(const Graph& graph, const LayoutProblem& layouts, const std::vector<int>& exports) {
  return Points(graph, layouts, exports).run();
}

std::vector<int> values_of_dynamic_subgraph(const Graph& graph) {
  std::set<int> made_there;
  std::vector<int> read;
  for (const Node& node : graph.nodes) {
    if (!is_static(graph, node)) made_there.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const Node& node : graph.nodes) {
    if (is_static(graph, node)) continue;
    for (const int value : node.inputs) {
      if (value == kAbsent || made_there.contains(value) || graph.values[value].constant) continue;
      if (std::ranges::find(read, value) == read.end()) read.push_back(value);
    }
  }
  return read;
}

}  // namespace convoy::network
