#include "solver/solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/errors.h"
#include "solver/bound.h"
#include "solver/branch_and_bound.h"
#include "solver/elimination.h"
#include "solver/incumbent.h"

namespace convoy::solver {
namespace {

// Of the sum of absolute costs: costs that are moved through a large graph may be off by some 1e-13 of it.
constexpr double kTolerance = 1e-10;

// The sum of absolute costs of an assignment; where there is none, of the largest alternatives.
double magnitude(const Graph& graph, const std::vector<int>& choice) {
  double sum = 0;
  for (const int node : graph.present()) {
    const std::vector<double>& costs = graph.nodes[node].costs;
    double largest = 0;
    for (const int i : graph.nodes[node].live) largest = std::max(largest, std::abs(costs[i]));
    sum += choice.empty() ? largest : std::abs(costs[choice[node]]);
  }
  for (const Graph::Edge& edge : graph.edges) {
    if (choice.empty()) break;
    sum += std::abs(edge.costs[choice[edge.a] * graph.nodes[edge.b].costs.size() + choice[edge.b]]);
  }
  return sum;
}

// A good assignment: the heuristic's, from the costs as they are and from those by which the bound was raised, and the
// one that the caller gave, each improved. Raises the bound. Empty: none was found that is allowed.
std::vector<int> incumbent_of(Subgraph& part, const std::vector<int>& given, std::int64_t& work) {
  std::vector<std::vector<int>> starts{reduce_heuristically(part.graph)};
  if (!given.empty()) {
    std::vector<int>& start = starts.emplace_back();
    for (std::size_t node = 0; node < part.nodes.size(); ++node) {
      const std::vector<int>& alternatives = part.alternatives[node];
      const auto at = std::find(alternatives.begin(), alternatives.end(), given[part.nodes[node]]);
      start.push_back(at == alternatives.end() ? 0 : static_cast<int>(at - alternatives.begin()));
    }
  }
  work += raise_bound(part.graph, kRootPasses, kForbidden, kRootGain);
  starts.push_back(reduce_heuristically(part.graph));
  std::vector<int> best;
  double least = kForbidden;
  for (std::vector<int>& choice : starts) {
    if (choice.empty()) continue;
    descend(part.graph, choice);
    const double cost = part.graph.cost(choice);
    if (cost < least) {
      least = cost;
      best = choice;
    }
  }
  return best;
}

class Solver {
 public:
  Solver(const Problem& problem, const Options& options)
      : problem_(problem), options_(options), graph_(problem), start_(monotonic_seconds()) {}

  Result<Solution> run() {
    Reducer reducer(graph_, trail_, solution_.reductions, options_.rules, true);
    if (!reducer.run()) {
      return unsupported(fmt::format("no assignment is allowed: {} has no alternative that its neighbours allow",
                                     problem_.describe(reducer.infeasible())));
    }
    solution_.choice.assign(problem_.size(), -1);
    const auto parts = components(graph_);
    solution_.components = static_cast<int>(parts.size());
    solution_.width = solution_.reductions.r2 > 0 ? 2 : solution_.reductions.r1 > 0 ? 1 : 0;
    double lower = graph_.constant;
    for (const std::vector<int>& nodes : parts) {
      solution_.left += static_cast<int>(nodes.size());
      CONVOY_TRY(const double part_lower, solve_part(nodes));
      lower += part_lower;
    }
    back_propagate(trail_, solution_.choice);
    finish(lower);
    return std::move(solution_);
  }

 private:
  // Returns a lower bound of the part's cost.
  Result<double> solve_part(const std::vector<int>& nodes) {
    Subgraph part = extract(graph_, nodes);
    const EliminationOrder order = order_elimination(part.graph);
    solution_.width = std::max(solution_.width, order.width);
    const bool by_tables = options_.method == Method::elimination;
    const bool fits = order.entries <= options_.table_entries && order.width <= options_.width;
    if (by_tables && !fits) {
      return unsupported(
          fmt::format("{} nodes around {} have an induced width of {}: {:.3g} table entries, limit {:.3g}",
                      nodes.size(), problem_.describe(nodes[0]), order.width, order.entries, options_.table_entries));
    }
    if (by_tables || (options_.method == Method::automatic && fits && order.entries <= kSmallTables)) {
      return solve_by_tables(part, order);
    }
    return search(part);
  }

  Result<double> solve_by_tables(const Subgraph& part, const EliminationOrder& order) {
    solution_.table_entries += static_cast<std::int64_t>(order.entries);
    solution_.work += table_work(order);
    const EliminationResult result = eliminate(part.graph, order);
    if (result.cost == kForbidden) return none_allowed(part.nodes);
    part.lift(result.choice, solution_.choice);
    return result.cost;
  }

  Result<double> search(Subgraph& part) {
    std::vector<int> choice = incumbent_of(part, options_.incumbent, solution_.work);
    const double upper = choice.empty() ? kForbidden : part.graph.cost(choice);
    Options left = options_;
    left.branch_nodes -= solution_.branch_nodes;
    left.work -= solution_.work;
    Search search(left, kTolerance * magnitude(part.graph, choice), start_);
    Search::Found found = search.solve(part.graph, upper);
    solution_.branch_nodes += search.branch_nodes();
    solution_.table_entries += search.table_entries();
    solution_.work += search.work();
    stopped_ |= search.stopped();
    if (!found.choice.empty() && found.cost < upper) choice = std::move(found.choice);
    if (choice.empty() && search.stopped()) {
      return unsupported(
          fmt::format("no assignment was found that is allowed, of {} nodes around {}, in {} branch nodes",
                      part.nodes.size(), problem_.describe(part.nodes[0]), search.branch_nodes()));
    }
    if (choice.empty()) return none_allowed(part.nodes);
    part.lift(choice, solution_.choice);
    return std::min(found.lower, part.graph.cost(choice));
  }

  Error none_allowed(const std::vector<int>& nodes) const {
    return unsupported(fmt::format("no assignment is allowed: {} nodes around {} exclude each other", nodes.size(),
                                   problem_.describe(nodes[0])));
  }

  void finish(double lower) {
    solution_.cost = problem_.cost(solution_.choice);
    if (!options_.incumbent.empty() && problem_.cost(options_.incumbent) < solution_.cost) {
      solution_.choice = options_.incumbent;
      solution_.cost = problem_.cost(solution_.choice);
    }
    // A search that was stopped may have proved the optimum before.
    const double gap = solution_.cost - lower;
    solution_.optimal = !stopped_ || gap <= kTolerance * problem_.magnitude(solution_.choice);
    solution_.lower_bound = solution_.optimal ? solution_.cost : lower;
    solution_.seconds = monotonic_seconds() - start_;
  }

  const Problem& problem_;
  const Options& options_;
  Graph graph_;
  Trail trail_;
  Solution solution_;
  double start_;
  bool stopped_ = false;
};

}  // namespace

Result<Solution> solve(const Problem& problem, const Options& options) {
  if (!options.incumbent.empty()) {
    if (auto valid = problem.check(options.incumbent); !valid) return valid.error().within("incumbent");
  }
  return Solver(problem, options).run();
}

}  // namespace convoy::solver
