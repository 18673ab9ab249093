// A problem with budgets as an integer linear program, in CPLEX's LP format, and what the solver CBC answers. A
// variable says whether an alternative is taken (binary), and one for each pair of an edge that is allowed whether both
// are (between 0 and 1: it follows): the local polytope; Koster, van Hoesel and Kolen, "The partial constraint
// satisfaction problem: facets and lifting theorems", Operations Research Letters 23, 1998.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "convoy/result.h"
#include "solver/problem.h"
#include "solver/resources.h"

namespace convoy::solver {

// Names: x_NODE_ALTERNATIVE; y_A_B_I_J for node A's alternative I with B's J, A < B, also of nodes without an edge that
// a resource pairs; node_N, edge_A_B_I and edge_B_A_J for what ties them together; limit_R. Costs, and each resource,
// are multiplied by the power of two that makes their largest lie between 512 and 1024, since CBC's tolerances are
// absolute; comments in the file say by which. The same problem gives the same text. Limits that are infinite are left
// out. Precondition: check(problem, resources, limits).
void write_lp(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits,
              std::ostream& stream);

struct IlpSolution {
  bool optimal = false;      // proved by CBC; otherwise it stopped
  std::string status;        // CBC's words: "Optimal", "Stopped on time"
  std::vector<int> choice;   // empty: it has found none
  double cost = kForbidden;  // of it, by Problem::cost()
};

// What CBC's command `solution FILE` writes. Errors: corrupt: not such a file, or an assignment that is none;
// unsupported: CBC has proved that there is no assignment within the limits; wrong_result: one beyond them by more than
// rounding.
Result<IlpSolution> read_cbc_solution(const Problem& problem, const std::vector<Resource>& resources,
                                      const std::vector<double>& limits, std::istream& stream);

struct CbcOptions {
  double seconds = 60;
  std::string program;  // its path; empty: `cbc` in PATH
  std::string folder;   // for its files, which stay there; empty: a temporary one, which is removed
};

// Errors: not_found: there is no CBC; it says where it was looked for. internal: it could not be run. Those above.
Result<IlpSolution> solve_by_cbc(const Problem& problem, const std::vector<Resource>& resources,
                                 const std::vector<double>& limits, const CbcOptions& options = {});

}  // namespace convoy::solver
