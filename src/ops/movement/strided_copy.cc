#include "ops/movement/strided_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/cpu.h"
#include "ops/movement/copy_line.h"
#include "ops/movement/transpose_lines.h"
#include "ops/movement/transpose_squares.h"

namespace convoy::ops {

StridedCopy::StridedCopy(std::size_t element_size, const Dims& dims, const Dims& from_strides, const Dims& to_strides)
    : element_size_(element_size) {
  std::vector<int> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return to_strides[a] > to_strides[b]; });
  for (const int d : order) {
    if (dims[d] == 1) continue;
    if (!dims_.empty() && to_.back() == to_strides[d] * dims[d] && from_.back() == from_strides[d] * dims[d]) {
      dims_.back() *= dims[d];
      from_.back() = from_strides[d];
      to_.back() = to_strides[d];
      continue;
    }
    dims_.push_back(dims[d]);
    from_.push_back(from_strides[d]);
    to_.push_back(to_strides[d]);
  }
  if (dims_.empty()) {
    dims_ = {1};
    from_ = to_ = {1};
  }
  if (find_table()) return;
  const auto along = std::find(from_.begin(), from_.end(), 1);
  if (from_.back() != 1 && from_.back() != 0 && to_.back() == 1 && along != from_.end()) {
    // Bring the dim that is contiguous in `from` next to the last one: the visiting order of blocks is free.
    const std::ptrdiff_t at = along - from_.begin();
    for (Dims* list : {&dims_, &from_, &to_}) std::rotate(list->begin() + at, list->begin() + at + 1, list->end() - 1);
    tiled_ = true;
  }
  if (const std::size_t n = dims_.size(); !tiled_ && n > 2 && from_[n - 1] == 1 && to_[n - 1] == 1 &&
                                          from_[n - 2] == 0 && to_[n - 2] == dims_[n - 1] &&
                                          to_[n - 3] == dims_[n - 2] * to_[n - 2]) {
    times_ = dims_[n - 2];
    for (Dims* list : {&dims_, &from_, &to_}) list->erase(list->end() - 2);
  }
  for (std::size_t d = 0; d + (tiled_ ? 2 : 1) < dims_.size(); ++d) blocks_ *= dims_[d];
}

// Of dims that follow one another in `to`, where lines of the last one have few elements that do not lie together in
// `from`, nor make squares of some size with another dim.
bool StridedCopy::find_table() {
  constexpr std::int64_t kShortLine = 16, kSmallSquare = 48, kEnough = 256, kMost = 1024;
  const std::int64_t last = dims_.back();
  if (from_.back() == 1 || to_.back() != 1 || last >= kShortLine || last == 0) return false;
  const auto along = std::find(from_.begin(), from_.end(), 1);
  if (along != from_.end()) {
    const std::int64_t rows = dims_[along - from_.begin()], lanes = 16 / static_cast<std::int64_t>(element_size_);
    if (last * rows > kSmallSquare || (last >= lanes && rows >= lanes)) return false;
  }
  std::size_t first = dims_.size() - 1;
  std::int64_t elements = 1;  // of an index of dim `first`
  const auto is_packed = [&](std::size_t d) { return to_[d - 1] == to_[d] * dims_[d]; };
  while (first > 0 && is_packed(first) && elements * dims_[first] < kEnough) elements *= dims_[first--];
  if (first + 1 == dims_.size() || elements > kMost) return false;
  table_rows_ = std::min(dims_[first], std::max<std::int64_t>(1, kMost / elements));
  Dims offsets{0};
  for (std::size_t d = first; d < dims_.size(); ++d) {
    Dims more;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < (d == first ? table_rows_ : dims_[d]); ++i) more.push_back(offset + i * from_[d]);
    }
    offsets = std::move(more);
  }
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (std::ranges::any_of(offsets, [](std::int64_t offset) { return std::abs(offset) > kLargest; })) return false;
  table_.assign(offsets.begin(), offsets.end());
  row_elements_ = elements;
  for (Dims* list : {&dims_, &from_, &to_}) list->resize(first + 1);
  for (std::size_t d = 0; d < first; ++d) blocks_ *= dims_[d];
  return true;
}

