// convoy bench 'convert:...': time, bytes a second, share of a parallel copy of as many bytes, caches as they are left.
#pragma once

#include <string>

#include "cli/program.h"

namespace convoy::cli {

Result<int> bench_conversion(const Program& program, const std::string& text);

}  // namespace convoy::cli
