// The spread of a measurement's samples in a table.
#pragma once

#include <string>

#include "convoy/selection.h"
#include "report/format.h"

namespace convoy::cli {

// "3.1%"; a single sample has none, and says so.
inline std::string spread_of(const Measurement& m) { return m.samples == 1 ? "1 sample" : report::percent(m.spread); }

}  // namespace convoy::cli
