// Two outputs of one problem beside each other, element by element: finds in a large one what a sampled verification
// does not look at.
#pragma once

#include <cstdint>
#include <span>

#include "convoy/host_tensor.h"
#include "convoy/thread_team.h"

namespace convoy::selection {

struct OutputDifference {
  double max_error = 0;    // in units of what is allowed: at most 1 is right
  std::int64_t worst = 0;  // index into the storage
  double actual = 0;
  double expected = 0;
};

// Every stored element (channel padding included). Two right outputs lie within a tolerance of the exact one each, so
// twice the channel's of `tolerances` (Expectation::tolerances, which takes the largest of the elements it looked at)
// and twice the element's own rounding are allowed between them: coarser than the oracle's bound, which is each
// element's own, and enough to see a tile that was not written or came from elsewhere. A NaN is infinitely wrong.
OutputDifference compare_whole(const HostTensor& expected, const HostTensor& actual, std::span<const double> tolerances,
                               ThreadTeam& team);

}  // namespace convoy::selection
