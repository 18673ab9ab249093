// convoy bench 'op:...' and 'convert:...': an operator or a conversion, verified, timed beside a parallel copy of as
// many bytes.
#pragma once

#include <string>

#include "cli/program.h"

namespace convoy::cli {

Result<int> bench_step(const Program& program, const std::string& text);

}  // namespace convoy::cli
