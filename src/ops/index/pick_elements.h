// Elements of 4 or 8 bytes that indices pick, by vectors.
#pragma once

#include <cstdint>

namespace convoy::ops::avx2 {

// y[i] = x[i * next + index] with index = indices[i], or indices[i] + dim where that is below 0. False, and y
// is anything, where one is outside of [-dim, dim).
template <class T, class I>
bool pick_elements(const T* x, std::int64_t next, const I* indices, std::int64_t dim, std::int64_t count, T* y);

}  // namespace convoy::ops::avx2
