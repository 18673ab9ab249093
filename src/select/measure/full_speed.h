// Whether somebody else slows down the cores that a team runs on, right now.
#pragma once

#include <vector>

#include "convoy/thread_team.h"

namespace convoy::selection {

// On a shared machine each core has a second hardware thread, which may be another machine's: while it computes, the
// core does half as much for us, for milliseconds at a time, and no clock or counter of ours tells. So each thread of
// the team times a few thousand multiplications, some three microseconds, and compares with the fastest it has seen.
class FullSpeed {
 public:
  explicit FullSpeed(ThreadTeam& team);
  bool operator()();

 private:
  struct alignas(64) Core {
    double fastest = 0;  // seconds; rises by a ten-thousandth each time, since a core's clock goes down when it is warm
    bool full = true;
  };
  ThreadTeam* team_;
  std::vector<Core> cores_;
};

}  // namespace convoy::selection
