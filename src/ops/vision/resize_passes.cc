#include "ops/vision/resize_passes.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "ops/rows.h"

namespace convoy::ops {
namespace {

// `count` elements of x in C: in the buffer, or where they are.
template <class C, class T>
const C* load(bool vectors, const T* x, std::int64_t count, C* buffer) {
  if constexpr (std::is_same_v<T, C>) {
    return x;
  } else if constexpr (std::is_same_v<C, float>) {
    return load_row(vectors, x, 1, count, buffer);
  } else {
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = static_cast<C>(static_cast<Compute<T>>(x[i]));
    return buffer;
  }
}

// Integers are cut off towards zero, after saturation.
template <class T, class C>
void store(bool vectors, const C* x, std::int64_t count, T* y) {
  if constexpr (std::is_integral_v<T>) {
    constexpr C low = static_cast<C>(std::numeric_limits<T>::lowest()),
                high = static_cast<C>(std::numeric_limits<T>::max());
    for (std::int64_t i = 0; i < count; ++i) {
      y[i] = x[i] >= high ? std::numeric_limits<T>::max()
             : x[i] > low ? static_cast<T>(x[i])
                          : std::numeric_limits<T>::lowest();
    }
  } else if constexpr (is_half<T> && std::is_same_v<C, float>) {
    store_row(vectors, x, count, y, 1);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = T(x[i]);
  }
}

// y[i] = a_weight * a[i] + b_weight * b[i]; y may be a.
template <class C>
void weighted_pair(bool vectors, const C* a, C a_weight, const C* b, C b_weight, std::int64_t count, C* y) {
  if constexpr (std::is_same_v<C, float>) {
    if (vectors) return avx2::weighted_pair(a, a_weight, b, b_weight, count, y);
  }
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) y[i] = a_weight * a[i] + b_weight * b[i];
}

}  // namespace

template <class C>
ResizePass<C>::ResizePass(const ResizeTaps& made, std::int64_t outer_count, std::int64_t in_count,
                          std::int64_t out_count, std::int64_t inner_count, double extrapolation_value)
    : outer(outer_count),
      in(in_count),
      out(out_count),
      inner(inner_count),
      taps(made.taps),
      extrapolated(made.extrapolated),
      extrapolation(static_cast<C>(extrapolation_value)) {
  index.resize(taps * out);
  weight.resize(taps * out);
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t t = 0; t < taps; ++t) {
      index[t * out + o] = static_cast<std::int32_t>(made.index[o * taps + t]);
      weight[t * out + o] = static_cast<C>(made.weight[o * taps + t]);
    }
  }
  for (std::int64_t first = 0; first + 8 <= out; first += 8) {
    std::int64_t low = in, high = 0;
    bool pairs = taps == 2;
    for (std::int64_t o = first; pairs && o < first + 8; ++o) pairs = index[out + o] == index[o] + 1;
    for (std::int64_t t = 0; t < taps; ++t) {
      for (std::int64_t o = first; o < first + 8; ++o) {
        low = std::min<std::int64_t>(low, index[t * out + o]);
        high = std::max<std::int64_t>(high, index[t * out + o]);
      }
    }
    low = std::min(low, in - 8);
    const bool near = low >= 0 && high < low + 8;
    base.push_back(near ? static_cast<std::int32_t>(low) : pairs ? avx2::kPairs : avx2::kAnywhere);
  }
}

template <class C>
template <class T>
void ResizePass<C>::combine_line(bool vectors, const T* x, std::int64_t o, C* y) const {
  if (!extrapolated.empty() && extrapolated[o]) {
    std::fill_n(y, inner, extrapolation);
    return;
  }
  const auto tap = [&](std::int64_t t) { return x + index[t * out + o] * inner; };
  const auto factor = [&](std::int64_t t) { return weight[t * out + o]; };
  std::array<C, kRowChunk> first_buffer, second_buffer;
  for (std::int64_t start = 0; start < inner; start += kRowChunk) {
    const std::int64_t n = std::min(kRowChunk, inner - start);
    C* to = y + start;
    const C* a = load<C>(vectors, tap(0) + start, n, first_buffer.data());
    const C first = factor(0);
    if (taps == 1) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = first * a[i];
      continue;
    }
    const C* b = load<C>(vectors, tap(1) + start, n, second_buffer.data());
    weighted_pair(vectors, a, first, b, factor(1), n, to);
    for (std::int64_t t = 2; t < taps; ++t) {
      const C* more = load<C>(vectors, tap(t) + start, n, first_buffer.data());
      weighted_pair(vectors, to, C{1}, more, factor(t), n, to);
    }
  }
}

