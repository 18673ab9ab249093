// Code that is compiled at run time, before somebody needs it.
#pragma once

#include <map>
#include <string>

#include "base/background.h"
#include "convoy/engine.h"

namespace convoy {

// Compilations as jobs, by all that makes their outcome what it is.
using Compilations = std::map<std::string, Background::Job>;

// Implemented by the engines whose plans are compiled, and kept on disk.
class CompilesAhead {
 public:
  // What plan() would compile now, since the disk doesn't have it. Called only for problems that were not refused.
  virtual Compilations compilations(const ConvProblem& problem, const KnobValues& knobs,
                                    const PlanRequest& request) const = 0;

 protected:
  ~CompilesAhead() = default;
};

}  // namespace convoy
