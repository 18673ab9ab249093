#include "ops/movement/mapped_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/cpu.h"
#include "ops/movement/copy_line.h"
#include "ops/movement/strided_copy.h"

namespace convoy::ops {

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
    if (y.dims[d] == 1 && offsets[0] == 0) continue;
    dims_.push_back(y.dims[d]);
    strides_.push_back(y.strides[d]);
    offsets_.push_back(std::move(offsets));
  }
  if (dims_.empty()) {
    dims_ = strides_ = {1};
    offsets_ = {{0}};
  }
  merge_inner_dims();
  MappedCopy joined = *this;
  joined.join_short_rows();
  joined.find_runs();
  if (joined.find_shuffle()) {
    *this = std::move(joined);
  } else {
    find_runs();
    find_shuffle();
  }
  for (std::size_t d = 0; d + 1 < dims_.size(); ++d) rows_ *= dims_[d];
}

// Short ones only, and where rows are left that threads can share, unless these are so short that one thread is faster.
void MappedCopy::merge_inner_dims() {
  constexpr std::int64_t kMostBytes = 512, kLeastRows = 4, kTinyBytes = 64, kManyRows = 16, kManyBytes = 4096,
                         kLittle = 1 << 17;
  const std::int64_t all =
      std::accumulate(dims_.begin(), dims_.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  const bool is_little = all * static_cast<std::int64_t>(element_size_) <= kLittle;  // one thread is faster
  const auto stays_together = [&] {
    const Dims& inner = offsets_.back();
    for (std::size_t i = 0; i < inner.size(); ++i) {
      if (inner[i] != static_cast<std::int64_t>(i) * group_) return false;
    }
    return true;
  };
  while (dims_.size() > 1) {
    const std::int64_t size = dims_.back() * group_;
    const bool packed = strides_.back() == group_ && strides_[strides_.size() - 2] == size;
    const std::int64_t rows =
        std::accumulate(dims_.begin(), dims_.end() - 2, std::int64_t{1}, std::multiplies<std::int64_t>());
    const std::int64_t bytes = size * static_cast<std::int64_t>(element_size_);
    const std::int64_t most = is_little || rows >= kManyRows ? kManyBytes : rows < kLeastRows ? kTinyBytes : kMostBytes;
    if (!packed || bytes > most || !stays_together()) return;
    group_ = size;
    dims_.pop_back();
    strides_.pop_back();
    offsets_.pop_back();
  }
}

// The same where rows are so short that finding the next one takes as long as moving it: their elements then lie
// anywhere.
void MappedCopy::join_short_rows() {
  constexpr std::int64_t kShortBytes = 256, kMostBytes = 4096, kLeastRows = 4;
  while (dims_.size() > 1) {
    const std::size_t last = dims_.size() - 1;
    const std::int64_t size = dims_[last] * group_, bytes = size * static_cast<std::int64_t>(element_size_);
    const bool packed = strides_[last] == group_ && strides_[last - 1] == size;
    const std::int64_t rows =
        std::accumulate(dims_.begin(), dims_.end() - 2, std::int64_t{1}, std::multiplies<std::int64_t>());
    if (!packed || rows < kLeastRows || bytes > kShortBytes || bytes * dims_[last - 1] > kMostBytes) return;
    Dims offsets;
    for (const std::int64_t row : offsets_[last - 1]) {
      for (const std::int64_t offset : offsets_[last]) offsets.push_back(row < 0 || offset < 0 ? -1 : row + offset);
    }
    dims_[last - 1] *= dims_[last];
    strides_[last - 1] = group_;
    offsets_[last - 1] = std::move(offsets);
    dims_.pop_back();
    strides_.pop_back();
    offsets_.pop_back();
  }
}

void MappedCopy::find_runs() {
  const Dims& inner = offsets_.back();
  fills_some_ = std::ranges::any_of(inner, [](std::int64_t offset) { return offset < 0; });
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
    runs_.push_back({i, 1, inner[i], group_});
  }
  if (dims_.back() > 1 && static_cast<std::int64_t>(runs_.size()) * 4 > dims_.back()) runs_.clear();
  for (const std::int64_t repeat : {2, 4}) {
    bool repeats = strides_.back() == group_ && dims_.back() % repeat == 0;
    for (std::int64_t i = 0; repeats && i < dims_.back(); ++i) repeats = inner[i] == i / repeat * group_;
    if (repeats) repeat_ = repeat;
  }
}

