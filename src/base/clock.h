// The one clock that Convoy measures with.
#pragma once

namespace convoy {

// Seconds since an arbitrary start; never goes back, nanosecond resolution.
double monotonic_seconds();

}  // namespace convoy
