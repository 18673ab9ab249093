#include "select/measure/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

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

double whole_tolerance(const ConvProblem& problem, double largest, Arithmetic arithmetic) {
  const ReductionMagnitude magnitude{reduction_length(problem), largest};
  const double both_sides = 2 * error_before_rounding(problem, magnitude, largest, EpilogueValues{}, arithmetic);
  return both_sides + 2 * half_ulp(problem.out().type, largest);
}

Comparison compare_whole(const ConvProblem& problem, const HostTensor& expected, const HostTensor& actual,
                         Arithmetic arithmetic, ThreadTeam& team) {
  const DataType type = expected.desc.type;
  const std::int64_t count = expected.desc.storage_elements();
  if (std::memcmp(expected.data.get(), actual.data.get(), static_cast<std::size_t>(expected.desc.bytes())) == 0) {
    return {};
  }
  const auto threads = static_cast<std::size_t>(team.size());
  std::vector<double> largests(threads, 0);
  parallel_ranges(team, count, [&](std::int64_t begin, std::int64_t end, int thread) {
    double largest = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double value = std::abs(load_as_double(type, expected.data.get(), i));
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    largests[static_cast<std::size_t>(thread)] = largest;
  });
  const double allowed = whole_tolerance(problem, *std::max_element(largests.begin(), largests.end()), arithmetic);

  std::vector<Comparison> worsts(threads);
  parallel_ranges(team, count, [&](std::int64_t begin, std::int64_t end, int thread) {
    Comparison worst;
    for (std::int64_t i = begin; i < end; ++i) {
      const double a = load_as_double(type, actual.data.get(), i);
      const double b = load_as_double(type, expected.data.get(), i);
      if (a == b) continue;
      double error = std::abs(a - b) / allowed;
      if (std::isnan(a) != std::isnan(b)) error = std::numeric_limits<double>::infinity();
      if (error > worst.max_error) worst = {error, i, a, b};
    }
    worsts[static_cast<std::size_t>(thread)] = worst;
  });
  return *std::max_element(worsts.begin(), worsts.end(),
                           [](const Comparison& a, const Comparison& b) { return a.max_error < b.max_error; });
}

}  // namespace convoy::selection
