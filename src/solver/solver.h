// The assignment of least cost, proved: reductions (reductions.h), then for each connected component what is left
// either by tables (elimination.h) or by branch and bound with both inside (branch_and_bound.h). The same problem and
// options give the same answer, unless the limit in seconds is hit.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "convoy/result.h"
#include "solver/problem.h"
#include "solver/reductions.h"

namespace convoy::solver {

enum class Method {
  automatic,
  elimination,       // tables only; an error where they exceed the limits below
  branch_and_bound,  // no tables
};

struct Options {
  Method method = Method::automatic;
  Rules rules;

  // Tables are made where they have at most this many entries together (about 10 bytes each) ...
  double table_entries = 1 << 25;
  // ... and no node has more neighbours than this when it is eliminated.
  int width = std::numeric_limits<int>::max();

  // Where one of these is reached, the best known assignment is returned with a bound. Work is costs looked at by
  // bounds and tables: 10^9 are a second or two.
  std::int64_t branch_nodes = std::numeric_limits<std::int64_t>::max();
  std::int64_t work = 3'000'000'000;
  double seconds = std::numeric_limits<double>::infinity();  // bounds and tables once begun are finished

  // An assignment to start from; empty: none. It must be one of the problem, and may cost kForbidden.
  std::vector<int> incumbent;
};

struct Solution {
  std::vector<int> choice;  // an alternative a node
  double cost = 0;
  double lower_bound = 0;  // of every assignment's cost; cost where `optimal`
  bool optimal = false;    // no assignment costs less, but for rounding: by 1e-10 of the sum of absolute costs
  int width = 0;           // induced width of the order found for the whole: 0 to 2 where reductions suffice
  ReductionCounts reductions;
  int left = 0;                    // nodes that reductions left
  int components = 0;              // that they are in
  std::int64_t table_entries = 0;  // of all tables made
  std::int64_t branch_nodes = 0;
  std::int64_t work = 0;
  double seconds = 0;
};

// Errors: invalid_argument: an incumbent of another problem. unsupported: no assignment is allowed (a node is named
// where one is to blame), none was found within the limits, or tables exceed theirs.
Result<Solution> solve(const Problem& problem, const Options& options = {});

}  // namespace convoy::solver
