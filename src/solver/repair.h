// Local search for assignments that keep limits.
#pragma once

#include <vector>

#include "solver/problem.h"
#include "solver/resources.h"

namespace convoy::solver {

class Repair {
 public:
  // They must outlive it. Precondition: check(problem, resources, limits).
  Repair(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits);

  // First until the limits are kept: the node that for its change in cost lessens most what is used beyond them chooses
  // anew. Then, as long as they are kept and the cost falls, nodes and pairs of neighbours do. Ties: the lowest node
  // and alternative. False: the limits are not kept, or something is taken that is forbidden.
  bool improve(std::vector<int>& choice);

 private:
  struct Amount {
    int resource = 0;
    double amount = 0;
  };
  struct PairAmount {
    int neighbour = 0, own = 0, other = 0;
    Amount amount;
  };
  void add_use(int resource, double amount);
  void add_uses(int node, double sign);  // of what it has chosen
  void move(int node, int alternative);
  double cost_of(int node) const;  // with its edges
  bool repair_step();
  bool descend_step();

  const Problem& problem_;
  const std::vector<Resource>& resources_;
  const std::vector<double>& limits_;
  std::vector<double> scales_;                             // by resource
  std::vector<std::vector<std::vector<Amount>>> amounts_;  // by node and alternative
  std::vector<std::vector<PairAmount>> pair_amounts_;      // by node, both ends'
  std::vector<std::vector<int>> edges_;                    // by node
  std::vector<int> choice_;
  std::vector<double> used_;
  int exceeded_ = 0;   // limits
  double excess_ = 0;  // over them, each relative to what its resource is about
};

}  // namespace convoy::solver
