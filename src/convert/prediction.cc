#include <algorithm>

#include "convert/convert.h"
#include "convert/problem.h"

namespace convoy {
namespace {

constexpr double kStart = 0.3e-6;        // seconds
constexpr double kOneThread = 64 << 10;  // bytes: with fewer a prediction takes one thread's rate
constexpr double kMemory = 10e9;         // bytes a second, of what the last cache doesn't hold, whatever the threads

// Bytes read and written a second by one thread (scripts/fit-steps).
double rate(ConversionKind kind, std::size_t narrower, bool types_differ) {
  switch (kind) {
    case ConversionKind::copy:
      return 60e9;
    case ConversionKind::types:
      return 53e9;
    case ConversionKind::to_inner:
      return types_differ ? 31e9 : narrower == 1 ? 33e9 : 42e9;
    case ConversionKind::to_outer:
      return types_differ ? 31e9 : narrower == 1 ? 31e9 : narrower == 2 ? 37e9 : 41e9;
    case ConversionKind::regroup:
      return types_differ ? 33e9 : narrower == 1 ? 24e9 : narrower == 2 ? 37e9 : 41e9;
    case ConversionKind::elsewhere:
      break;
  }
  return 0.5e9;  // assumed: element by element
}

// Rows of few elements, where a kernel goes element by element, or its calls take longer than what they do. Newer than
// the record, in which they went 9.2 and 9.7 GB/s: of fewer than 64 positions estimated on a busy machine; of fewer
// than 8 channels about the middle of convert_bench with 3, 4 and 7, all types, 256 KiB, one thread of an Intel Xeon
// (model 207, AVX-512) on 2026-11-25: 10 to 36.
double short_rate(ConversionKind kind, const TensorDesc& from, const TensorDesc& to) {
  if (kind != ConversionKind::to_inner && kind != ConversionKind::to_outer) return 1e12;
  std::int64_t positions = 1;
  for (int i = 2; i < from.rank(); ++i) positions *= from.dims[i];
  if (positions < 8) return 2.1e9;
  if (positions < 64) return 16e9;
  return from.dims[1] < 8 && from.channel_block == 1 && to.channel_block == 1 ? 26e9 : 1e12;
}

}  // namespace

double conversion_seconds(const TensorDesc& from, const TensorDesc& to, const PlanRequest& request) {
  if (same_bytes(from, to)) return 0;
  const ConversionKind kind = conversion_kind(from, to);
  const double bytes = bytes_moved({from, to});
  const int threads = kind == ConversionKind::elsewhere || bytes < kOneThread ? 1 : std::max(1, request.threads);
  const std::size_t narrower = std::min(size_of(from.type), size_of(to.type));
  const double fastest = std::min(rate(kind, narrower, from.type != to.type), short_rate(kind, from, to));
  const double memory = bytes > static_cast<double>(request.cpu.l3_bytes) ? bytes / kMemory : 0;
  return kStart + std::max(bytes / (fastest * threads), memory);
}

}  // namespace convoy
