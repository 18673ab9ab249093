#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "convert/convert.h"
#include "network/assign/layout_problem.h"
#include "network/assign/memory.h"
#include "network/assign/sides.h"
#include "network/conv_node.h"
#include "network/infer.h"
#include "solver/solver.h"

namespace convoy::network {
namespace {

using Layouts = std::vector<Layout>;
using Held = LayoutProblem::Shared::Held;

// The layouts that a node may read and write, and what it takes in each.
struct Alternatives {
  std::vector<Sides> sides;
  std::vector<double> seconds;  // infinite where nothing can run it so
};

class Choices {
 public:
  // `lifetimes`: of values with few readers the alternatives say who reads which layout.
  Choices(const Graph& graph, Selector& selector, bool lifetimes = false)
      : graph_(graph), selector_(selector), lifetimes_(lifetimes), layouts_{Layout::nchw, Layout::nhwc, blocks()} {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) nodes_.push_back(alternatives_of(n));
  }

  const std::vector<Alternatives>& nodes() const { return nodes_; }

  // A node of the problem for each of the graph's that has alternatives, then one for each value that several read.
  Result<LayoutProblem> problem() {
    numbers_.assign(nodes_.size(), -1);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].sides.empty()) continue;
      CONVOY_TRY(const int number, problem_.add_node(nodes_[n].seconds, joined(graph_.nodes[n].sources)));
      numbers_[n] = number;
    }
    const auto producers = graph_.producers();
    const auto readers = graph_.readers();
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!value.known || !has_layout(value)) continue;
      CONVOY_CHECK(add_value(static_cast<int>(v), producers[v], readers[v]));
    }
    LayoutProblem result{.problem = std::move(problem_),
                         .numbers = std::move(numbers_),
                         .shared = std::move(shared_),
                         .costs = costs_,
                         .measured = measured_};
    for (const Alternatives& node : nodes_) result.sides.push_back(node.sides);
    return result;
  }

 private:
  bool is_planned(int node) const { return numbers_[node] >= 0; }
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
    const bool has_producer = producer != kAbsent && is_planned(producer);
    if (producer != kAbsent && !has_producer) return {};  // made by what is not planned: row-major, as are its readers
    bool row_major = graph_.is_output(value);             // somebody needs it so, whatever is chosen
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    std::erase_if(readers, [&](int reader) {
      row_major = row_major || !is_planned(reader);
      return !is_planned(reader);
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
    const std::vector<Held> alternatives = held_in(value, producer, readers, row_major);
    std::vector<double> seconds;
    for (const Held& held : alternatives) seconds.push_back(to_serve(value, held.written, held.all));
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
    for (std::size_t r = 0; r < readers.size(); ++r) {
      std::vector<double> allowed;
      for (const Held& held : alternatives) {
        const Layouts& has = held.read.empty() ? held.all : Layouts{held.read[r]};
        for (const Sides& sides : nodes_[readers[r]].sides) {
          allowed.push_back(serves(value, has, read_in(readers[r], value, sides)) ? 0 : solver::kForbidden);
        }
      }
      CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(number, numbers_[readers[r]], allowed));
    }
    shared_[value] = {number, readers, alternatives};
    return {};
  }

  std::vector<Held> held_in(int value, int producer, const std::vector<int>& readers, bool row_major) const {
    std::vector<Held> alternatives;
    for (const Layout written : layouts_) {
      if (producer == kAbsent && written != Layout::nchw) continue;
      if (lifetimes_ && add_read_by_each(value, written, readers, row_major, alternatives)) continue;
      for (int others = 0; others < 1 << layouts_.size(); ++others) {
        Held held{written, {written}, {}};
        bool useful = true;
        for (std::size_t i = 0; i < layouts_.size(); ++i) {
          if ((others >> i & 1) == 0) continue;
          useful = useful && !serves(value, held.all, {layouts_[i]});
          held.all.push_back(layouts_[i]);
        }
        if (!useful || (row_major && !serves(value, held.all, {Layout::nchw}))) continue;
        alternatives.push_back(std::move(held));
      }
    }
    return alternatives;
  }

  // An alternative for each choice of a layout by each reader. False: there would be too many, or one reads in several.
  bool add_read_by_each(int value, Layout written, const std::vector<int>& readers, bool row_major,
                        std::vector<Held>& alternatives) const {
    constexpr std::size_t kMostReaders = 3;
    if (readers.size() > kMostReaders) return false;
    std::vector<Held> found = {{written, {written}, {}}};
    const auto each_in = [&](const Layouts& layouts) {
      std::vector<Held> longer;
      for (const Held& held : found) {
        for (const Layout layout : layouts) {
          Held with = held;
          with.read.push_back(layout);
          if (!serves(value, held.all, {layout})) with.all.push_back(layout);
          longer.push_back(std::move(with));
        }
      }
      found = std::move(longer);
    };
    for (const int reader : readers) {
      Layouts layouts;
      for (const Sides& sides : nodes_[reader].sides) {
        const Layouts read = read_in(reader, value, sides);
        if (read.size() != 1) return false;
        if (!serves(value, layouts, read)) layouts.push_back(read.front());
      }
      each_in(layouts);
    }
    if (row_major) each_in({Layout::nchw});
    alternatives.insert(alternatives.end(), found.begin(), found.end());
    return true;
  }

  bool serves(int value, const Layouts& held, const Layouts& wanted) const {
    return std::ranges::all_of(wanted, [&](Layout layout) {
      return std::ranges::any_of(held, [&](Layout each) { return same(value, each, layout); });
    });
  }

  const Graph& graph_;
  Selector& selector_;
  bool lifetimes_;
  std::array<Layout, 3> layouts_;
  std::vector<Alternatives> nodes_;
  solver::Problem problem_;
  std::vector<int> numbers_;  // of the graph's nodes in the problem; -1: none
  std::map<int, LayoutProblem::Shared> shared_;
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

std::vector<Sides> LayoutProblem::chosen(const std::vector<int>& choice) const {
  std::vector<Sides> result(sides.size());
  for (std::size_t n = 0; n < sides.size(); ++n) {
    if (numbers[n] >= 0) result[n] = sides[n][static_cast<std::size_t>(choice[numbers[n]])];
  }
  return result;
}

Result<LayoutProblem> layout_problem(const Graph& graph, Selector& selector, bool lifetimes) {
  return Choices(graph, selector, lifetimes).problem();
}

Result<GlobalSides> global_sides(const Graph& graph, Selector& selector, const MemoryGoal& goal) {
  CONVOY_TRY(const LayoutProblem layouts, layout_problem(graph, selector, goal.asked()));
  if (goal.asked()) return sides_within_memory(graph, layouts, goal);
  CONVOY_TRY(const solver::Solution solution, solver::solve(layouts.problem));
  GlobalSides result{.sides = layouts.chosen(solution.choice), .seconds = solution.cost};
  result.proof = fmt::format("global: {:.4g} us by {} costs, {} of them measured; ", solution.cost * 1e6, layouts.costs,
                             layouts.measured);
  result.proof += solution.optimal
                      ? "no other layouts take less"
                      : fmt::format("others take {:.4g} us or more, {:.2g}% less", solution.lower_bound * 1e6,
                                    100 * (1 - solution.lower_bound / solution.cost));
  result.proof += fmt::format(" ({} nodes and shared values, {} left by reductions, width {})", layouts.problem.size(),
                              solution.left, solution.width);
  return result;
}

}  // namespace convoy::network
