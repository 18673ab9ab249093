#include "select/measure/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace convoy::selection {
namespace {

// Products summed into one output.
std::int64_t reduction_length(const ConvProblem& problem) {
  std::int64_t taps = 1;
  for (std::size_t d = 2; d < problem.w.dims.size(); ++d) taps *= problem.w.dims[d];
  switch (problem.pass) {
    case Pass::fprop:
      return problem.w.dims[1] * taps;
    case Pass::dgrad:
      return problem.out_channels() / problem.groups * taps;
    default: {
      std::int64_t positions = problem.batch();
      for (std::size_t d = 2; d < problem.y.dims.size(); ++d) positions *= problem.y.dims[d];
      return positions;
    }
  }
}

}  // namespace

Comparison compare_whole(const ConvProblem& problem, const HostTensor& expected, const HostTensor& actual,
                         Arithmetic arithmetic) {
  const DataType type = expected.desc.type;
  const std::int64_t count = expected.desc.storage_elements();
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = std::abs(load_as_double(type, expected.data.get(), i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  const ReductionMagnitude magnitude{reduction_length(problem), largest};
  const double both_sides = 2 * error_before_rounding(problem, magnitude, largest, EpilogueValues{}, arithmetic);

  Comparison comparison;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = load_as_double(type, actual.data.get(), i);
    const double b = load_as_double(type, expected.data.get(), i);
    if (a == b) continue;
    const double allowed = both_sides + 2 * half_ulp(type, largest);
    double error = std::abs(a - b) / allowed;
    if (std::isnan(a) != std::isnan(b)) error = std::numeric_limits<double>::infinity();
    if (error > comparison.max_error) comparison = {error, i, a, b};
  }
  return comparison;
}

}  // namespace convoy::selection
