#include "select/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace convoy::selection {

double Summary::relative_uncertainty() const {
  if (samples < 5) return 1;
  return 1.57 * spread() / std::sqrt(static_cast<double>(samples));
}

Summary summarize(std::span<const double> samples) {
  Summary summary;
  summary.samples = static_cast<int>(samples.size());
  if (samples.empty()) return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto quantile = [&](double q) {
    const double position = q * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
  };
  summary.first_quartile = quantile(0.25);
  summary.median = quantile(0.5);
  summary.third_quartile = quantile(0.75);
  return summary;
}

}  // namespace convoy::selection
