// Plans that tuning a network found fastest, kept as plan files in one folder; kept_plan_path (convoy/network_plan.h)
// names them.
#pragma once

#include <string>

#include "convoy/network_plan.h"

namespace convoy::network {

// Errors: not_found; those of parse_plan.
Result<NetworkPlan> read_kept_plan(const std::string& path);

// Writes it beside its place and renames it, so that a reader never sees half of it. The error names the file.
Result<void> keep_plan(const std::string& path, const NetworkPlan& plan);

}  // namespace convoy::network