namespace {

// Rows of a tile of `to`: `from` is read in runs of several cache lines, which the processor then fetches ahead. (Of
// columns that lie a power of two apart, as those of maps do, no more than some lines stay in the cache at a time.)
constexpr std::int64_t tile_rows(std::size_t element_size) {
  return (element_size < 4 ? 512 : 256) / static_cast<std::int64_t>(element_size);
}
// The same where those would be too few tiles for the threads: a cache line.
constexpr std::int64_t least_tile_rows(std::size_t element_size) {
  return 64 / static_cast<std::int64_t>(element_size);
}

// Elements of a and b in turns, from the first halves or the second ones.
template <bool kSecond, class V, std::size_t... kAt>
V interleave(V a, V b, std::index_sequence<kAt...>) {
  constexpr std::size_t n = sizeof...(kAt);
  return __builtin_shufflevector(a, b, (kAt / 2 + (kSecond ? n / 2 : 0) + kAt % 2 * n)...);
}

// As many vectors as 16 bytes have elements: a round interleaves the vectors i and i + N/2, log2(N) rounds exchange
// rows and columns.
template <class T>
struct Square {
  static constexpr int N = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));
  Vector v[N];

  void load(int c, const T* from) { std::memcpy(&v[c], from, sizeof(Vector)); }
  void store(int r, T* to) const { std::memcpy(to, &v[r], sizeof(Vector)); }
  void transpose() {
    constexpr auto lanes = std::make_index_sequence<N>();
    Vector next[N];
    for (int round = 1; round < N; round *= 2) {
      for (int i = 0; i < N / 2; ++i) {
        next[2 * i] = interleave<false>(v[i], v[i + N / 2], lanes);
        next[2 * i + 1] = interleave<true>(v[i], v[i + N / 2], lanes);
      }
      std::copy_n(next, N, v);
    }
  }
};

template <class T>
void transpose_square(const T* from, std::int64_t from_column, T* to, std::int64_t to_row) {
  Square<T> square;
  for (int c = 0; c < square.N; ++c) square.load(c, from + c * from_column);
  square.transpose();
  for (int r = 0; r < square.N; ++r) square.store(r, to + r * to_row);
}

// The first half of a square's columns, where elements are smaller than four bytes.
template <class T>
void transpose_half_square(const T* from, std::int64_t from_column, T* to, std::int64_t to_row) {
  constexpr int N = Square<T>::N, kHalf = N / 2;
  constexpr auto lanes = std::make_index_sequence<N>();
  typename Square<T>::Vector v[kHalf], next[kHalf];
  for (int c = 0; c < kHalf; ++c) std::memcpy(&v[c], from + c * from_column, sizeof(v[c]));
  for (int round = 1; round < kHalf; round *= 2) {
    for (int i = 0; i < kHalf / 2; ++i) {
      next[2 * i] = interleave<false>(v[i], v[i + kHalf / 2], lanes);
      next[2 * i + 1] = interleave<true>(v[i], v[i + kHalf / 2], lanes);
    }
    std::copy_n(next, kHalf, v);
  }
  // Each vector has two rows of half a square.
  typedef std::uint64_t Pair __attribute__((vector_size(16)));
  for (int r = 0; r < N; r += 2) {
    const auto pair = reinterpret_cast<Pair>(v[r / 2]);
    const std::uint64_t rows[] = {pair[0], pair[1]};
    std::memcpy(to + r * to_row, &rows[0], sizeof(rows[0]));
    std::memcpy(to + (r + 1) * to_row, &rows[1], sizeof(rows[1]));
  }
}

// Fewer columns than a square has, which lie together in `to`: a row is written with what is behind it, which the next
// one writes over.
template <class T>
void transpose_few_columns(const T* from, std::int64_t from_column, T* to, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t N = Square<T>::N;
  Square<T> square{};
  for (std::int64_t r = 0; r < rows; r += N) {
    const std::int64_t first = std::min(r, rows - N);
    for (int c = 0; c < N; ++c) square.load(c, from + first + std::min<std::int64_t>(c, columns - 1) * from_column);
    square.transpose();
    for (std::int64_t k = 0; k < N; ++k) {
      T* const line = to + (first + k) * columns;
      if ((first + k) * columns + N <= rows * columns) {
        square.store(static_cast<int>(k), line);
      } else {
        std::memcpy(line, &square.v[k], columns * sizeof(T));
      }
    }
  }
}

// Fewer rows, which lie together in `from`: a column is read with what is behind it.
template <class T>
void transpose_few_rows(const T* from, T* to, std::int64_t to_row, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t N = Square<T>::N;
  Square<T> square{};
  for (std::int64_t c = 0; c < columns; c += N) {
    const std::int64_t first = std::min(c, columns - N);
    for (std::int64_t k = 0; k < N; ++k) {
      const T* const line = from + (first + k) * rows;
      if ((first + k) * rows + N <= rows * columns) {
        square.load(static_cast<int>(k), line);
      } else {
        std::memcpy(&square.v[k], line, rows * sizeof(T));
      }
    }
    square.transpose();
    for (std::int64_t r = 0; r < rows; ++r) square.store(static_cast<int>(r), to + r * to_row + first);
  }
}

