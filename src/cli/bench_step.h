// convoy bench 'op:...' and 'convert:...': an operator or a conversion, verified, timed beside a parallel copy of as
// many bytes. A result that is wrong is an error. Kept in the tuning database.
#pragma once

#include <string>

#include "cli/program.h"

namespace convoy::cli {

Result<int> bench_step(const Program& program, const std::string& text);

}  // namespace convoy::cli
