// A graph made ready for choosing what it runs on: checked settings, passes, and before both whether it is that of the
// whole batch or of a part.
#pragma once

#include <cstdint>

#include "convoy/network_plan.h"
#include "network/prepare/session.h"

namespace convoy::network {

struct Improved {
  Graph graph;                  // its passes have run
  PrepareSettings settings;     // with the caches that costs are measured and looked up with (cost/caches.h)
  NetworkPlanHeader header;     // of plans for it: the network's, whatever the parts
  std::int64_t part_count = 1;  // that make up the batch
};

// The whole batch or a part of it: as the options say, a plan that is obeyed, or the predictions. Of a part the
// settings are what it runs with. Errors: settings out of range, a model's own, parts that can't be.
Result<Improved> improve(Graph graph, const PrepareSettings& given);

}  // namespace convoy::network