// Rows of kMove to twice as many bytes, in two moves that may overlap; each `times` times, one after the other.
template <int kMove>
void copy_rows_by(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step, std::int64_t rows,
                  std::int64_t bytes, std::int64_t times) {
  struct Move {
    std::byte bytes[kMove];
  };
  const std::int64_t last = bytes - kMove;
  const auto copy = [&](auto count) __attribute__((always_inline)) {
    for (std::int64_t r = 0; r < rows; ++r, from += from_step) {
      Move first, second;
      std::memcpy(&first, from, kMove);
      std::memcpy(&second, from + last, kMove);
      for (std::int64_t k = 0; k < count; ++k, to += to_step) {
        std::memcpy(to, &first, kMove);
        std::memcpy(to + last, &second, kMove);
      }
    }
  };
  if (times == 1) return copy(std::integral_constant<std::int64_t, 1>());
  if (times == 2) return copy(std::integral_constant<std::int64_t, 2>());
  copy(times);
}

template <class T>
void copy_lines(const T* from, std::int64_t from_row, std::int64_t from_step, T* to, std::int64_t to_row,
                std::int64_t to_step, std::int64_t rows, std::int64_t count) {
  constexpr std::int64_t size = sizeof(T);
  if (from_step == 1 && to_step == 1) {
    return copy_rows(from, from_row * size, to, to_row * size, rows, count * size);
  }
  for (std::int64_t r = 0; r < rows; ++r) copy_line(from + r * from_row, from_step, to + r * to_row, to_step, count);
}

// Whether the first cache holds `lines` lines that lie so many bytes apart: at most 8 of them in one of its 64 sets.
bool fit_first_cache(std::int64_t apart, std::int64_t lines) {
  constexpr std::int64_t kAll = 4096, kLine = 64, kWays = 8;
  const std::int64_t sets = kAll / std::max(std::gcd(apart, kAll), kLine);
  return lines <= sets * kWays;
}

// Whether squares are so wide that half a line of `to` is written at a time.
template <class T>
constexpr bool has_wide_squares = sizeof(T) == 4;

// to[r * to_row + c] = from[r + c * from_column]. The side with the larger step is the one that goes in long runs.
template <class T>
void transpose(const T* from, std::int64_t from_column, T* to, std::int64_t to_row, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::int64_t size = sizeof(T), N = 16 / size, kColumns = 512 / size;
  // Two lines from one whose elements take turns, and one from two: the compiler has vectors for both.
  if (rows == 2 && from_column == 2) {
#pragma GCC ivdep
    for (std::int64_t c = 0; c < columns; ++c) {
      const T first = from[2 * c], second = from[2 * c + 1];
      to[c] = first;
      to[to_row + c] = second;
    }
    return;
  }
  if (columns == 2 && to_row == 2) {
#pragma GCC ivdep
    for (std::int64_t r = 0; r < rows; ++r) {
      const T first = from[r], second = from[from_column + r];
      to[2 * r] = first;
      to[2 * r + 1] = second;
    }
    return;
  }
  if (columns < N && rows >= N && to_row == columns) {
    return transpose_few_columns(from, from_column, to, rows, columns);
  }
  if (rows < N && columns >= N && from_column == rows) return transpose_few_rows(from, to, to_row, rows, columns);
  if (rows < N || columns < N) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r) to[r * to_row + c] = from[r + c * from_column];
    }
    return;
  }
  if constexpr (has_wide_squares<T>) {
    if (cpu_features().isa >= Isa::avx2 && rows >= avx2::kSquare && columns >= avx2::kSquare) {
      return avx2::transpose_squares(from, from_column, to, to_row, rows, columns);
    }
  }
  // The last squares reach back over what others have made.
  const auto square = [&](std::int64_t r, std::int64_t c) {
    const std::int64_t row = std::min(r, rows - N), column = std::min(c, columns - N);
    transpose_square(from + row + column * from_column, from_column, to + row * to_row + column, to_row);
  };
  std::int64_t done = 0;  // columns
  if constexpr (sizeof(T) <= 2) {
    // Few columns row by row, so that a line of `to` is written at once.
    if (columns <= 2 * N) {
      for (std::int64_t r = 0; r < rows; r += N) {
        square(r, 0);
        if (columns > N + N / 2) {
          square(r, columns - N);
        } else if (columns > N) {
          const std::int64_t row = std::min(r, rows - N), column = columns - N / 2;
          transpose_half_square(from + row + column * from_column, from_column, to + row * to_row + column, to_row);
        }
      }
      return;
    }
    if (cpu_features().isa >= Isa::avx512 && fit_first_cache(from_column * size, avx512::line_columns<T>)) {
      done = columns / avx512::line_columns<T> * avx512::line_columns<T>;
      const std::int64_t whole_rows = rows / N * N;
      avx512::transpose_lines(from, from_column, to, to_row, whole_rows, done);
      for (std::int64_t c = 0; whole_rows < rows && c < done; c += N) square(whole_rows, c);
    }
  }
  for (std::int64_t c0 = done; c0 < columns; c0 += kColumns) {
    const std::int64_t c1 = std::min(columns, c0 + kColumns);
    if (from_column > to_row) {
      for (std::int64_t c = c0; c < c1; c += N) {
        for (std::int64_t r = 0; r < rows; r += N) square(r, c);
      }
    } else {
      for (std::int64_t r = 0; r < rows; r += N) {
        for (std::int64_t c = c0; c < c1; c += N) square(r, c);
      }
    }
  }
}

