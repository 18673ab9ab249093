#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "convert/convert.h"
#include "network/assign/sides.h"
#include "network/conv_node.h"
#include "network/infer.h"
#include "solver/budgets.h"
#include "solver/solver.h"

namespace convoy::network {
namespace {

using Formats = std::vector<Format>;

// A value is held in so many formats at most, the one it is written in counted. (More would be thousands of sets.)
constexpr std::size_t kMostHeld = 3;

// The formats that a node may read and write, and what it takes in each.
struct Alternatives {
  std::vector<Sides> sides;
  std::vector<double> seconds;  // infinite where nothing can run it so
};

class Choices {
 public:
  Choices(const Graph& graph, std::span<const NodeTypes> types, Selector& selector)
      : graph_(graph), types_(types), selector_(selector), layouts_{Layout::nchw, Layout::nhwc, blocks()} {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) nodes_.push_back(alternatives_of(n));
    std::vector<DataType> all{DataType::f32};
    for (const NodeTypes& each : types_) {
      if (each.types.back() != DataType::f32) all = {DataType::f32, each.types.back()};
    }
    formats_ = formats_in(all);
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

  // The squares of the errors that nodes add where they are narrowed.
  solver::Resource errors() const {
    solver::Resource result{.name = "error", .uses = {}, .pair_uses = {}};
    for (const auto& [node, number] : numbers_) {
      const double error = types_[static_cast<std::size_t>(node)].error;
      const std::vector<Sides>& sides = nodes_[static_cast<std::size_t>(node)].sides;
      for (std::size_t i = 0; error > 0 && i < sides.size(); ++i) {
        if (!sides[i].reads.narrows() && !sides[i].writes.narrows()) continue;
        result.uses.push_back({number, static_cast<int>(i), error * error});
      }
    }
    return result;
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

  Formats formats_in(const std::vector<DataType>& types) const {
    Formats result;
    for (const DataType type : types) {
      for (const Layout layout : layouts_) result.emplace_back(layout, type);
    }
    return result;
  }

  Alternatives alternatives_of(std::size_t n) {
    const Node& node = graph_.nodes[n];
    const Formats formats = formats_in(types_[n].types);
    Alternatives result;
    for (const Format& reads : formats) {
      for (const Format& writes : formats) {
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
    const ConvProblem problem = in_formats(selector_.allowed(node.conv->problem), sides);
    const auto cost = selector_.estimate(problem, node.desc.name, selector_.weights_of(graph_, node, problem));
    return cost ? count(*cost) : solver::kForbidden;
  }

  double count(const Selector::Cost& cost) {
    ++costs_;
    measured_ += cost.measured ? 1 : 0;
    return cost.seconds;
  }

  double to_convert(int value, const Format& from, const Format& to) {
    return selector_.conversion_seconds(described(graph_.values[value], from), described(graph_.values[value], to));
  }
  bool same(int value, const Format& a, const Format& b) const {
    return same_bytes(described(graph_.values[value], a), described(graph_.values[value], b));
  }

  // In which formats a node reads a value, each once.
  Formats read_in(int n, int value, const Sides& sides) const {
    const Node& node = graph_.nodes[n];
    Formats result;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const Format format = format_read(node, sides, i);
      const bool known = std::ranges::any_of(result, [&](const Format& each) { return same(value, each, format); });
      if (!known) result.push_back(format);
    }
    return result;
  }

  double to_serve(int value, const Format& written, const Formats& wanted) {
    double seconds = 0;
    for (const Format& format : wanted) seconds += to_convert(value, written, format);
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
    for (const Sides& sides : nodes_[producer].sides) seconds.push_back(to_convert(value, sides.writes, {}));
    return problem_.add_costs(numbers_[producer], seconds);
  }

  Result<void> add_input(int value, int reader) {
    std::vector<double> seconds;
    for (const Sides& sides : nodes_[reader].sides) {
      seconds.push_back(to_serve(value, {}, read_in(reader, value, sides)));
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

  // Its alternatives: the format it is written in, and those that it is converted to, each once for all readers.
  Result<void> add_shared(int value, int producer, const std::vector<int>& readers, bool row_major) {
    struct Held {
      Format written;
      Formats all;  // `written` first
    };
    std::vector<Held> alternatives;
    std::vector<double> seconds;
    for (const Format& written : formats_) {
      if (producer == kAbsent && written != Format()) continue;
      for (unsigned others = 0; others < 1U << formats_.size(); ++others) {
        if (static_cast<std::size_t>(std::popcount(others)) >= kMostHeld) continue;
        Held held{written, {written}};
        bool useful = true;
        for (std::size_t i = 0; i < formats_.size(); ++i) {
          if ((others >> i & 1) == 0) continue;
          useful = useful && !serves(value, held.all, {formats_[i]});
          held.all.push_back(formats_[i]);
        }
        if (!useful || (row_major && !serves(value, held.all, {Format()}))) continue;
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

  bool serves(int value, const Formats& held, const Formats& wanted) const {
    return std::ranges::all_of(wanted, [&](const Format& format) {
      return std::ranges::any_of(held, [&](const Format& each) { return same(value, each, format); });
    });
  }

  const Graph& graph_;
  std::span<const NodeTypes> types_;
  Selector& selector_;
  std::array<Layout, 3> layouts_;
  Formats formats_;  // of all nodes
  std::vector<Alternatives> nodes_;
  solver::Problem problem_;
  std::map<int, int> numbers_;  // of the graph's nodes in the problem
  int costs_ = 0, measured_ = 0;
};

Result<GlobalSides> within_errors(const Choices& choices, const solver::Problem& problem, double limit) {
  const std::vector<solver::Resource> resources{choices.errors()};
  CONVOY_TRY(const solver::BudgetSolution solution, solver::solve_with_budgets(problem, resources, {limit * limit}));
  if (solution.choice.empty()) return Error{ErrorCode::unsupported, "no choice of types keeps the error's limit"};
  GlobalSides result{.sides = choices.sides(solution.choice), .seconds = solution.cost};
  result.proof =
      fmt::format("global: {:.4g} us by {} costs, {} of them measured, errors expected to add up to {:.3g}; ",
                  solution.cost * 1e6, choices.costs(), choices.measured(), std::sqrt(solution.used[0]));
  result.proof += solution.optimal
                      ? "no other layouts and types within the limit take less"
                      : fmt::format("others take {:.4g} us or more, {:.2g}% less", solution.lower_bound * 1e6,
                                    100 * (1 - solution.lower_bound / solution.cost));
  return result;
}

}  // namespace

std::vector<Sides> local_sides(const Graph& graph, std::span<const NodeTypes> types, Selector& selector) {
  const Choices choices(graph, types, selector);
  std::vector<Sides> sides(graph.nodes.size());
  for (std::size_t n = 0; n < sides.size(); ++n) {
    const Alternatives& node = choices.nodes()[n];
    if (node.sides.empty()) continue;
    sides[n] = node.sides[static_cast<std::size_t>(std::ranges::min_element(node.seconds) - node.seconds.begin())];
  }
  return sides;
}

Result<GlobalSides> global_sides(const Graph& graph, std::span<const NodeTypes> types, Selector& selector) {
  Choices choices(graph, types, selector);
  CONVOY_TRY(const solver::Problem problem, choices.problem());
  if (!selector.options().precision_errors.empty())
    return within_errors(choices, problem, selector.options().error_limit);
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
