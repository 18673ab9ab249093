// What a network will want of a GPU for other batches than the one that it is prepared for.
#pragma once

#include <functional>

#include "base/background.h"
#include "network/assign/assignment.h"
#include "network/prepare/session.h"

namespace convoy::network {

// Whether it can: the first dims of all inputs are free, predictions decide, and no weights lie in a caller's memory,
// who may take them back.
bool can_foresee(const Graph& graph, const NetworkOptions& options);

// Where the disk doesn't have all that the convolutions of `own` compile, which is the assignment for the batch of
// `graph`: gives `add` a job for each compilation besides those that the heuristic's choices for other usual batches
// need. So one of these is prepared from the disk, later; what it chooses is its own business. `graph` has had no
// passes. A stop is obeyed between batches.
void foresee_batches(const Graph& graph, const Assignment& own, PrepareSettings settings, const std::stop_token& stop,
                     const std::function<void(Background::Job)>& add);

}  // namespace convoy::network
