// Plans that tuning a network found fastest, kept as plan files in one folder; kept_plan_path (convoy/network_plan.h)
// names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "convoy/network_plan.h"

namespace convoy::network {

std::optional<std::string> read_kept_plan(const std::string& path);

// Writes it beside its place and renames it, so that a reader never sees half of it. The error names the file.
Result<void> keep_plan(const std::string& path, std::string_view text);

}  // namespace convoy::network
