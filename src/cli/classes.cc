#include "cli/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace convoy::cli {

Result<std::vector<Ranking>> rank_classes(const HostTensor& output, std::int64_t items, int top,
                                          const std::vector<std::string>& labels) {
  const std::int64_t classes = items > 0 ? output.desc.elements() / items : 0;
  if (!labels.empty() && static_cast<std::int64_t>(labels.size()) != classes) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--labels: the file has {} lines, the output {} classes", labels.size(), classes)};
  }
  std::vector<Ranking> rankings;
  for (std::int64_t item = 0; item < items; ++item) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < classes; ++i) values.push_back(output.at(item * classes + i));
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double low = *std::min_element(values.begin(), values.end());
    const double high = *std::max_element(values.begin(), values.end());
    Ranking ranking;
    ranking.softmax = !(low >= 0 && std::abs(sum - 1) <= 1e-3);
    if (ranking.softmax) {
      double total = 0;
      for (double& v : values) total += v = std::exp(v - high);
      for (double& v : values) v /= total;
    }
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    const auto shown = std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(order.size()));
    const auto key = [&](std::int64_t i) { return std::isnan(values[i]) ? -1.0 : values[i]; };
    std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                      [&](std::int64_t a, std::int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    for (std::ptrdiff_t i = 0; i < shown; ++i) {
      const std::int64_t index = order[i];
      ranking.classes.push_back({index, values[index], labels.empty() ? std::string() : labels[index]});
    }
    rankings.push_back(std::move(ranking));
  }
  return rankings;
}

}  // namespace convoy::cli
