#include "select/measure/statistics.h"

#include <algorithm>
#include <vector>

namespace convoy::selection {

double quantile(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double first = quantile(sorted, 0.25), third = quantile(sorted, 0.75);
  const auto end = std::upper_bound(sorted.begin(), sorted.end(), third + 3 * (third - first));
  const std::span<const double> kept(sorted.begin(), end);
  return {.median = quantile(kept, 0.5),
          .first_quartile = quantile(kept, 0.25),
          .third_quartile = quantile(kept, 0.75),
          .samples = static_cast<int>(kept.size()),
          .outliers = static_cast<int>(sorted.end() - end)};
}

}  // namespace convoy::selection