template <class C>
template <class From, class To>
bool ResizePass<C>::weigh(const RowFunctions* rows, const From* x, std::int64_t first, std::int64_t last, To* y) const {
  if constexpr (std::is_same_v<C, float> && has_row_functions<From> && has_row_functions<To>) {
    if (rows == nullptr || taps != 2 || inner == 1 || !extrapolated.empty()) return false;
    rows->weigh(float_type<From>, x, index.data() + first, weight.data() + first, out, last - first, inner,
                float_type<To>, y);
    return true;
  }
  return false;
}

template <class C>
void ResizePass<C>::expand(bool vectors, const C* x, C* y) const {
  if (inner > 1) {
    for (std::int64_t o = 0; o < out; ++o) combine_line(vectors, x, o, y + o * inner);
    return;
  }
  std::int64_t o = 0;
  if constexpr (std::is_same_v<C, float>) {
    if (vectors) {
      o = out / 8 * 8;
      avx2::weighted_row(x, base.data(), index.data(), weight.data(), taps, out, y);
    }
  }
  for (; o < out; ++o) {
    C sum = 0;
    for (std::int64_t t = 0; t < taps; ++t) sum += weight[t * out + o] * x[index[t * out + o]];
    y[o] = sum;
  }
  for (std::size_t i = 0; i < extrapolated.size(); ++i) {
    if (extrapolated[i]) y[i] = extrapolation;
  }
}

namespace {

// A dim, or several as one. Without taps it stays as it is.
struct Resized {
  std::int64_t in, out;
  ResizeTaps taps;

  bool stays() const { return taps.taps == 0; }
  double scale() const { return static_cast<double>(out) / static_cast<double>(in); }
};

// Two neighbours as one, whose taps are pairs of theirs.
Resized joined(Resized a, Resized b) {
  Resized both{a.in * b.in, a.out * b.out, {}};
  if (a.stays() && b.stays()) return both;
  for (Resized* each : {&a, &b}) {
    if (!each->stays()) continue;
    each->taps.taps = 1;
    each->taps.weight.assign(static_cast<std::size_t>(each->out), 1.0);
    each->taps.index.resize(static_cast<std::size_t>(each->out));
    std::iota(each->taps.index.begin(), each->taps.index.end(), 0);
  }
  both.taps.taps = a.taps.taps * b.taps.taps;
  for (std::int64_t o = 0; o < both.out; ++o) {
    const std::int64_t of_a = o / b.out, of_b = o % b.out;
    const auto is_extrapolated = [](const Resized& each, std::int64_t at) {
      return !each.taps.extrapolated.empty() && each.taps.extrapolated[static_cast<std::size_t>(at)];
    };
    if (is_extrapolated(a, of_a) || is_extrapolated(b, of_b)) {
      both.taps.extrapolated.resize(static_cast<std::size_t>(both.out));
      both.taps.extrapolated[static_cast<std::size_t>(o)] = true;
    }
    for (std::int64_t t = 0; t < both.taps.taps; ++t) {
      const auto tap_a = static_cast<std::size_t>(of_a * a.taps.taps + t / b.taps.taps);
      const auto tap_b = static_cast<std::size_t>(of_b * b.taps.taps + t % b.taps.taps);
      both.taps.index.push_back(a.taps.index[tap_a] * b.in + b.taps.index[tap_b]);
      both.taps.weight.push_back(a.taps.weight[tap_a] * b.taps.weight[tap_b]);
    }
  }
  return both;
}

// Rows of few elements take longer to find than to make.
bool joins(const Resized& a, const Resized& b) {
  constexpr std::int64_t kFew = 8, kMostTaps = 4, kMost = 4096;
  const std::int64_t taps = std::max<std::int64_t>(a.taps.taps, 1) * std::max<std::int64_t>(b.taps.taps, 1);
  return b.out < kFew && taps <= kMostTaps && a.in * b.in <= kMost && a.out * b.out <= kMost;
}

}  // namespace

