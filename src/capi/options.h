// convoy_options as the library takes them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "capi/calls.h"
#include "convoy/selection.h"
#include "convoy/tuning_database.h"
#include "device/cuda/device.h"

namespace convoy::capi {

// Where an engine is asked, measured or planned.
struct ScopedRequest {
  PlanRequest request;
  std::optional<cuda::DeviceScope> scope;  // gives the caller's context back
};

// A caller's options, or the defaults for null.
Result<convoy_options> whole(const convoy_options* given);

Result<ScopedRequest> read_request(const convoy_options& options);

// How to choose, and where.
struct Chooser {
  SelectionOptions options;
  ScopedRequest place;
  std::string database;  // empty: none
  SelectionProgress progress;
  MathMode math = MathMode::strict;
};

Result<Chooser> read_options(const convoy_options* given);

// For choosing without measuring: by heuristic, and by what the options' database knows. A file that is not there yet
// knows nothing. What is returned, which may be null, must live as long as the chooser is used.
Result<std::unique_ptr<TuningDatabase>> remember(Chooser& chooser);

}  // namespace convoy::capi
