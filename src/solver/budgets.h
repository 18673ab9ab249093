// Assignments under budgets. Limits become prices of what is used, so that each problem to solve is one without limits
// (Lagrangian relaxation: Everett, Operations Research 11, 1963; Fisher, Management Science 27, 1981). Whatever the
// prices, this bounds the cost of every assignment that keeps the limits; between the best bound and the best of these
// assignments a gap may be left, which an integer program closes (lp.h).
#pragma once

#include <vector>

#include "convoy/result.h"
#include "solver/problem.h"
#include "solver/resources.h"
#include "solver/solver.h"

namespace convoy::solver {

struct BudgetOptions {
  Options solve;         // for each priced problem
  int iterations = 100;  // prices that are tried, at most
  // Stop where the gap is at most this share of the cost.
  double gap = 1e-9;
};

struct BudgetSolution {
  std::vector<int> choice;     // empty: none was found that keeps the limits, though there may be one
  double cost = kForbidden;    // of it
  double lower_bound = 0;      // of all that keep the limits
  bool optimal = false;        // as Solution::optimal, or within BudgetOptions::gap
  std::vector<double> used;    // by resource
  std::vector<double> prices;  // by resource, those of the bound: cost that a unit more would save, about
  int problems = 0;            // that were solved
  double seconds = 0;
};

// One budget: the line between a solution within it and one beyond it gives the next price, until no solution lies
// below the line: the best price, after few steps (Handler and Zang, Networks 10, 1980). Several: subgradients (Held,
// Wolfe and Crowder, Mathematical Programming 6, 1974). What solutions use beyond the limits is repaired by local
// search. Errors: of check(resources); unsupported: no assignment is allowed, or a budget can't be kept by any; it says
// by how much.
Result<BudgetSolution> solve_with_budgets(const Problem& problem, const std::vector<Resource>& resources,
                                          const std::vector<double>& limits, const BudgetOptions& options = {});

}  // namespace convoy::solver
