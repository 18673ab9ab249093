// Whole outputs of two candidates side by side, for problems too big for a full comparison with the oracle.
#pragma once

#include <cstdint>

#include "convoy/convolution.h"
#include "convoy/host_tensor.h"
#include "convoy/thread_team.h"
#include "core/tolerance.h"

namespace convoy::selection {

struct Comparison {
  double max_error = 0;    // in units of what is allowed: at most 1 is right
  std::int64_t worst = 0;  // index into the storage
  double actual = 0;
  double expected = 0;
};

// What two right outputs may differ by, where `largest` is the largest finite magnitude in one of them.
double whole_tolerance(const ConvProblem& problem, double largest, Arithmetic arithmetic);

// Every stored element (channel padding included). What is allowed is the tolerance of core/tolerance.h for both sides
// with the tensor's largest magnitude in place of each element's own sum of |products|: coarser than the oracle's
// element-wise bound, and enough to see a tile that was not written or came from elsewhere. A NaN is infinitely wrong.
Comparison compare_whole(const ConvProblem& problem, const HostTensor& expected, const HostTensor& actual,
                         Arithmetic arithmetic, ThreadTeam& team);

}  // namespace convoy::selection
