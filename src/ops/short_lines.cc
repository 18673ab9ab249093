#include "ops/short_lines.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace convoy::ops {

std::vector<std::int64_t> offsets_of(const BroadcastLoop& loop, int operand) {
  std::vector<std::int64_t> offsets;
  loop.run(0, loop.elements(), [&](const std::int64_t* at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) offsets.push_back(at[operand] + i * loop.inner_stride(operand));
  });
  return offsets;
}

void each_short_lines(const BroadcastLoop& kept, std::int64_t begin, std::int64_t end, std::int64_t most,
                      FunctionRef<void(const LineStarts& starts)> body) {
  const std::int64_t strides[2] = {kept.inner_stride(0), kept.inner_stride(1)};
  LineStarts starts;
  kept.run(begin, end, [&](const std::int64_t* at, std::int64_t run) {
    for (std::int64_t done = 0; done < run;) {
      const std::int64_t n = std::min(run - done, most - starts.count);
      for (int k = 0; k < 2; ++k) {
        std::int64_t* const to = starts.of[k].data() + starts.count;
        for (std::int64_t i = 0; i < n; ++i) to[i] = at[k] + (done + i) * strides[k];
      }
      done += n;
      starts.count += n;
      if (starts.count < most) continue;
      body(starts);
      starts.count = 0;
    }
  });
  if (starts.count > 0) body(starts);
}

std::int64_t lines_together(const BroadcastLoop& kept, std::size_t element_size) {
  constexpr std::size_t kWidest = 16;
  const std::int64_t run = kept.inner_size();
  const std::size_t bytes = static_cast<std::size_t>(run) * element_size;
  const bool fits =
      kept.inner_stride(1) == 1 && bytes <= kWidest && std::has_single_bit(bytes) && kShortLines % run == 0;
  return fits ? run : 1;
}

namespace {

// Neighbours among starts: where the first is among them, and how many there are.
struct Run {
  std::size_t first, count;
};

// Calls body(Run) for all of them, or for none and returns false, where there are many of few.
template <class Body>
bool each_run(std::span<const std::int64_t> starts, std::span<const std::int64_t> offsets, Body body) {
  constexpr std::size_t kLong = 8;
  std::array<Run, kShortLines / kLong> runs;
  std::size_t count = 0;
  for (std::size_t first = 0, end = 1; first < starts.size(); first = end++) {
    while (end < starts.size() && starts[end] == starts[end - 1] + 1) ++end;
    if (count == runs.size() || (count + 1) * kLong > starts.size()) return false;
    runs[count++] = {first, end - first};
  }
  for (const std::int64_t offset : offsets) {
    for (std::size_t r = 0; r < count; ++r) body(offset, runs[r]);
  }
  return true;
}

}  // namespace

void gather_lines(std::size_t element_size, const void* x, std::span<const std::int64_t> starts, std::int64_t together,
                  std::span<const std::int64_t> offsets, void* lines) {
  const auto size = static_cast<std::int64_t>(element_size);
  auto* next = static_cast<std::byte*>(lines);
  const bool by_runs = together == 1 && each_run(starts, offsets, [&](std::int64_t offset, const Run& run) {
                         std::memcpy(next, static_cast<const std::byte*>(x) + (offset + starts[run.first]) * size,
                                     run.count * element_size);
                         next += run.count * element_size;
                       });
  if (by_runs) return;
  const auto gather = [&]<std::size_t kBytes>() {
    auto* to = static_cast<std::byte*>(lines);
    for (const std::int64_t offset : offsets) {
      const auto* const from = static_cast<const std::byte*>(x) + offset * size;
      for (std::size_t i = 0; i < starts.size(); i += static_cast<std::size_t>(together), to += kBytes) {
        std::memcpy(to, from + starts[i] * size, kBytes);
      }
    }
  };
  switch (size * together) {
    case 1:
      return gather.template operator()<1>();
    case 2:
      return gather.template operator()<2>();
    case 4:
      return gather.template operator()<4>();
    case 8:
      return gather.template operator()<8>();
    default:
      return gather.template operator()<16>();
  }
}

void scatter_lines(std::size_t element_size, const void* lines, std::span<const std::int64_t> starts,
                   std::span<const std::int64_t> offsets, void* y) {
  dispatch_bytes(element_size, [&]<class T>(Tag<T>) {
    const T* from = static_cast<const T*>(lines);
    const bool by_runs = each_run(starts, offsets, [&](std::int64_t offset, const Run& run) {
      std::memcpy(static_cast<T*>(y) + offset + starts[run.first], from, run.count * sizeof(T));
      from += run.count;
    });
    if (by_runs) return;
    for (const std::int64_t offset : offsets) {
      T* const to = static_cast<T*>(y) + offset;
      for (const std::int64_t start : starts) to[start] = *from++;
    }
  });
}

}  // namespace convoy::ops
