#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "convert/convert.h"
#include "network/assign/energy.h"
#include "network/assign/in_place.h"
#include "network/assign/layout_problem.h"
#include "network/assign/layout_rules.h"
#include "network/assign/memory.h"
#include "network/assign/off_predictions.h"
#include "network/assign/threads.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "solver/budgets.h"
#include "solver/solver.h"

namespace convoy::network {
namespace {

using Formats = std::vector<Format>;
using Held = LayoutProblem::Shared::Held;

// Seconds on all threads, of a step that one thread is never better for.
constexpr double kNotTiny = 50e-6;

// A value is held in so many formats at most, the one it is written in counted. (More would be thousands of sets.)
constexpr std::size_t kMostHeld = 3;

// The formats that a node may read and write, and what it takes in each.
struct Alternatives {
  std::vector<NodeFormats> formats;
  std::vector<double> seconds;  // infinite where nothing can run it so
  std::vector<std::optional<double>> joules;
  std::vector<int> unfused;              // as Forms::unfused: what takes least with these formats
  std::vector<Chooser::Option> options;  // as LayoutProblem::options
};

class Choices {
 public:
  Choices(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser, const MemoryGoal& goal = {})
      : graph_(graph), types_(types), chooser_(chooser), goal_(goal), layouts_{Layout::nchw, Layout::nhwc} {
    const bool on_processor = chooser.home() == 0;
    if (on_processor) layouts_.push_back(blocks());
    std::vector<DataType> all{DataType::f32};
    for (const NodeTypes& each : types_) {
      if (each.types.back() != DataType::f32) all = {DataType::f32, each.types.back()};
    }
    formats_ = formats_in(all);
    for (const Format& format : formats_) {
      if (!goal_.asked() && on_processor)
        in_place_.emplace(format, InPlace(graph, {graph.nodes.size(), {format, format}}));
    }
    ask_ahead();
    std::vector<std::vector<Choice>> choices;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      choices.push_back(choices_of(n));
      add_to(off_, choices.back());
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) nodes_.push_back(alternatives_of(n, choices[n]));
  }

  const std::vector<Alternatives>& nodes() const { return nodes_; }

