// Whether somebody else slows down the cores that a team runs on, right now.
#pragma once

#include <vector>

#include "convoy/thread_team.h"

namespace convoy::selection {

// On a shared machine each core has a second hardware thread, which may be another machine's: while it computes, the
// core does half as much for us, for milliseconds at a time, and no clock or counter of ours tells. So each thread of
// the team times a few thousand multiplications, some three microseconds, and compares with the fastest that this
// process has seen on that processor.
class FullSpeed {
 public:
  // `patience`: seconds to wait for it in all, from one time that it is there to the next.
  FullSpeed(ThreadTeam& team, double patience);
  bool operator()(bool may_wait);

 private:
  struct alignas(64) Full {  // a cache line a thread
    bool yes = true;
  };
  ThreadTeam* team_;
  std::vector<Full> full_;
  int looks_ = 0;  // that patience has; left_ of them are left
  int left_ = 0;
};

}  // namespace convoy::selection
