#include "solver/branch_and_bound.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "solver/bound.h"
#include "solver/elimination.h"

namespace convoy::solver {
namespace {

// Within the tree, where there may be many: about as long as some branch nodes take.
constexpr double kInnerTables = 1 << 18;

// Below the root a branch wins more than a better bound.
constexpr int kInnerPasses = 10;
constexpr double kInnerGain = 2e-2;

}  // namespace

bool Search::limit_reached() {
  stopped_ = stopped_ || branch_nodes_ >= options_.branch_nodes || work_ >= options_.work ||
             monotonic_seconds() - start_ >= options_.seconds;
  return stopped_;
}

Search::Found Search::explore(Graph graph, double upper, int depth) {
  Trail trail;
  Found found = explore_reduced(graph, trail, upper, depth);
  if (!found.choice.empty()) back_propagate(trail, found.choice);
  return found;
}

Search::Found Search::explore_reduced(Graph& graph, Trail& trail, double upper, int depth) {
  ReductionCounts counts;
  Reducer reducer(graph, trail, counts, options_.rules, false);
  for (;;) {
    if (auto found = only_assignment(graph)) return *std::move(found);
    if (auto found = solve_by_tables(graph, kSmallTables)) return *std::move(found);
    work_ += raise_bound(graph, depth == 0 ? kRootPasses : kInnerPasses, upper - tolerance_,
                         depth == 0 ? kRootGain : kInnerGain);
    if (graph.constant >= upper - tolerance_ || limit_reached()) {
      return {.lower = graph.constant};
    }
    if (!remove_by_bounds(graph, reducer, upper)) break;
    if (!reducer.run()) return {.lower = upper};
  }
  if (auto found = solve_by_tables(graph, depth == 0 ? options_.table_entries : kInnerTables)) return *std::move(found);
  const auto parts = components(graph);
  return parts.size() > 1 ? solve_components(graph, parts, upper, depth) : branch(graph, upper, depth);
}

std::optional<Search::Found> Search::only_assignment(const Graph& graph) const {
  Found found{.choice = std::vector<int>(graph.nodes.size(), -1)};
  for (const int node : graph.present()) {
    if (graph.live(node) > 1) return {};
    found.choice[node] = graph.nodes[node].live[0];
  }
  found.lower = found.cost = graph.cost(found.choice);
  return found;
}

std::optional<Search::Found> Search::solve_by_tables(const Graph& graph, double limit) {
  if (options_.method == Method::branch_and_bound) return {};
  const EliminationOrder order = order_elimination(graph, true);
  if (order.entries > std::min(limit, options_.table_entries) || order.width > options_.width) return {};
  table_entries_ += static_cast<std::int64_t>(order.entries);
  work_ += table_work(order);
  EliminationResult result = eliminate(graph, order);
  return Found{.lower = result.cost, .cost = result.cost, .choice = std::move(result.choice)};
}

// Alternatives that no assignment better than `upper` takes. Whether there were any.
bool Search::remove_by_bounds(const Graph& graph, Reducer& reducer, double upper) {
  std::vector<std::pair<int, int>> hopeless;
  for (const int node : graph.present()) {
    const std::vector<double> bounds = alternative_bounds(graph, node);
    for (std::size_t at = 0; at < bounds.size(); ++at) {
      if (bounds[at] >= upper - tolerance_) hopeless.emplace_back(node, graph.nodes[node].live[at]);
    }
  }
  for (const auto& [node, alternative] : hopeless) reducer.remove(node, alternative);
  return !hopeless.empty();
}

Search::Found Search::solve_components(const Graph& graph, const std::vector<std::vector<int>>& parts, double upper,
                                       int depth) {
  // All costs are at least 0 here, so those of parts that are not yet solved are, too.
  Found whole{.lower = graph.constant, .cost = graph.constant, .choice = std::vector<int>(graph.nodes.size(), -1)};
  for (const std::vector<int>& nodes : parts) {
    const Subgraph part = extract(graph, nodes);
    const Found found = explore(part.graph, upper - whole.cost, depth + 1);
    whole.lower += found.lower;
    if (found.choice.empty()) return {.lower = whole.lower};
    whole.cost += found.cost;
    part.lift(found.choice, whole.choice);
  }
  return whole;
}

int Search::branching_node(const Graph& graph) const {
  // Many neighbours, so that the rest becomes narrow; then large differences, so that bounds rise.
  std::tuple<double, double> best{-1, 0};
  int chosen = -1;
  for (const int node : graph.present()) {
    if (graph.live(node) == 1) continue;
    const std::vector<double> bounds = alternative_bounds(graph, node);
    const double spread = std::accumulate(bounds.begin(), bounds.end(), 0.0) - graph.constant * bounds.size();
    const std::tuple<double, double> score{graph.degree(node), spread};
    if (score > best) {
      best = score;
      chosen = node;
    }
  }
  return chosen;
}

Search::Found Search::branch(const Graph& graph, double upper, int depth) {
  const int node = branching_node(graph);
  const std::vector<double> bounds = alternative_bounds(graph, node);
  std::vector<int> order(bounds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return bounds[a] < bounds[b]; });

  Found best{.lower = kForbidden};
  const std::vector<int> nodes = graph.present();
  for (const int at : order) {
    if (bounds[at] >= upper - tolerance_ || limit_reached()) {
      best.lower = std::min(best.lower, bounds[at]);
      continue;
    }
    ++branch_nodes_;
    Subgraph child = extract(graph, nodes);
    child.graph.constant = graph.constant;
    Trail trail;
    ReductionCounts counts;
    Reducer reducer(child.graph, trail, counts, options_.rules, false);
    reducer.choose(static_cast<int>(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin()), at);
    if (!reducer.run()) continue;
    Found found = explore(child.graph, upper, depth + 1);
    best.lower = std::min(best.lower, found.lower);
    if (found.choice.empty() || found.cost >= upper) continue;
    back_propagate(trail, found.choice);
    upper = best.cost = found.cost;
    best.choice.assign(graph.nodes.size(), -1);
    child.lift(found.choice, best.choice);
  }
  return best;
}

}  // namespace convoy::solver
