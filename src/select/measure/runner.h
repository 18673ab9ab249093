// A candidate that was planned, with what is known of it.
#pragma once

#include <memory>

#include "convoy/engine.h"
#include "convoy/measurement.h"

namespace convoy::selection {

struct Runner {
  std::unique_ptr<ConvPlan> plan;  // null where it failed
  Measurement measurement;
};

}  // namespace convoy::selection
