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

void gather_lines(std::size_t element_size, const void* x, std::span<const std::int64_t> starts, std::int64_t together,
                  std::span<const std::int64_t> offsets, void* lines) {
  const auto size = static_cast<std::int64_t>(element_size);
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
    for (const std::int64_t offset : offsets) {
      T* const to = static_cast<T*>(y) + offset;
      for (const std::int64_t start : starts) to[start] = *from++;
    }
  });
}

}  // namespace convoy::ops