// The same. Where the rows follow one another, they are made in the first cache and copied as one: so `to` is written
// line by line, while squares write 16 bytes of each row.
template <class T>
void transpose_tile(const T* from, std::int64_t from_column, T* to, std::int64_t to_row, std::int64_t rows,
                    std::int64_t columns) {
  constexpr std::int64_t kMost = (32 << 10) / sizeof(T);
  const bool wide = has_wide_squares<T> && cpu_features().isa >= Isa::avx2 && columns >= avx2::kSquare;
  const bool row_by_row = sizeof(T) <= 2 && columns >= Square<T>::N && columns <= 2 * Square<T>::N;
  if (wide || row_by_row || to_row != columns || from_column < to_row || rows * columns > kMost) {
    return transpose(from, from_column, to, to_row, rows, columns);
  }
  alignas(64) T made[kMost];
  transpose(from, from_column, made, columns, rows, columns);
  std::memcpy(to, made, rows * columns * sizeof(T));
}

}  // namespace

void copy_rows(const void* from, std::int64_t from_step, void* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t bytes, std::int64_t times) {
  const auto* const x = static_cast<const std::byte*>(from);
  auto* const y = static_cast<std::byte*>(to);
  if (bytes > 64) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < times; ++k) {
        std::memcpy(y + (r * times + k) * to_step, x + r * from_step, bytes);
      }
    }
    return;
  }
  const auto by = bytes >= 32   ? copy_rows_by<32>
                  : bytes >= 16 ? copy_rows_by<16>
                  : bytes >= 8  ? copy_rows_by<8>
                  : bytes >= 4  ? copy_rows_by<4>
                  : bytes >= 2  ? copy_rows_by<2>
                                : copy_rows_by<1>;
  if (bytes > 0) by(x, from_step, y, to_step, rows, bytes, times);
}

template <class T>
void StridedCopy::copy(const T* from, T* to, std::int64_t tile, std::int64_t begin, std::int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  // The unit of work is a line of the last dim, or a row of tiles of the last two. Lines of neighbours in the last dim
  // but one are copied together.
  const std::int64_t row_tiles = tiled_ ? (dims_[last - 1] + tile - 1) / tile : 1;
  const std::int64_t lines = tiled_ || last == 0 ? 1 : dims_[last - 1];
  const int outer = tiled_ ? last - 1 : last;
  for (std::int64_t unit = begin, count = 1; unit < end; unit += count) {
    if (!tiled_) count = std::min(lines - unit % lines, end - unit);
    std::int64_t rest = unit / row_tiles;
    std::int64_t from_at = 0, to_at = 0;
    for (int d = outer - 1; d >= 0; --d) {
      const std::int64_t x = rest % dims_[d];
      rest /= dims_[d];
      from_at += x * from_[d];
      to_at += x * to_[d];
    }
    if (tiled_) {
      const std::int64_t row = unit % row_tiles * tile, rows = std::min(tile, dims_[last - 1] - row);
      transpose_tile(from + from_at + row, from_[last], to + to_at + row * to_[last - 1], to_[last - 1], rows,
                     dims_[last]);
    } else {
      const std::int64_t from_row = last > 0 ? from_[last - 1] : 0, to_row = last > 0 ? to_[last - 1] : 0;
      if (times_ > 1) {
        constexpr auto size = static_cast<std::int64_t>(sizeof(T));
        copy_rows(from + from_at, from_row * size, to + to_at, dims_[last] * size, count, dims_[last] * size, times_);
        continue;
      }
      copy_lines(from + from_at, from_row, from_[last], to + to_at, to_row, to_[last], count, dims_[last]);
    }
  }
}