template <class C>
ResizePasses<C>::ResizePasses(const ResizeMethod& method, const std::vector<ResizeAxis>& axes, DataType type,
                              int threads)
    : type_(type), elements_(1), threads_(threads) {
  std::vector<Resized> dims;
  for (const ResizeAxis& axis : axes) {
    dims.push_back({axis.in, axis.out, axis.is_identity(method) ? ResizeTaps() : resize_taps(method, axis)});
    elements_ *= axis.in;
  }
  while (dims.size() > 1 && joins(dims[dims.size() - 2], dims.back())) {
    Resized last = std::move(dims.back());
    dims.pop_back();
    dims.back() = joined(std::move(dims.back()), std::move(last));
  }
  std::vector<std::size_t> order;
  Dims sizes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].stays()) order.push_back(i);
    sizes.push_back(dims[i].in);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return dims[i].scale(); });
  for (const std::size_t i : order) {
    std::int64_t outer = 1, inner = 1;
    for (std::size_t k = 0; k < i; ++k) outer *= sizes[k];
    for (std::size_t k = i + 1; k < sizes.size(); ++k) inner *= sizes[k];
    passes_.emplace_back(dims[i].taps, outer, dims[i].in, dims[i].out, inner, method.extrapolation);
    sizes[i] = dims[i].out;
  }
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    const ResizePass<C>& pass = passes_[i];
    const bool fused = i + 1 < passes_.size() && passes_[i + 1].outer == pass.outer * pass.out &&
                       passes_[i + 1].in * passes_[i + 1].inner == pass.inner;
    steps_.push_back({i, fused ? i + 1 : i});
    row_ = std::max({row_, pass.inner, pass.inner == 1 ? std::max(pass.in, pass.out) : 0});
    if (fused) ++i;
    const ResizePass<C>& last = passes_[i];
    if (fused) row_ = std::max(row_, last.out * last.inner);
    if (i + 1 < passes_.size()) between_ = std::max(between_, last.outer * last.out * last.inner);
  }
  between_ = (between_ + 15) / 16 * 16;
  row_ = (row_ + 15) / 16 * 16;
}

template <class C>
std::size_t ResizePasses<C>::workspace_bytes() const {
  return static_cast<std::size_t>(2 * between_ + 2 * row_ * threads_) * sizeof(C);
}

template <class C>
template <class From, class To>
void ResizePasses<C>::run(const Step& step, const RowFunctions* functions, const From* x, To* y,
                          const ExecContext& context, C* rows) const {
  const bool vectors = functions != nullptr;
  const ResizePass<C>&first = passes_[step.first], &second = passes_[step.second];
  const bool fused = step.first != step.second, lines = !fused && first.inner == 1;
  const std::int64_t units = lines ? first.outer : first.outer * first.out;
  const std::int64_t length = lines   ? first.out
                              : fused ? second.out * second.inner
                                      : first.inner;  // of what is written
  parallel_for_thread(context, units, length * first.taps, [&](std::int64_t begin, std::int64_t end, int thread) {
    C* row = rows + 2 * row_ * thread;
    C* result = row + row_;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      To* to = y + unit * length;
      C* made = result;
      if constexpr (std::is_same_v<To, C>) made = to;
      const std::int64_t o = unit % first.out;
      const From* const lines_at = x + unit / first.out * first.in * first.inner;
      if (fused) {
        if (!first.weigh(functions, lines_at, o, o + 1, row)) first.combine(vectors, x, unit, row);
        if (second.weigh(functions, row, 0, second.out, to)) continue;
        second.expand(vectors, row, made);
      } else if (lines) {
        const From* line = x + unit * first.in;
        const C* loaded = row;
        if constexpr (std::is_same_v<From, C>) {
          loaded = line;
        } else {
          for (std::int64_t i = 0; i < first.in; i += kRowChunk) {
            load<C>(vectors, line + i, std::min(kRowChunk, first.in - i), row + i);
          }
        }
        first.expand(vectors, loaded, made);
      } else {
        if (first.weigh(functions, lines_at, o, o + 1, to)) continue;
        first.combine(vectors, x, unit, made);
      }
      if constexpr (!std::is_same_v<To, C>) store(vectors, made, length, to);
    }
  });
}

template <class C>
void ResizePasses<C>::run(const RowFunctions* functions, const void* x, void* y, const ExecContext& context) const {
  if (steps_.empty()) {
    std::memcpy(y, x, elements_ * size_of(type_));
    return;
  }
  C* spare[2] = {static_cast<C*>(context.workspace), static_cast<C*>(context.workspace) + between_};
  C* rows = spare[1] + between_;
  constexpr TypeSet kTypes = std::is_same_v<C, float> ? kResizedInF32 : kResizedInF64;
  dispatch<kTypes>(type_, [&]<class T>(Tag<T>) {
    const std::size_t last = steps_.size() - 1;
    for (std::size_t i = 0; i <= last; ++i) {
      const C* from = spare[(i + 1) % 2];
      const T* first = static_cast<const T*>(x);
      T* result = static_cast<T*>(y);
      if (i == 0 && i == last) {
        run(steps_[i], functions, first, result, context, rows);
      } else if (i == 0) {
        run(steps_[i], functions, first, spare[0], context, rows);
      } else if (i == last) {
        run(steps_[i], functions, from, result, context, rows);
      } else {
        run(steps_[i], functions, from, spare[i % 2], context, rows);
      }
    }
  });
}

template class ResizePasses<float>;
template class ResizePasses<double>;

}  // namespace convoy::ops
