// The spread of a measurement's samples in a table.
#pragma once

#include <fmt/format.h>

#include <string>

#include "convoy/selection.h"
#include "report/format.h"

namespace convoy::cli {

// "3.1%"; a rough time, which is one sample or the least of some, has none: "1 sample", "10 samples".
inline std::string spread_of(const Measurement& m) {
  if (m.spread > 0) return report::percent(m.spread);
  return fmt::format("{} sample{}", m.samples, m.samples == 1 ? "" : "s");
}

}  // namespace convoy::cli