  // A node of the problem for each of the graph's that has alternatives, then one for each value that several read.
  Result<LayoutProblem> problem() {
    numbers_.assign(nodes_.size(), -1);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].formats.empty()) continue;
      CONVOY_TRY(const int number, problem_.add_node(nodes_[n].seconds, joined(graph_.nodes[n].sources)));
      numbers_[n] = number;
    }
    const auto producers = graph_.producers();
    const auto readers = graph_.readers();
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!value.known || value.constant) continue;
      if (has_layout(value)) {
        CONVOY_CHECK(add_value(static_cast<int>(v), producers[v], readers[v]));
      } else {
        CONVOY_CHECK(add_cache_transfers(static_cast<int>(v), producers[v], readers[v]));
      }
    }
    LayoutProblem result{.problem = std::move(problem_),
                         .numbers = std::move(numbers_),
                         .shared = std::move(shared_),
                         .costs = costs_,
                         .measured = measured_};
    for (const Alternatives& node : nodes_) {
      result.formats.push_back(node.formats);
      result.unfused.push_back(node.unfused);
      result.seconds.push_back(node.seconds);
      result.joules.push_back(node.joules);
      result.options.push_back(node.options);
    }
    return result;
  }

 private:
  bool counts_lifetimes() const { return goal_.activation_limit || goal_.least; }
  bool is_planned(int node) const { return numbers_[node] >= 0; }
  Layout blocks() const { return chooser_.request().cpu.isa == Isa::avx512 ? Layout::nchw16c : Layout::nchw8c; }

  Formats formats_in(const std::vector<DataType>& types) const {
    Formats result;
    for (const DataType type : types) {
      for (const Layout layout : layouts_) result.emplace_back(layout, type);
    }
    return result;
  }

  // With these formats and so many fusions undone.
  struct Choice {
    NodeFormats formats;
    int unfused = 0;
    Cost cost;                 // of the node, or of the convolution that is left
    std::vector<Cost> behind;  // of what it leaves
    std::optional<double> joules() const {
      std::optional<double> sum = cost.joules;
      for (const Cost& each : behind) {
        sum = sum && each.joules ? std::optional(*sum + *each.joules) : std::nullopt;
      }
      return sum;
    }
  };

  bool has_options(const Node& node) const { return goal_.weight_limit && node.conv; }

  std::vector<NodeFormats> formats_of(std::size_t n) const {
    std::vector<NodeFormats> result;
    const Formats formats = formats_in(types_[n].types);
    for (const Format& reads : formats) {
      for (const Format& writes : formats) {
        if (!can_work(graph_, graph_.nodes[n], {reads, writes})) continue;
        for (const bool strict : types_[n].strict)
          result.push_back({.reads = reads, .writes = writes, .strict = strict});
      }
    }
    return result;
  }

  // Those of the node that a convolution took over last, where that is undone.
  static NodeFormats beside(const Node& conv, const NodeFormats& formats) {
    const Format& format = conv.fused->ahead ? formats.reads : formats.writes;
    return {format, format, formats.threads};
  }

  // About all convolutions that choices_of() and add_options() will ask about.
  void ask_ahead() {
    struct Asked {
      const Node* node;
      NodeFormats formats;
    };
    std::vector<Asked> all;
    for (std::size_t n = 0; n < graph_.nodes.size() && chooser_.home() != 0; ++n) {
      for (const NodeFormats& formats : formats_of(n)) {
        const Node* left = &graph_.nodes[n];
        if (left->conv) all.push_back({left, formats});
        while (!goal_.asked() && left->fused && can_work(graph_, left->fused->next, beside(*left, formats))) {
          left = &left->fused->conv;
          if (left->conv) all.push_back({left, formats});
        }
      }
    }
    chooser_.ask_ahead(all.size(), [&](std::size_t i) {
      chooser_.estimate(conv_query(graph_, *all[i].node, all[i].formats, chooser_));
    });
  }

  std::vector<Choice> choices_of(std::size_t n) {
    const Node& node = graph_.nodes[n];
    std::vector<Choice> choices;
    if (has_options(node)) return choices;
    for (const NodeFormats& formats : formats_of(n)) {
      const double on_all = add_choices(n, formats, choices);
      if (!may_run_on_one(node, formats, on_all)) continue;
      std::vector<Choice> alone;
      const double on_one = add_choices(n, {formats.reads, formats.writes, Threads::one, formats.strict}, alone);
      if (may_be_better_on_one(on_one, on_all)) choices.insert(choices.end(), alone.begin(), alone.end());
    }
    return choices;
  }

  Alternatives alternatives_of(std::size_t n, const std::vector<Choice>& choices) {
    const Node& node = graph_.nodes[n];
    Alternatives result;
    if (has_options(node)) {
      for (const NodeFormats& formats : formats_of(n)) add_options(node, formats, result);
    }
    OffPredictions off;
    add_to(off, choices);
    for (const Choice& choice : choices) {
      double seconds = expected(choice.cost, off);
      for (const Cost& each : choice.behind) seconds += expected(each, off);
      if (result.formats.empty() || result.formats.back() != choice.formats) {
        result.formats.push_back(choice.formats);
        result.seconds.push_back(seconds);
        result.joules.push_back(choice.joules());
        result.unfused.push_back(choice.unfused);
      } else if (seconds < result.seconds.back()) {
        result.seconds.back() = seconds;
        result.joules.back() = choice.joules();
        result.unfused.back() = choice.unfused;
      }
    }
    if (node.conv && result.formats.empty() && is_static(graph_, node))
      result = {{NodeFormats{}}, {0}, {std::nullopt}, {&without_gate(node) != &node ? 1 : 0}, {}};
    // One that nothing can run is an error that assign() explains better.
    const auto runs = [](double seconds) { return seconds < solver::kForbidden; };
    if (std::ranges::none_of(result.seconds, runs)) std::ranges::fill(result.seconds, 0);
    return result;
  }

  static void add_to(OffPredictions& off, const std::vector<Choice>& choices) {
    for (const Choice& choice : choices) {
      off.add(choice.cost);
      for (const Cost& each : choice.behind) off.add(each);
    }
  }

  // A prediction counts as being as far off as those of the same engine that were measured, for the node or else in the
  // whole network, up to 4 times; where there are none, as those of other engines for the node, up to twice. Else what
  // was never measured would be preferred, since nobody knows how slow it is.
  double expected(const Cost& cost, const OffPredictions& of_node) const {
    if (cost.measured) return cost.seconds;
    const auto times = [&](double off, double most) { return std::clamp(off, 1 / most, most) * cost.seconds; };
    for (const OffPredictions* const off : {&of_node, &off_}) {
      if (const auto known = off->of(cost.runs_on)) return times(*known, 4);
    }
    return times(of_node.all().value_or(1), 2);
  }

  void add_options(const Node& node, const NodeFormats& formats, Alternatives& result) {
    for (const Chooser::Option& option : chooser_.options_of(conv_query(graph_, node, formats, chooser_))) {
      result.formats.push_back(formats);
      result.seconds.push_back(option.cost.seconds);
      result.joules.push_back(option.cost.joules);
      result.unfused.push_back(0);
      result.options.push_back(option);
      ++costs_;
      measured_ += option.cost.measured ? 1 : 0;
    }
  }

  // What can be switched keeps all threads, since what it takes is stored for these.
  bool may_run_on_one(const Node& node, const NodeFormats& formats, double on_all) {
    if (chooser_.home() != 0 || chooser_.request().threads == 1 || on_all > kNotTiny) return false;
    return !node.conv || chooser_.switchable(conv_query(graph_, node, formats, chooser_).problem) < 0;
  }

  // As it is, and with the last of its fusions undone. What the fastest of these takes.
  double add_choices(std::size_t n, const NodeFormats& formats, std::vector<Choice>& choices) {
    const Node& node = graph_.nodes[n];
    double least = std::numeric_limits<double>::infinity();
    const auto add = [&](const Choice& choice) {
      double seconds = choice.cost.seconds;
      for (const Cost& each : choice.behind) seconds += each.seconds;
      least = std::min(least, seconds);
      choices.push_back(choice);
    };
    const auto whole = is_in_place(n, formats) ? Cost{} : cost_of(node, formats);
    if (whole) add({formats, 0, *whole, {}});
    if (goal_.asked()) return least;
    const Node* left = &node;
    Choice choice{.formats = formats, .cost = {}, .behind = {}};
    while (left->fused && can_work(graph_, left->fused->next, beside(*left, formats))) {
      choice.behind.push_back(*cost_of(left->fused->next, beside(*left, formats)));
      left = &left->fused->conv;
      ++choice.unfused;
      const auto cost = cost_of(*left, formats);
      if (!cost) continue;
      choice.cost = *cost;
      add(choice);
    }
    return least;
  }

  // Nothing: no engine runs it so.
  std::optional<Cost> cost_of(const Node& node, const NodeFormats& formats) {
    std::optional<Cost> cost;
    if (node.conv) {
      cost = chooser_.estimate(conv_query(graph_, node, formats, chooser_));
      if (!cost) return cost;
    } else {
      const auto problem = step_problem(graph_, node, formats);
      if (!problem) return Cost{};
      cost = chooser_.costs().of(*problem, formats.threads);
      if (chooser_.home() != 0 && !check_at_home(graph_, node, formats, chooser_).ok()) cost->seconds = kOnProcessor;
    }
    ++costs_;
    measured_ += cost->measured ? 1 : 0;
    return cost;
  }

  // A Concat or Split, if the others are of these formats, too, or what they make is converted to them.
  bool is_in_place(std::size_t n, const NodeFormats& formats) const {
    const auto found = in_place_.find(formats.reads);
    return found != in_place_.end() && formats.reads == formats.writes && found->second.has(n);
  }

  double to_convert(int value, const Format& from, const Format& to, Threads threads) {
    const Value& v = graph_.values[value];
    return chooser_.costs().seconds_of_conversion(described(v, from), described(v, to), threads);
  }
  // What a reader pays besides for a value that other threads wrote.
  double to_hand_over(int value, const Format& written, Threads by, Threads to) const {
    return by == to ? 0 : cache_transfer_seconds(described(graph_.values[value], written), chooser_.request().threads);
  }
  bool same(int value, const Format& a, const Format& b) const {
    return same_bytes(described(graph_.values[value], a), described(graph_.values[value], b));
  }

  // In which formats a node reads a value, each once.
  Formats read_in(int n, int value, const NodeFormats& formats) const {
    const Node& node = graph_.nodes[n];
    Formats result;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const Format format = format_read(node, formats, i);
      const bool known = std::ranges::any_of(result, [&](const Format& each) { return same(value, each, format); });
      if (!known) result.push_back(format);
    }
    return result;
  }

  double to_serve(int value, const Format& written, const Formats& wanted, Threads threads) {
    double seconds = 0;
    for (const Format& format : wanted) seconds += to_convert(value, written, format, threads);
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

  // Of one that lies in one way only.
  Result<void> add_cache_transfers(int value, int producer, std::vector<int> readers) {
    if (producer == kAbsent || !is_planned(producer)) return {};
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (const int reader : readers) {
      if (!is_planned(reader) || (!may_be_on_one(producer) && !may_be_on_one(reader))) continue;
      std::vector<double> seconds;
      for (const NodeFormats& written : nodes_[producer].formats) {
        for (const NodeFormats& formats : nodes_[reader].formats) {
          seconds.push_back(to_hand_over(value, {}, written.threads, formats.threads));
        }
      }
      CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(numbers_[producer], numbers_[reader], seconds));
    }
    return {};
  }

  Result<void> add_output(int value, int producer) {
    std::vector<double> seconds;
    for (const NodeFormats& formats : nodes_[producer].formats)
      seconds.push_back(to_convert(value, formats.writes, {}, formats.threads));
    return problem_.add_costs(numbers_[producer], seconds);
  }

  Result<void> add_input(int value, int reader) {
    std::vector<double> seconds;
    for (const NodeFormats& formats : nodes_[reader].formats) {
      seconds.push_back(to_serve(value, {}, read_in(reader, value, formats), formats.threads));
    }
    return problem_.add_costs(numbers_[reader], seconds);
  }

  Result<void> add_pair(int value, int producer, int reader) {
    std::vector<double> seconds;
    for (const NodeFormats& written : nodes_[producer].formats) {
      for (const NodeFormats& formats : nodes_[reader].formats) {
        seconds.push_back(to_serve(value, written.writes, read_in(reader, value, formats), written.threads) +
                          to_hand_over(value, written.writes, written.threads, formats.threads));
      }
    }
    CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(numbers_[producer], numbers_[reader], seconds));
    return {};
  }

  // Its alternatives: the format it is written in, and those that it is converted to, each once for all readers.
  Result<void> add_shared(int value, int producer, const std::vector<int>& readers, bool row_major) {
    const std::vector<Held> alternatives = held_in(value, producer, readers, row_major);
    std::vector<double> seconds;
    for (const Held& held : alternatives) seconds.push_back(to_serve(value, held.written, held.all, held.threads));
    CONVOY_TRY(const int number, problem_.add_node(seconds, "value " + graph_.values[value].name));
    if (producer != kAbsent) {
      std::vector<double> allowed;
      for (const NodeFormats& formats : nodes_[producer].formats) {
        for (const Held& held : alternatives) {
          const bool fits = formats.writes == held.written && formats.threads == held.threads;
          allowed.push_back(fits ? 0 : solver::kForbidden);
        }
      }
      CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(numbers_[producer], number, allowed));
    }
    for (std::size_t r = 0; r < readers.size(); ++r) {
      std::vector<double> allowed;
      for (const Held& held : alternatives) {
        const Formats& has = held.read.empty() ? held.all : Formats{held.read[r]};
        for (const NodeFormats& formats : nodes_[readers[r]].formats) {
          const bool fits = serves(value, has, read_in(readers[r], value, formats));
          const double late =
              producer == kAbsent ? 0 : to_hand_over(value, held.written, held.threads, formats.threads);
          allowed.push_back(fits ? late : solver::kForbidden);
        }
      }
      CONVOY_TRY([[maybe_unused]] const int edge, problem_.add_edge(number, numbers_[readers[r]], allowed));
    }
    shared_[value] = {number, readers, alternatives};
    return {};
  }

  std::vector<Held> held_in(int value, int producer, const std::vector<int>& readers, bool row_major) const {
    std::vector<Held> alternatives;
    for (const Format& written : formats_) {
      if (producer == kAbsent && written != Format()) continue;
      if (counts_lifetimes() && add_read_by_each(value, written, readers, row_major, alternatives)) continue;
      for (unsigned others = 0; others < 1U << formats_.size(); ++others) {
        if (static_cast<std::size_t>(std::popcount(others)) >= kMostHeld) continue;
        Held held{.written = written, .all = {written}, .read = {}};
        bool useful = true;
        for (std::size_t i = 0; i < formats_.size(); ++i) {
          if ((others >> i & 1) == 0) continue;
          useful = useful && !serves(value, held.all, {formats_[i]});
          held.all.push_back(formats_[i]);
        }
        if (!useful || (row_major && !serves(value, held.all, {Format()}))) continue;
        alternatives.push_back(std::move(held));
      }
    }
    if (producer == kAbsent || !may_be_on_one(producer)) return alternatives;
    const std::size_t count = alternatives.size();
    for (std::size_t i = 0; i < count; ++i) alternatives.push_back(alternatives[i]);
    for (std::size_t i = count; i < 2 * count; ++i) alternatives[i].threads = Threads::one;
    return alternatives;
  }

  bool may_be_on_one(int node) const {
    return std::ranges::any_of(nodes_[node].formats,
                               [](const NodeFormats& formats) { return formats.threads == Threads::one; });
  }

  // An alternative for each choice of a format by each reader. False: there would be too many, or one reads in several.
  bool add_read_by_each(int value, const Format& written, const std::vector<int>& readers, bool row_major,
                        std::vector<Held>& alternatives) const {
    constexpr std::size_t kMostReaders = 3;
    if (readers.size() > kMostReaders) return false;
    std::vector<Held> found = {{.written = written, .all = {written}, .read = {}}};
    const auto each_in = [&](const Formats& formats) {
      std::vector<Held> longer;
      for (const Held& held : found) {
        for (const Format& format : formats) {
          Held with = held;
          with.read.push_back(format);
          if (!serves(value, held.all, {format})) with.all.push_back(format);
          longer.push_back(std::move(with));
        }
      }
      found = std::move(longer);
    };
    for (const int reader : readers) {
      Formats held;
      for (const NodeFormats& formats : nodes_[reader].formats) {
        const Formats read = read_in(reader, value, formats);
        if (read.size() != 1) return false;
        if (!serves(value, held, read)) held.push_back(read.front());
      }
      each_in(held);
    }
    if (row_major) each_in({Format()});
    alternatives.insert(alternatives.end(), found.begin(), found.end());
    return true;
  }

  bool serves(int value, const Formats& held, const Formats& wanted) const {
    return std::ranges::all_of(wanted, [&](const Format& format) {
      return std::ranges::any_of(held, [&](const Format& each) { return same(value, each, format); });
    });
  }

  const Graph& graph_;
  std::span<const NodeTypes> types_;
  Chooser& chooser_;
  const MemoryGoal goal_;
  std::vector<Layout> layouts_;
  Formats formats_;  // of all nodes
  std::map<Format, InPlace> in_place_;
  std::vector<Alternatives> nodes_;
  solver::Problem problem_;
  std::vector<int> numbers_;  // of the graph's nodes in the problem; -1: none
  std::map<int, LayoutProblem::Shared> shared_;
  OffPredictions off_;  // of all nodes
  int costs_ = 0, measured_ = 0;
};

