// Depth-first branch and bound: Land and Doig, Econometrica 28, 1960. At each node of the search tree the bound is
// raised by moving costs (bound.h); alternatives whose own bound reaches the incumbent are removed; reductions are
// applied again; what falls into components is solved apart; tables finish what has become narrow. Marinescu and
// Dechter, "AND/OR Branch-and-Bound search for combinatorial optimization in graphical models", Artificial Intelligence
// 173, 2009; Larrosa and Schiex, "Solving weighted CSP by maintaining arc consistency", Artificial Intelligence 159,
// 2004.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "solver/graph.h"
#include "solver/solver.h"

namespace convoy::solver {

// Tables of this many entries are cheaper than any bound that could make them unnecessary.
inline constexpr double kSmallTables = 1 << 14;

class Search {
 public:
  // What a part of the search tree holds: assignments that cost less than `upper` - tolerance cost at least `lower`.
  struct Found {
    double lower = 0;
    double cost = kForbidden;
    std::vector<int> choice;  // empty: none that costs less than `upper`
  };

  // An improvement by less than the tolerance is none. `start`: of monotonic_seconds().
  Search(const Options& options, double tolerance, double start)
      : options_(options), tolerance_(tolerance), start_(start) {}

  // `graph`: reduced as far as can be.
  Found solve(Graph graph, double upper) { return explore(std::move(graph), upper, 0); }

  bool stopped() const { return stopped_; }  // by a limit: assignments may have been missed
  std::int64_t branch_nodes() const { return branch_nodes_; }
  std::int64_t table_entries() const { return table_entries_; }
  std::int64_t work() const { return work_; }

 private:
  Found explore(Graph graph, double upper, int depth);
  Found explore_reduced(Graph& graph, Trail& trail, double upper, int depth);
  std::optional<Found> only_assignment(const Graph& graph) const;
  std::optional<Found> solve_by_tables(const Graph& graph, double limit);
  bool remove_by_bounds(const Graph& graph, Reducer& reducer, double upper);
  Found solve_components(const Graph& graph, const std::vector<std::vector<int>>& parts, double upper, int depth);
  Found branch(const Graph& graph, double upper, int depth);
  int branching_node(const Graph& graph) const;
  bool limit_reached();

  const Options& options_;
  double tolerance_, start_;
  bool stopped_ = false;
  std::int64_t branch_nodes_ = 0, table_entries_ = 0, work_ = 0;
};

}  // namespace convoy::solver
