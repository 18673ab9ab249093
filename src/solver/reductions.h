// Exact reductions of a PBQP: what they leave has the same optimum, and the choices of nodes that are gone follow from
// those that are left.
//   R0, RI, RII   a node with 0, 1 or 2 neighbours becomes part of the constant, of its neighbour's costs, of the edge
//                 between its two. Scholz and Eckstein, LCTES 2002; Eckstein, "Code Optimizations for Digital Signal
//                 Processors", TU Wien 2003. A graph of treewidth 2 or less is solved by them.
//   edges         minima of rows and columns belong to the nodes; an edge of which nothing else is left is dissolved
//                 (there also: simplification of edges).
//   dominance     an alternative that is never better than another, whatever the neighbours take, is removed.
//   Goldstein,
//                 "Efficient rotamer elimination applied to protein side-chains", Biophysical Journal 66, 1994.
//   forbidden     alternatives without a pair that is allowed, by an edge, are removed (arc consistency).
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "solver/graph.h"

namespace convoy::solver {

// Which reductions are done. Without them the rest of the solver is exact, too: tests take it apart.
struct Rules {
  bool r1 = true, r2 = true;
  bool separable = true;
  bool dominance = true;
};

// How often each was done.
struct ReductionCounts {
  std::int64_t r0 = 0, r1 = 0, r2 = 0;
  std::int64_t separable = 0;  // edges
  std::int64_t dominated = 0;  // alternatives
  std::int64_t forbidden = 0;  // alternatives
};

// A node that is gone: its best alternative follows from those of its neighbours.
struct Eliminated {
  struct Reader {
    int neighbour = 0;
    std::vector<double> costs;  // of own alternative i with the neighbour's j at i * own + j * other
    std::ptrdiff_t own = 0, other = 0;
  };
  int node = 0;
  std::vector<int> live;
  std::vector<double> costs;
  std::vector<Reader> readers;
};
using Trail = std::vector<Eliminated>;

// Chooses for the nodes of a trail, last first, where all that were left have chosen. Ties: the lowest alternative.
void back_propagate(const Trail& trail, std::vector<int>& choice);

class Reducer {
 public:
  // They must outlive it. `fresh`: nothing has been reduced since the graph was made; otherwise only what follows from
  // changes that are made through this object is looked for.
  Reducer(Graph& graph, Trail& trail, ReductionCounts& counts, const Rules& rules, bool fresh);

  // Reduces until nothing more can be. False: there is no assignment; then infeasible() is a node without alternatives.
  bool run();
  int infeasible() const { return infeasible_; }

  void remove(int node, int alternative);
  void choose(int node, int alternative);  // removes all others

 private:
  void eliminate(int node);  // R0, RI, RII
  void add_to_neighbour(int node);
  void add_between_neighbours(int node);
  void normalise(int edge);
  void remove_dominated(int node);
  bool dominates(int node, int better, int worse) const;
  void touch(int edge);  // look at it and its ends again
  void file(int node);   // by its degree

  Graph& graph_;
  Trail& trail_;
  ReductionCounts& counts_;
  Rules rules_;
  std::set<int> touched_edges_, touched_nodes_;
  std::array<std::set<int>, 3> by_degree_;
  int infeasible_ = -1;
};

}  // namespace convoy::solver
