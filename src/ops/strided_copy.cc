#include "ops/strided_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

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
  const auto along = std::find(from_.begin(), from_.end(), 1);
  if (from_.back() != 1 && from_.back() != 0 && to_.back() == 1 && along != from_.end()) {
    // Bring the dim that is contiguous in `from` next to the last one: the visiting order of blocks is free.
    const std::ptrdiff_t at = along - from_.begin();
    for (Dims* list : {&dims_, &from_, &to_}) std::rotate(list->begin() + at, list->begin() + at + 1, list->end() - 1);
    tiled_ = true;
  }
  for (std::size_t d = 0; d + (tiled_ ? 2 : 1) < dims_.size(); ++d) blocks_ *= dims_[d];
}

namespace {

// Rows of a block of `to` that one cache line of `from` feeds; the tile stays in the first-level cache.
constexpr std::int64_t kTile = 16;

template <class T>
void copy_line(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t count) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, count * sizeof(T));
  } else if (from_step == 0 && to_step == 1) {
    std::fill_n(to, count, *from);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
  }
}

// to[r * to_row + c] = from[r + c * from_column]
template <class T>
void transpose(const T* from, std::int64_t from_column, T* to, std::int64_t to_row, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const std::int64_t r1 = std::min(rows, r0 + kTile);
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const std::int64_t c1 = std::min(columns, c0 + kTile);
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = c0; c < c1; ++c) to[r * to_row + c] = from[r + c * from_column];
      }
    }
  }
}

}  // namespace

template <class T>
void StridedCopy::copy(const T* from, T* to, std::int64_t begin, std::int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  // The unit of work is a line of the last dim, or a row of tiles of the last two.
  const std::int64_t row_tiles = tiled_ ? (dims_[last - 1] + kTile - 1) / kTile : 1;
  const int outer = tiled_ ? last - 1 : last;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t rest = unit / row_tiles;
    std::int64_t from_at = 0, to_at = 0;
    for (int d = outer - 1; d >= 0; --d) {
      const std::int64_t x = rest % dims_[d];
      rest /= dims_[d];
      from_at += x * from_[d];
      to_at += x * to_[d];
    }
    if (tiled_) {
      const std::int64_t row = unit % row_tiles * kTile;
      transpose(from + from_at + row, from_[last], to + to_at + row * to_[last - 1], to_[last - 1],
                std::min(kTile, dims_[last - 1] - row), dims_[last]);
    } else {
      copy_line(from + from_at, from_[last], to + to_at, to_[last], dims_[last]);
    }
  }
}

void StridedCopy::run(const void* from, void* to, const ExecContext& context) const {
  if (std::find(dims_.begin(), dims_.end(), 0) != dims_.end()) return;
  const std::int64_t last = dims_.back();
  const bool flat = dims_.size() == 1 && from_.back() == 1 && to_.back() == 1;
  if (flat) {  // one long line: split it
    parallel_for(context, last, 1, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(at_element(to, begin, element_size_), at_element(from, begin, element_size_),
                  (end - begin) * element_size_);
    });
    return;
  }
  const std::int64_t row_tiles = tiled_ ? (dims_[dims_.size() - 2] + kTile - 1) / kTile : 1;
  dispatch_bytes(element_size_, [&]<class T>(Tag<T>) {
    parallel_for(context, blocks_ * row_tiles, tiled_ ? last * kTile : last, [&](std::int64_t begin, std::int64_t end) {
      copy(static_cast<const T*>(from), static_cast<T*>(to), begin, end);
    });
  });
}

Result<void> check_mappable(const NodeDesc& node, const TensorDesc& y) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 27;
  for (const std::int64_t dim : y.dims) {
    if (dim > kLongest && y.elements() > 0) {
      return Error{ErrorCode::unsupported,
                   fmt::format("{}: the output's dims [{}] are above {}", node.op, to_string(y.dims), kLongest)};
    }
  }
  return {};
}

MappedCopy::MappedCopy(const TensorDesc& x, const TensorDesc& y, FunctionRef<std::int64_t(int d, std::int64_t i)> map)
    : element_size_(size_of(y.type)) {
  if (y.elements() == 0) {
    dims_ = strides_ = {0};
    offsets_ = {{}};
    return;
  }
  std::vector<int> order(y.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return y.strides[a] > y.strides[b]; });
  for (const int d : order) {
    Dims offsets(y.dims[d]);
    for (std::int64_t i = 0; i < y.dims[d]; ++i) {
      const std::int64_t index = map(d, i);
      offsets[i] = index < 0 ? -1 : index * x.strides[d];
    }
    dims_.push_back(y.dims[d]);
    strides_.push_back(y.strides[d]);
    offsets_.push_back(std::move(offsets));
  }
  if (dims_.empty()) {
    dims_ = strides_ = {1};
    offsets_ = {{0}};
  }
  for (std::size_t d = 0; d + 1 < dims_.size(); ++d) rows_ *= dims_[d];
  const Dims& inner = offsets_.back();
  for (std::int64_t i = 0; i < dims_.back(); ++i) {
    if (!runs_.empty()) {
      Run& run = runs_.back();
      const std::int64_t step = inner[i] - inner[i - 1];
      if (run.from < 0 ? inner[i] < 0 : inner[i] >= 0 && (run.count == 1 || step == run.step)) {
        if (run.from >= 0 && run.count == 1) run.step = step;
        ++run.count;
        continue;
      }
    }
    runs_.push_back({i, 1, inner[i], 1});
  }
  if (dims_.back() > 1 && static_cast<std::int64_t>(runs_.size()) * 4 > dims_.back()) runs_.clear();
}

template <class T>
void MappedCopy::copy(const T* x, T* y, T fill, std::int64_t begin, std::int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  for (std::int64_t row = begin; row < end; ++row) {
    std::int64_t rest = row, from = 0, to = 0;
    bool filled = false;
    for (int d = last - 1; d >= 0; --d) {
      const std::int64_t i = rest % dims_[d];
      rest /= dims_[d];
      to += i * strides_[d];
      filled = filled || offsets_[d][i] < 0;
      from += offsets_[d][i];
    }
    T* line = y + to;
    const std::int64_t step = strides_[last];
    if (filled) {
      copy_line(&fill, 0, line, step, dims_[last]);
      continue;
    }
    if (runs_.empty()) {
      const std::int64_t* offsets = offsets_[last].data();
      for (std::int64_t i = 0; i < dims_[last]; ++i) line[i * step] = offsets[i] < 0 ? fill : x[from + offsets[i]];
      continue;
    }
    for (const Run& run : runs_) {
      if (run.from < 0) {
        copy_line(&fill, 0, line + run.begin * step, step, run.count);
      } else {
        copy_line(x + from + run.from, run.step, line + run.begin * step, step, run.count);
      }
    }
  }
}

void MappedCopy::run(const void* x, void* y, const void* fill, const ExecContext& context) const {
  dispatch_bytes(element_size_, [&]<class T>(Tag<T>) {
    T value{};
    if (fill != nullptr) std::memcpy(&value, fill, sizeof(T));
    parallel_for(context, rows_, dims_.back(), [&](std::int64_t begin, std::int64_t end) {
      copy(static_cast<const T*>(x), static_cast<T*>(y), value, begin, end);
    });
  });
}

}  // namespace convoy::ops
