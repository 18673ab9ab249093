#include "core/workspace.h"

#include <fmt/format.h>

#include <string>

namespace convoy {

Result<void> check_workspace(const ConvPlan& plan, const ExecContext& context) {
  const std::size_t needed = plan.workspace_bytes();
  const auto error = [&](const std::string& what) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: {} needs {}", what, print(plan.candidate()), needed)};
  };
  if (context.workspace_bytes < needed) return error(fmt::format("workspace_bytes={}", context.workspace_bytes));
  if (needed > 0 && context.workspace == nullptr) return error("workspace is null");
  return {};
}

}  // namespace convoy
