// A node in its network, for convoy explain: what the plan gives it, what other ways to choose would, and what each
// costs with the conversions that it needs.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "cli/program.h"

namespace convoy::cli {

// Of the nodes whose names (joined by '+' where several are one) are wanted; the first few are also said. The plan is
// the one that `options` leads to, called `name`.
Result<Json> explain_in_network(const Program& program, const Network& network, std::span<const TensorDesc> descs,
                                const NetworkOptions& options, const std::string& name,
                                const std::function<bool(const std::string&)>& is_wanted);

}  // namespace convoy::cli