// What nodes add to the error where they are narrowed: its square.
solver::Resource errors_of(const LayoutProblem& layouts, std::span<const NodeTypes> types) {
  solver::Resource result{.name = "error", .uses = {}, .pair_uses = {}};
  for (std::size_t n = 0; n < types.size(); ++n) {
    if (layouts.numbers[n] < 0 || !(types[n].error > 0)) continue;
    const std::vector<NodeFormats>& formats = layouts.formats[n];
    for (std::size_t i = 0; i < formats.size(); ++i) {
      if (!types[n].is_reduced(formats[i])) continue;
      result.uses.push_back({layouts.numbers[n], static_cast<int>(i), types[n].error * types[n].error});
    }
  }
  return result;
}

Result<GlobalForms> within_error(const LayoutProblem& layouts, std::span<const NodeTypes> types, double limit) {
  const std::vector<solver::Resource> resources{errors_of(layouts, types)};
  CONVOY_TRY(const solver::BudgetSolution solution,
             solver::solve_with_budgets(layouts.problem, resources, {limit * limit}));
  if (solution.choice.empty()) return Error{ErrorCode::unsupported, "no choice of types keeps the error's limit"};
  GlobalForms result{.forms = layouts.chosen(solution.choice), .seconds = solution.cost};
  result.proof =
      fmt::format("global: {:.4g} us by {} costs, {} of them measured, errors expected to add up to {:.3g}; ",
                  solution.cost * 1e6, layouts.costs, layouts.measured, std::sqrt(solution.used[0]));
  result.proof += solution.optimal
                      ? "no other layouts, types and fusions within the limit take less"
                      : fmt::format("others take {:.4g} us or more, {:.2g}% less", solution.lower_bound * 1e6,
                                    100 * (1 - solution.lower_bound / solution.cost));
  return result;
}

}  // namespace

