// A partitioned boolean quadratic problem (PBQP): each node takes one of its alternatives, which costs what the node's
// vector says; each edge adds what its matrix says for the alternatives of its two ends. Wanted is the assignment of
// least total cost. Scholz and Eckstein, "Register Allocation for Irregular Architectures", LCTES 2002; used for the
// choice of convolutions and layouts by Anderson and Gregg, "Optimal DNN Primitive Selection with Partitioned Boolean
// Quadratic Programming", CGO 2018.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convoy/result.h"

namespace convoy::solver {

// The cost of an alternative, or of a pair, that must not be chosen.
inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

class Problem {
 public:
  struct Node {
    std::string name;           // for messages; may be empty
    std::vector<double> costs;  // by alternative
  };
  struct Edge {
    int a = 0, b = 0;           // a < b
    std::vector<double> costs;  // of a's alternative i with b's j at i * (alternatives of b) + j
  };

  // Costs are finite or kForbidden. Returns the node's number: 0, 1, ... in the order they are added.
  // Errors: no alternative; a NaN or negative infinity.
  Result<int> add_node(std::vector<double> costs, std::string name = "");

  // Costs of a's alternatives (rows) with b's (columns), row-major. A second edge between two nodes adds to the first.
  // Returns the edge's number. Errors: a node that is not there, a == b, another number of costs than rows times
  // columns, a NaN or negative infinity.
  Result<int> add_edge(int a, int b, const std::vector<double>& costs);

  // Adds to what a node's alternatives cost. Errors as above.
  Result<void> add_costs(int node, const std::vector<double>& costs);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  int alternatives(int node) const { return static_cast<int>(nodes_[node].costs.size()); }

  // "node 3 ('conv1')".
  std::string describe(int node) const;

  // Whether it has one alternative, which exists, for each node.
  Result<void> check(const std::vector<int>& choice) const;

  // Precondition: check(choice). kForbidden where it takes something forbidden.
  double cost(const std::vector<int>& choice) const;

  // The sum of absolute values of what cost() sums up: rounding errors are relative to it.
  double magnitude(const std::vector<int>& choice) const;

 private:
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::map<std::pair<int, int>, int> edge_between_;
};

}  // namespace convoy::solver
