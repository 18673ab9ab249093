// A line of elements that lie a step apart, as both kinds of copies move it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace convoy::ops {

// Every second element of a and then of b.
template <class V, std::size_t... kAt>
V every_second(V a, V b, std::index_sequence<kAt...>) {
  return __builtin_shufflevector(a, b, (2 * kAt)...);
}

// Behind the last element there may be nothing to read.
template <class T>
void copy_every_second(const T* from, T* to, std::int64_t count) {
  constexpr int N = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));
  std::int64_t i = 0;
  for (; i + N < count; i += N) {
    Vector a, b;
    std::memcpy(&a, from + 2 * i, sizeof(Vector));
    std::memcpy(&b, from + 2 * i + N, sizeof(Vector));
    a = every_second(a, b, std::make_index_sequence<N>());
    std::memcpy(to + i, &a, sizeof(Vector));
  }
  for (; i < count; ++i) to[i] = from[2 * i];
}

template <class T>
void copy_line(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t count) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (from_step == 0 && to_step == 1) {
    std::fill_n(to, count, *from);
  } else if (from_step == 2 && to_step == 1) {
    copy_every_second(from, to, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
  }
}

}  // namespace convoy::ops
