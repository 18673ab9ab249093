// For engines that run on a GPU: an execution context has a team, and they never use it.
#pragma once

#include "convoy/thread_team.h"

namespace convoy {

class NoTeam final : public ThreadTeam {
 public:
  int size() const override { return 1; }
  void run(FunctionRef<void(int thread)> body) override { body(0); }
};

}  // namespace convoy
