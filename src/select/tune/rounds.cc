#include "select/tune/rounds.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace convoy::selection {
namespace {

// Seconds. A later slice that is shorter would pay for little but setting up.
constexpr double kLeastShare = 0.05;
constexpr double kTinyShare = 1e-9;

}  // namespace

Result<void> measure_in_rounds(std::span<const double> weights, FunctionRef<double()> left,
                               FunctionRef<Result<SliceOutcome>(const Slice&)> take) {
  const bool budgeted = left() < std::numeric_limits<double>::infinity();
  std::vector<bool> settled(weights.size(), false);
  bool progress = true, measured = false;
  for (bool first = true; progress; first = false) {
    progress = false;
    double open = 0;  // weight of what is still to come in this round
    for (std::size_t i = 0; i < weights.size(); ++i) open += settled[i] ? 0 : weights[i];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (settled[i]) continue;
      double share = 0;
      if (budgeted) {
        const double seconds = left();
        share = seconds > 0 ? seconds * weights[i] / std::max(open, weights[i]) : measured ? -1 : kTinyShare;
      }
      open -= weights[i];
      if (!first && budgeted && share < kLeastShare) continue;
      const bool likely_only = first && budgeted && weights.size() > 1;
      auto outcome = take({i, share, likely_only});
      if (!outcome.ok()) return outcome.error();
      settled[i] = outcome->settled;
      progress = progress || outcome->measured;
      measured = measured || outcome->measured;
    }
  }
  return {};
}

}  // namespace convoy::selection