namespace {

// The steps that a block's bytes come from, whose offsets in x are given (-1: none), from the lowest one on.
std::vector<ShuffleStep> steps_of(std::span<const std::int64_t> offsets, std::int64_t end) {
  constexpr std::uint8_t kNone = 0x80;
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  std::vector<ShuffleStep> steps;
  for (std::int64_t done = 0;;) {  // all below it have a step
    std::int64_t lowest = kAll;
    for (const std::int64_t offset : offsets) lowest = offset >= done ? std::min(lowest, offset) : lowest;
    if (lowest == kAll) return steps;
    ShuffleStep step{static_cast<std::int32_t>(std::min(lowest, end - 16)), {}};
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const bool here = offsets[i] >= done && offsets[i] < step.from + 16;
      step.index[i] = here ? static_cast<std::uint8_t>(offsets[i] - step.from) : kNone;
    }
    done = step.from + 16;
    steps.push_back(step);
  }
}

}  // namespace

// Where that takes fewer instructions than the runs, or than an element at a time.
bool MappedCopy::find_shuffle() {
  constexpr std::int64_t kBlock = 16, kMostBytes = 8192;
  const auto size = static_cast<std::int64_t>(element_size_);
  const std::int64_t bytes = dims_.back() * group_ * size;
  if (cpu_features().isa < Isa::avx2 || strides_.back() != group_ || bytes < kBlock || bytes > kMostBytes) return false;
  Dims offsets;  // of bytes
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const std::int64_t offset : offsets_.back()) {
    for (std::int64_t k = 0; k < group_ * size; ++k) offsets.push_back(offset < 0 ? -1 : offset * size + k);
    if (offset < 0) continue;
    begin = std::min(begin, offset * size);
    end = std::max(end, (offset + group_) * size);
  }
  if (end - begin < kBlock || end > std::numeric_limits<std::int32_t>::max()) return false;
  std::vector<std::vector<ShuffleStep>> blocks;
  std::size_t most = 1;
  bool fills = false;
  for (std::int64_t at = 0; at < bytes; at += kBlock) {
    const auto block = std::span(offsets).subspan(static_cast<std::size_t>(std::min(at, bytes - kBlock)), kBlock);
    blocks.push_back(steps_of(block, end));
    most = std::max(most, blocks.back().size());
    fills = fills || std::ranges::find(block, -1) != block.end();
    Sixteen& fill = fills_.emplace_back();
    std::ranges::transform(block, fill.begin(), [](std::int64_t offset) { return offset < 0 ? 0xff : 0; });
  }
  double others = 0;
  for (const Run& run : runs_) {
    const bool moves = run.from < 0 || run.step == group_;
    others += 8 + static_cast<double>(run.count * group_) * (moves ? static_cast<double>(size) / 32 : 1);
  }
  if (runs_.empty()) others = static_cast<double>(2 * dims_.back());
  if (repeat_ != 0) others = static_cast<double>(bytes) / 8;
  const double own = static_cast<double>(blocks.size()) * (1 + static_cast<double>(most) + (fills ? 1 : 0));
  if (most > kMostShuffleSteps || own > others) {
    fills_.clear();
    return false;
  }
  if (!fills) fills_.clear();
  for (std::vector<ShuffleStep>& block : blocks) {
    // Another one that gives nothing, where there is something to read.
    while (block.size() < most) {
      block.push_back({static_cast<std::int32_t>(begin), {}});
      block.back().index.fill(0x80);
    }
    shuffle_.insert(shuffle_.end(), block.begin(), block.end());
  }
  steps_per_block_ = static_cast<int>(most);
  return true;
}

namespace {

// y does not overlap x.
template <std::int64_t kTimes, class T>
void repeat_each(const T* x, T* y, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = x[i];
    for (std::int64_t k = 0; k < kTimes; ++k) y[i * kTimes + k] = value;
  }
}

}  // namespace

