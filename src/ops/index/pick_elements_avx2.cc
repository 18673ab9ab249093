#include "ops/index/pick_elements.h"

namespace convoy::ops::avx2 {

// Checked first, so that the compiler has gathers.
template <class T, class I>
bool pick_elements(const T* x, std::int64_t next, const I* indices, std::int64_t dim, std::int64_t count, T* y) {
  constexpr std::int64_t kChunk = 512;
  for (std::int64_t start = 0; start < count; start += kChunk) {
    const std::int64_t end = count - start < kChunk ? count : start + kChunk;
    std::uint64_t outside = 0;
    for (std::int64_t i = start; i < end; ++i) {
      const std::int64_t index = indices[i], place = index < 0 ? index + dim : index;
      outside |= static_cast<std::uint64_t>(place) | static_cast<std::uint64_t>(dim - 1 - place);
    }
    if (outside >> 63 != 0) return false;
#pragma GCC ivdep
    for (std::int64_t i = start; i < end; ++i) {
      const std::int64_t index = indices[i], place = index < 0 ? index + dim : index;
      y[i] = x[i * next + place];
    }
  }
  return true;
}

#define CONVOY_PICK(T, I) template bool pick_elements(const T*, std::int64_t, const I*, std::int64_t, std::int64_t, T*);
CONVOY_PICK(std::uint32_t, std::int64_t)
CONVOY_PICK(std::uint32_t, std::int32_t)
CONVOY_PICK(std::uint64_t, std::int64_t)
CONVOY_PICK(std::uint64_t, std::int32_t)
#undef CONVOY_PICK

}  // namespace convoy::ops::avx2
