#include <algorithm>

#include "convert/convert.h"
#include "convert/problem.h"

namespace convoy {
namespace {

constexpr double kStart = 1e-6;  // assumed, not fitted: the smallest tensors measured are 256 KB

// Bytes read and written a second by one thread: medians of bench/results/conversions-2026-11-23.json, "fitted".
double rate(ConversionKind kind, std::size_t narrower, bool types_differ) {
  switch (kind) {
    case ConversionKind::copy:
      return 20e9;  // about what copies of 8 MB reach there
    case ConversionKind::types:
      return 29.6e9;
    case ConversionKind::to_inner:
      return types_differ ? 7.8e9 : narrower == 1 ? 8.1e9 : narrower == 2 ? 10.2e9 : 12.9e9;
    case ConversionKind::to_outer:
      return types_differ ? 7.5e9 : narrower == 1 ? 7.7e9 : narrower == 2 ? 12.2e9 : 12.7e9;
    case ConversionKind::regroup:
      return types_differ ? 6.6e9 : narrower == 1 ? 12.4e9 : 14.8e9;
    case ConversionKind::elsewhere:
      break;
  }
  return 0.5e9;  // assumed: element by element
}

}  // namespace

double conversion_seconds(const TensorDesc& from, const TensorDesc& to, const PlanRequest& request) {
  if (same_bytes(from, to)) return 0;
  const ConversionKind kind = conversion_kind(from, to);
  const int threads = kind == ConversionKind::elsewhere ? 1 : std::max(1, request.threads);
  const std::size_t narrower = std::min(size_of(from.type), size_of(to.type));
  return kStart + bytes_moved({from, to}) / (rate(kind, narrower, from.type != to.type) * threads);
}

}  // namespace convoy