Forms local_forms(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser) {
  const Choices choices(graph, types, chooser);
  Forms forms{std::vector<NodeFormats>(graph.nodes.size()), std::vector<int>(graph.nodes.size()), {}};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Alternatives& node = choices.nodes()[n];
    if (node.formats.empty()) continue;
    const auto best = static_cast<std::size_t>(std::ranges::min_element(node.seconds) - node.seconds.begin());
    forms.formats[n] = node.formats[best];
    forms.unfused[n] = node.unfused[best];
  }
  return forms;
}

Forms LayoutProblem::chosen(const std::vector<int>& choice) const {
  Forms forms{std::vector<NodeFormats>(formats.size()), std::vector<int>(formats.size()), {}};
  const bool names_candidates = std::ranges::any_of(options, [](const auto& of_node) { return !of_node.empty(); });
  if (names_candidates) forms.candidates.resize(formats.size());
  for (std::size_t n = 0; n < formats.size(); ++n) {
    if (numbers[n] < 0) continue;
    const auto alternative = static_cast<std::size_t>(choice[static_cast<std::size_t>(numbers[n])]);
    forms.formats[n] = formats[n][alternative];
    forms.unfused[n] = unfused[n][alternative];
    if (!options[n].empty()) forms.candidates[n] = options[n][alternative].candidate;
  }
  return forms;
}