// The unit is what a table has: some indices of the last dim.
template <class T>
void StridedCopy::copy_by_table(const T* from, T* to, std::int64_t begin, std::int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  const std::int64_t parts = (dims_[last] + table_rows_ - 1) / table_rows_;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t row = unit % parts * table_rows_, rows = std::min(table_rows_, dims_[last] - row);
    std::int64_t rest = unit / parts, from_at = row * from_[last], to_at = row * to_[last];
    for (int d = last - 1; d >= 0; --d) {
      const std::int64_t x = rest % dims_[d];
      rest /= dims_[d];
      from_at += x * from_[d];
      to_at += x * to_[d];
    }
    const T* const x = from + from_at;
    T* const y = to + to_at;
    const std::int32_t* const table = table_.data();
    const std::int64_t count = rows * row_elements_;
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[table[i]];
  }
}

void StridedCopy::run(const void* from, void* to, const ExecContext& context) const {
  if (std::find(dims_.begin(), dims_.end(), 0) != dims_.end()) return;
  if (!table_.empty()) {
    const std::int64_t parts = (dims_.back() + table_rows_ - 1) / table_rows_;
    dispatch_bytes(element_size_, [&]<class T>(Tag<T>) {
      parallel_for(context, blocks_ * parts, static_cast<std::int64_t>(table_.size()),
                   [&](std::int64_t begin, std::int64_t end) {
                     copy_by_table(static_cast<const T*>(from), static_cast<T*>(to), begin, end);
                   });
    });
    return;
  }
  const std::int64_t last = dims_.back();
  const bool flat = dims_.size() == 1 && from_.back() == 1 && to_.back() == 1;
  if (flat) {  // one long line: split it
    parallel_for(context, last, 1, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(at_element(to, begin, element_size_), at_element(from, begin, element_size_),
                  (end - begin) * element_size_);
    });
    return;
  }
  // A long line several times: a part stays in the first cache until all have it.
  const std::int64_t part = (16 << 10) / static_cast<std::int64_t>(element_size_);
  if (!tiled_ && dims_.size() == 2 && from_[0] == 0 && from_[1] == 1 && to_[1] == 1 && last > part) {
    parallel_for(context, (last + part - 1) / part, part * dims_[0], [&](std::int64_t begin, std::int64_t end) {
      const auto size = static_cast<std::int64_t>(element_size_);
      for (std::int64_t at = begin * part; at < std::min(last, end * part); at += part) {
        copy_rows(at_element(from, at, element_size_), 0, at_element(to, at, element_size_), to_[0] * size, dims_[0],
                  std::min(part, last - at) * size);
      }
    });
    return;
  }
  const auto tiles = [&](std::int64_t tile) { return tiled_ ? (dims_[dims_.size() - 2] + tile - 1) / tile : 1; };
  // Of few columns longer runs: a tile fills half of the first cache.
  const std::int64_t most = (16 << 10) / (last * static_cast<std::int64_t>(element_size_)) / 64 * 64;
  std::int64_t tile = std::max(tile_rows(element_size_), most);
  if (blocks_ * tiles(tile) < 4 * context.team().size()) tile = least_tile_rows(element_size_);
  dispatch_bytes(element_size_, [&]<class T>(Tag<T>) {
    parallel_for(context, blocks_ * tiles(tile), tiled_ ? last * tile : last * times_,
                 [&](std::int64_t begin, std::int64_t end) {
                   copy(static_cast<const T*>(from), static_cast<T*>(to), tile, begin, end);
                 });
  });
}

std::unique_ptr<OpPlan> plan_of_copy(const NodeDesc& node, const StridedCopy& copy) {
  return make_plan(node, [copy](auto in, auto out, const ExecContext& context) -> Result<void> {
    if (in[0] != out[0]) copy.run(in[0], out[0], context);
    return {};
  });
}

std::unique_ptr<OpPlan> plan_of_bytes(const NodeDesc& node, std::int64_t bytes) {
  return make_plan(node, [bytes](auto in, auto out, const ExecContext& context) -> Result<void> {
    if (in[0] == out[0]) return {};
    parallel_for(context, bytes, 1, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(static_cast<char*>(out[0]) + begin, static_cast<const char*>(in[0]) + begin, end - begin);
    });
    return {};
  });
}

}  // namespace convoy::ops
