// The threads that a caller lends (convoy_options.parallel_for), as plans and networks take them.
#pragma once

#include <memory>

#include "convoy.h"
#include "convoy/thread_team.h"

namespace convoy::capi {

// Null where the options have none. It keeps nothing of one run for the next, so several threads may run on it at once
// where the caller's function allows that.
std::shared_ptr<ThreadTeam> caller_team(const convoy_options& options, int threads);

}  // namespace convoy::capi
