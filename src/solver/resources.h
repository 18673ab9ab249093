// What assignments use besides their cost: bytes, error, and whatever else adds up over nodes and is limited. A peak
// over the steps of a schedule is a resource a step.
#pragma once

#include <string>
#include <vector>

#include "convoy/result.h"
#include "solver/problem.h"

namespace convoy::solver {

struct Resource {
  // What is not listed uses nothing. The same may be listed several times: amounts add up.
  struct Use {
    int node = 0, alternative = 0;
    double amount = 0;
  };
  struct PairUse {  // of two alternatives of different nodes together; there need not be an edge
    int a = 0, b = 0;
    int alternative_a = 0, alternative_b = 0;
    double amount = 0;
  };
  std::string name;  // for messages
  std::vector<Use> uses;
  std::vector<PairUse> pair_uses;
};

// Errors: a node or alternative that is not there, an amount that is not finite, another number of limits than of
// resources, a limit that is NaN or negative infinity.
Result<void> check(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits);

// What an assignment uses of a resource.
double used(const Resource& resource, const std::vector<int>& choice);
bool keeps(const std::vector<Resource>& resources, const std::vector<double>& limits, const std::vector<int>& choice);

// The problem with what resources use added to its costs at these prices. `cost_share`: of its own costs; 0: only what
// is forbidden is left of them.
Problem priced(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& prices,
               double cost_share = 1);

}  // namespace convoy::solver
