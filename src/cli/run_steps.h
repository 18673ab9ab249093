// The steps of a prepared network with what they take: `convoy run --verbose` and its document.
#pragma once

#include "cli/program.h"

namespace convoy::cli {

// A row a step, then where the slowest convolution is explained. `seconds`: one a step, or empty where they aren't
// known. `nodes`: of the steps only that node_matches() (tuning.h), by the step's number; empty: all. Error: none is.
Result<void> say_steps(const Program& program, const std::string& model, const Session& session,
                       const std::vector<double>& seconds, const std::string& nodes);

Json steps_json(const Session& session, const std::vector<double>& seconds);

}  // namespace convoy::cli