Result<LayoutProblem> layout_problem(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser,
                                     const MemoryGoal& goal) {
  return Choices(graph, types, chooser, goal).problem();
}

Result<GlobalForms> global_forms(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser,
                                 const MemoryGoal& goal) {
  CONVOY_TRY(const LayoutProblem layouts, layout_problem(graph, types, chooser, goal));
  const bool by_error = !chooser.options().precision_errors.empty();
  if (goal.asked() && by_error) {
    return Error{ErrorCode::unsupported,
                 "a limit on memory and one on the error of narrow types can't be had together"};
  }
  const Objective& objective = chooser.options().selection.objective;
  if (objective.energy > 0 && (goal.asked() || by_error)) {
    return Error{ErrorCode::unsupported, fmt::format("objective '{}': energy can't be weighed together with a goal for "
                                                     "memory or a limit on the error of narrow types",
                                                     print(objective))};
  }
  // Before anything has been measured no energy is known: what takes the least time is measured first.
  const bool begins = chooser.options().selection.mode == SelectionMode::measured && !knows_energy(layouts);
  if (objective.energy > 0 && !begins) return forms_by_energy(layouts, objective);
  if (goal.asked()) return forms_within_memory(graph, layouts, goal);
  if (by_error) return within_error(layouts, types, chooser.options().error_limit);
  CONVOY_TRY(const solver::Solution solution, solver::solve(layouts.problem));
  GlobalForms result{.forms = layouts.chosen(solution.choice), .seconds = solution.cost};
  result.proof = fmt::format("global: {:.4g} us by {} costs, {} of them measured; ", solution.cost * 1e6, layouts.costs,
                             layouts.measured);
  result.proof += solution.optimal
                      ? "no other layouts and fusions take less"
                      : fmt::format("others take {:.4g} us or more, {:.2g}% less", solution.lower_bound * 1e6,
                                    100 * (1 - solution.lower_bound / solution.cost));
  result.proof += fmt::format(" ({} nodes and shared values, {} left by reductions, width {})", layouts.problem.size(),
                              solution.left, solution.width);
  return result;
}

}  // namespace convoy::network
