#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "convert/convert.h"
#include "network/assign/sides.h"
#include "network/conv_node.h"
#include "network/infer.h"
#include "solver/solver.h"

namespace convoy::network {
namespace {

using Layouts = std::vector<Layout>;

// The layouts that a node may read and write, and what it takes in each.
struct Alternatives {
  std::vector<Sides> sides;
  std::vector<double> seconds;  // infinite where nothing can run it so
};

class Choices {
 public:
  Choices(const Graph& graph, Selector& selector)
      : graph_(graph), selector_(selector), layouts_{Layout::nchw, Layout::nhwc, blocks()} {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) nodes_.push_back(alternatives_of(n));
  }

  const std::vector<Alternatives>& nodes() const { return nodes_; }
  int measured() const { return measured_; }
  int costs() const { return costs_; }

  // A node of the problem for each of the graph's that has alternatives, then one for each value that several read.
  Result<solver::Problem> problem() {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].sides.empty()) continue;
      CONVOY_TRY(const int number, problem_.add_node(nodes_[n].seconds, joined(graph_.nodes[n].sources)));
      numbers_[static_cast<int>(n)] = number;
    }
    const auto producers = graph_.producers();
    const auto readers = graph_.readers();
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!value.known || !has_layout(value)) continue;
      CONVOY_CHECK(add_value(static_cast<int>(v), producers[v], readers[v]));
    }
    return std::move(problem_);
  }

  std::vector<Sides> sides(const std::vector<int>& choice) const {
    std::vector<Sides> result(nodes_.size());
    for (const auto& [node, number] : numbers_) {
      result[node] = nodes_[node].sides[static_cast<std::size_t>(choice[number])];
    }
    return result;
  }

 private:
  Layout blocks() const { return selector_.request().cpu.isa == Isa::avx512 ? Layout::nchw16c : Layout::nchw8c; }

  Alternatives alternatives_of(std::size_t n) {
    const Node& node = graph_.nodes[n];
    Alternatives result;
    for (const Layout reads : layouts_) {
      for (const Layout writes : layouts_) {
        const Sides sides{reads, writes};
        if (!can_work(graph_, node, sides)) continue;
        result.sides.push_back(sides);
        result.seconds.push_back(seconds_of(node, sides));
      }
    }
    // One that nothing can run is an error that assign() explains better.
    const auto runs = [](double seconds) { return seconds < solver::kForbidden; };
    if (std::ranges::none_of(result.seconds, runs)) std::ranges::fill(result.seconds, 0);
    return result;
  }

  double seconds_of(const Node& node, const Sides& sides) {
    if (!node.conv) {
      const auto problem = step_problem(graph_, node, sides);
      return problem ? count(selector_.cost(*problem)) : 0;
    }
    const HostTensor* const weights = graph_.constant_of(conv_inputs(node).weights);
    const auto cost = selector_.estimate(in_layouts(selector_.allowed(node.conv->problem), sides), node.desc.name,
                                         weights != nullptr ? weights->data.get() : nullptr);
    return cost ? count(*cost) : solver::kForbidden;
  }

  double count(const Selector::Cost& cost) {
    ++costs_;
    measured_ += cost.measured ? 1 : 0;
    return cost.seconds;
  }

  double to_convert(int value, Layout from, Layout to) {
    return selector_.conversion_seconds(described(graph_.values[value], from), described(graph_.values[value], to));
  }
  bool same(int value, Layout a, Layout b) const {
    return same_bytes(described(graph_.values[value], a), described(graph_.values[value], b));
  }

  // In which layouts a node reads a value, each once.
  Layouts read_in(int n, int value, const Sides& sides) const {
    const Node& node = graph_.nodes[n];
    Layouts result;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const Layout layout = layout_read(node, sides, i);
      const bool known = std::ranges::any_of(result, [&](Layout each) { return same(value, each, layout); });
      if (!known) result.push_back(layout);
    }
    return result;
  }

  double to_serve(int value, Layout written, const Layouts& wanted) {
    double seconds = 0;
    for (const Layout layout : wanted) seconds += to_convert(value, written, layout);
    return seconds;
  }

  Result<void> add_value(int value, int producer, std::vector<int> readers) {
    const bool has_producer = producer != kAbsent && numbers_.contains(producer);
    if (producer != kAbsent && !has_producer) return {};  // made by what is not planned: row-major, as are its readers
    bool row_major = graph_.is_output(value);             // somebody needs it so, whatever is chosen
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    std::erase_if(readers, [&](int reader) {
      row_major = row_major || !numbers_.contains(reader);
      return !numbers_.contains(reader);
    });
    if (readers.empty()) return has_producer && row_major ? add_output(value, producer) : Result<void>();
    if (readers.size() == 1 && !row_major) {
      return has_producer ? add_pair(value, producer, readers[0]) : add_input(value, readers[0]);
    }
    return add_shared(value, has_producer ? producer : kAbsent, readers, row_major);
  }

  Result<void> add_output(int value, int producer) {
    std::vector<double> seconds;
    for (const Sides& sides : nodes_[producer].sides) seconds.push_back(to_convert(value, sides.writes, Layout::nchw));
    return problem_.add_costs(numbers_[producer], seconds);
  }

  Result<void> add_input(int value, int reader) {
    std::vector<double> seconds;
    for (const Sides& sides : nodes_[reader].sides) {
      seconds.push_back(to_serve(value, Layout::nchw, read_in(reader, value, sides)));
    }
    return problem_.add_costs(numbers_[reader], seconds);
  }

  Result<void> add_pair(int value, int producer, int reader) {
    std::vector<double> seconds;
    for (const Sides& written : nodes_[producer].sides) {
      for (const Sides& sides : nodes_[reader].sides) {
        seconds.push_back(to_serve(value, written.writes, read_in(reader, value, sides)));
      }
    }
    CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(numbers_[producer], numbers_[reader], seconds));
    return {};
  }

  // Its alternatives: the layout it is written in, and those that it is converted to, each once for all readers.
  Result<void> add_shared(int value, int producer, const std::vector<int>& readers, bool row_major) {
    struct Held {
      Layout written;
      Layouts all;  // `written` first
    };
    std::vector<Held> alternatives;
    std::vector<double> seconds;
    for (const Layout written : layouts_) {
      if (producer == kAbsent && written != Layout::nchw) continue;
      for (int others = 0; others < 1 << layouts_.size(); ++others) {
        Held held{written, {written}};
        bool useful = true;
        for (std::size_t i = 0; i < layouts_.size(); ++i) {
          if ((others >> i & 1) == 0) continue;
          useful = useful && !serves(value, held.all, {layouts_[i]});
          held.all.push_back(layouts_[i]);
        }
        if (!useful || (row_major && !serves(value, held.all, {Layout::nchw}))) continue;
        seconds.push_back(to_serve(value, written, held.all));
        alternatives.push_back(std::move(held));
      }
    }
    CONVOY_TRY(const int number, problem_.add_node(seconds, "value " + graph_.values[value].name));
    if (producer != kAbsent) {
      std::vector<double> allowed;
      for (const Sides& sides : nodes_[producer].sides) {
        for (const Held& held : alternatives) {
          allowed.push_back(sides.writes == held.written ? 0 : solver::kForbidden);
        }
      }
      CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(numbers_[producer], number, allowed));
    }
    for (const int reader : readers) {
      std::vector<double> allowed;
      for (const Held& held : alternatives) {
        for (const Sides& sides : nodes_[reader].sides) {
          allowed.push_back(serves(value, held.all, read_in(reader, value, sides)) ? 0 : solver::kForbidden);
        }
      }
      CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(number, numbers_[reader], allowed));
    }
    return {};
  }

  bool serves(int value, const Layouts& held, const Layouts& wanted) const {
    return std::ranges::all_of(wanted, [&](Layout layout) {
      return std::ranges::any_of(held, [&](Layout each) { return same(value, each, layout); });
    });
  }

  const Graph& graph_;
  Selector& selector_;
  std::array<Layout, 3> layouts_;
  std::vector<Alternatives> nodes_;
  solver::Problem problem_;
  std::map<int, int> numbers_;  // of the graph's nodes in the problem
  int costs_ = 0, measured_ = 0;
};

}  // namespace

