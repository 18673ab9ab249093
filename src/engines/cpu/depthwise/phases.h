// The sums of a depthwise problem, a list of phases for each of the three spatial dims (see depthwise_kernels.h).
#pragma once

#include <array>
#include <vector>

#include "convoy/convolution.h"
#include "engines/cpu/common/geometry.h"
#include "engines/cpu/depthwise/depthwise_kernels.h"

namespace convoy::cpu {

// Phase f of a dim has out_offset f and out_step the number of phases. Preconditions: a valid fprop or dgrad problem.
std::array<std::vector<DepthwisePhase>, 3> depthwise_phases(const ConvGeometry& geometry, Pass pass);

// The taps of `phase` that are inside the source for output j: `count` from `first` on.
struct TapRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
TapRange taps_inside(const DepthwisePhase& phase, std::int64_t j);

// Least and greatest source position that the phases read minus src_step*j, over all taps; 0 and 0 without any.
struct Reach {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
Reach reach_of(const std::vector<DepthwisePhase>& phases);

}  // namespace convoy::cpu
