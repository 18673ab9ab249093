// What an execution launches, found by capturing it into a CUDA graph that is never run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::cudnn {

struct Launch {
  std::string name;         // of a kernel, or "memset", "memcpy"
  std::int64_t blocks = 0;  // thread blocks of a kernel
};

// In the order of the graph. While it captures, for some ten microseconds, other threads that wait for the whole
// context get an error from CUDA. Nothing is executed and no memory of the tensors is touched. Errors: there is no such
// device, or the plan can't be captured.
Result<std::vector<Launch>> captured_launches(const ConvPlan& plan, const ConvProblem& problem, int ordinal);

}  // namespace convoy::cudnn