std::vector<Sides> local_sides(const Graph& graph, Selector& selector) {
  const Choices choices(graph, selector);
  std::vector<Sides> sides(graph.nodes.size());
  for (std::size_t n = 0; n < sides.size(); ++n) {
    const Alternatives& node = choices.nodes()[n];
    if (node.sides.empty()) continue;
    sides[n] = node.sides[static_cast<std::size_t>(std::ranges::min_element(node.seconds) - node.seconds.begin())];
  }
  return sides;
}

Result<GlobalSides> global_sides(const Graph& graph, Selector& selector) {
  Choices choices(graph, selector);
  CONVOY_TRY(const solver::Problem problem, choices.problem());
  CONVOY_TRY(const solver::Solution solution, solver::solve(problem));
  GlobalSides result{.sides = choices.sides(solution.choice), .seconds = solution.cost};
  result.proof = fmt::format("global: {:.4g} us by {} costs, {} of them measured; ", solution.cost * 1e6,
                             choices.costs(), choices.measured());
  result.proof += solution.optimal
                      ? "no other layouts take less"
                      : fmt::format("others take {:.4g} us or more, {:.2g}% less", solution.lower_bound * 1e6,
                                    100 * (1 - solution.lower_bound / solution.cost));
  result.proof += fmt::format(" ({} nodes and shared values, {} left by reductions, width {})", problem.size(),
                              solution.left, solution.width);
  return result;
}

}  // namespace convoy::network
