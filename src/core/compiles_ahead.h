// Code that is compiled at run time, before somebody needs it.
#pragma once

#include <string>
#include <vector>

#include "base/background.h"
#include "convoy/engine.h"

namespace convoy {

struct CompilationJob {
  std::string what;  // all that makes the outcome what it is
  Background::Job job;
};

// Implemented by the engines whose plans are compiled, and kept on disk.
class CompilesAhead {
 public:
  // What plan() would compile now, since the disk doesn't have it. Called only for problems that were not refused.
  virtual std::vector<CompilationJob> compilations(const ConvProblem& problem, const KnobValues& knobs,
                                                   const PlanRequest& request) const = 0;

 protected:
  ~CompilesAhead() = default;
};

}  // namespace convoy
