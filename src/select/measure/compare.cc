#include "select/measure/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/tolerance.h"

namespace convoy::selection {
namespace {

// The channel of each stored element; -1 for what is padding.
std::vector<std::int32_t> channels_of_storage(const TensorDesc& desc) {
  std::vector<std::int32_t> channels(static_cast<std::size_t>(desc.storage_elements()), -1);
  Dims at(desc.dims.size(), 0);
  for (std::int64_t left = desc.elements(); left > 0; --left) {
    channels[static_cast<std::size_t>(desc.offset(at.data()))] = static_cast<std::int32_t>(at[1]);
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == desc.dims[d];) at[d] = 0;
  }
  return channels;
}

// The worst element, where element i may lie bound(i) from the exact value before it is rounded; 0: no two values are
// right.
template <class Bound>
OutputDifference worst_of(const HostTensor& expected, const HostTensor& actual, ThreadTeam& team, Bound bound) {
  const DataType type = expected.desc.type;
  std::vector<OutputDifference> worsts(static_cast<std::size_t>(team.size()));
  parallel_ranges(team, expected.desc.storage_elements(), [&](std::int64_t begin, std::int64_t end, int thread) {
    OutputDifference worst;
    for (std::int64_t i = begin; i < end; ++i) {
      const double a = load_as_double(type, actual.data.get(), i);
      const double b = load_as_double(type, expected.data.get(), i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double before_rounding = bound(i);
      const double rounding =
          before_rounding == 0 ? 0 : half_ulp(type, std::max(std::abs(a), std::abs(b)) + before_rounding);
      double error = std::abs(a - b) / (2 * (before_rounding + rounding));
      if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
      if (error > worst.max_error) worst = {error, i, a, b};
    }
    worsts[static_cast<std::size_t>(thread)] = worst;
  });
  return *std::max_element(worsts.begin(), worsts.end(), [](const OutputDifference& a, const OutputDifference& b) {
    return a.max_error < b.max_error;
  });
}

}  // namespace

OutputDifference compare_whole(const HostTensor& expected, const HostTensor& actual, std::span<const double> tolerances,
                               ThreadTeam& team) {
  if (std::memcmp(expected.data.get(), actual.data.get(), static_cast<std::size_t>(expected.desc.bytes())) == 0) {
    return {};
  }
  // Right ones are far closer than what is allowed: mostly the strictest channel's tolerance will do for all. Not where
  // there is padding, which must be the same to the bit.
  const bool padded = expected.desc.storage_elements() != expected.desc.elements();
  if (!padded && !tolerances.empty()) {
    const double least = *std::min_element(tolerances.begin(), tolerances.end());
    const OutputDifference strict = worst_of(expected, actual, team, [&](std::int64_t) { return least; });
    if (strict.max_error <= 1) return strict;
  }
  const std::vector<std::int32_t> channels = channels_of_storage(expected.desc);
  return worst_of(expected, actual, team, [&](std::int64_t i) {
    const std::int32_t channel = channels[static_cast<std::size_t>(i)];
    return channel < 0 ? 0 : tolerances[static_cast<std::size_t>(channel)];
  });
}

}  // namespace convoy::selection