template <class T>
void MappedCopy::copy(const T* x, T* y, T fill, std::int64_t begin, std::int64_t end) const {
  const int last = static_cast<int>(dims_.size()) - 1;
  const std::int64_t rows = last > 0 ? dims_[last - 1] : 1;  // that differ in the last index but one
  std::int64_t before = -1;                                  // where the row before this one came from
  const T* made = nullptr;                                   // and what it became
  Sixteen fills;
  for (std::size_t k = 0; k < fills.size(); k += sizeof(T)) std::memcpy(fills.data() + k, &fill, sizeof(T));
  while (begin < end) {
    const std::int64_t first = begin % rows, count = std::min(rows - first, end - begin);
    std::int64_t rest = begin / rows, from = 0, to = 0;
    bool filled = false;
    for (int d = last - 2; d >= 0; --d) {
      const std::int64_t i = rest % dims_[d];
      rest /= dims_[d];
      to += i * strides_[d];
      filled = filled || offsets_[d][i] < 0;
      from += offsets_[d][i];
    }
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::int64_t offset = last > 0 ? offsets_[last - 1][i] : 0;
      T* const line = y + to + (last > 0 ? i * strides_[last - 1] : 0);
      if (filled || offset < 0) {
        fill_groups(line, dims_[last], fill);
      } else if (from + offset == before && strides_[last] == group_) {
        std::memcpy(line, made, dims_[last] * group_ * sizeof(T));
      } else {
        before = from + offset;
        made = line;
        copy_row(x + before, line, fill, fills);
      }
    }
    begin += count;
  }
}

template <class T>
void MappedCopy::copy_row(const T* x, T* line, T fill, const Sixteen& fills) const {
  const std::int64_t count = dims_.back(), step = strides_.back();
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  if (!shuffle_.empty()) {
    return avx2::shuffle_row(reinterpret_cast<const std::byte*>(x), shuffle_.data(), steps_per_block_,
                             fills_.empty() ? nullptr : fills_.data(), fills, reinterpret_cast<std::byte*>(line),
                             count * group_ * size);
  }
  if (repeat_ != 0 && group_ > 1) {
    return copy_rows(x, group_ * size, line, group_ * size, count / repeat_, group_ * size, repeat_);
  }
  if (repeat_ != 0) {
    return repeat_ == 2 ? repeat_each<2>(x, line, count / 2) : repeat_each<4>(x, line, count / 4);
  }
  const std::int64_t* const offsets = offsets_.back().data();
  if (runs_.empty() && group_ > 1) return copy_groups(x, offsets, line, fill);
  if (runs_.empty()) {
    if (step == 1 && !fills_some_) {
      for (std::int64_t i = 0; i < count; ++i) line[i] = x[offsets[i]];
    } else {
      for (std::int64_t i = 0; i < count; ++i) line[i * step] = offsets[i] < 0 ? fill : x[offsets[i]];
    }
    return;
  }
  for (const Run& run : runs_) {
    T* const to = line + run.begin * step;
    if (run.from < 0) {
      fill_groups(to, run.count, fill);
    } else if (run.step == group_ && step == group_) {
      std::memcpy(to, x + run.from, run.count * group_ * sizeof(T));
    } else if (group_ == 1) {
      copy_line(x + run.from, run.step, to, step, run.count);
    } else {
      copy_rows(x + run.from, run.step * size, to, step * size, run.count, group_ * size);
    }
  }
}

// Neighbours that come from the same place are read once.
template <class T>
void MappedCopy::copy_groups(const T* x, const std::int64_t* offsets, T* line, T fill) const {
  constexpr auto size = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t count = dims_.back(), step = strides_.back();
  for (std::int64_t i = 0, next; i < count; i = next) {
    for (next = i + 1; next < count && offsets[next] == offsets[i];) ++next;
    T* const to = line + i * step;
    if (offsets[i] < 0) {
      fill_groups(to, next - i, fill);
    } else {
      copy_rows(x + offsets[i], 0, to, step * size, 1, group_ * size, next - i);
    }
  }
}

template <class T>
void MappedCopy::fill_groups(T* line, std::int64_t count, T fill) const {
  copy_line(&fill, 0, line, group_ > 1 ? 1 : strides_.back(), count * group_);
}

void MappedCopy::run(const void* x, void* y, const void* fill, const ExecContext& context) const {
  dispatch_bytes(element_size_, [&]<class T>(Tag<T>) {
    T value{};
    if (fill != nullptr) std::memcpy(&value, fill, sizeof(T));
    parallel_for(context, rows_, dims_.back() * group_, [&](std::int64_t begin, std::int64_t end) {
      copy(static_cast<const T*>(x), static_cast<T*>(y), value, begin, end);
    });
  });
}

}  // namespace convoy::ops
