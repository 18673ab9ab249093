#define CONVOY_PORTABLE
#include "ops/reduce/folds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/from_real.h"
#include "ops/movement/strided_copy.h"
#include "ops/reduce/fold_kernels.inc"

namespace convoy::ops {
namespace {

// What numbers of T are folded in.
template <class T, bool kReal>
using FoldOf = std::conditional_t<kReal || is_float_element<T>, double,
                                  std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

double finished(Finish finish, double fold, std::int64_t terms) {
  switch (finish) {
    case Finish::mean:
      return fold / static_cast<double>(terms);
    case Finish::root:
      return std::sqrt(fold);
    case Finish::logarithm:
      return std::log(fold);
    case Finish::as_it_is:
      return fold;
  }
  return fold;
}

template <class T, class A>
void finish_plain(Finish finish, const void* folds, std::int64_t count, std::int64_t terms, void* y) {
  using Whole = FoldOf<T, false>;
  for (std::int64_t i = 0; i < count; ++i) {
    const A fold = static_cast<const A*>(folds)[i];
    T& to = static_cast<T*>(y)[i];
    if constexpr (is_float_element<T>) {
      to = static_cast<T>(finished(finish, fold, terms));
    } else if (std::is_same_v<A, double> || finish == Finish::logarithm) {
      to = static_cast<T>(from_real<Whole>(finished(finish, static_cast<double>(fold), terms)));
    } else if (finish == Finish::mean) {
      to = static_cast<T>(terms == 0 ? A{} : static_cast<A>(fold / static_cast<A>(terms)));
    } else {
      to = static_cast<T>(fold);
    }
  }
}

template <class A, class Op>
void join_folds(const void* others, std::int64_t count, void* folds) {
  auto* const made = static_cast<A*>(folds);
  for (std::int64_t i = 0; i < count; ++i) made[i] = Op::join(made[i], static_cast<const A*>(others)[i]);
}

void join_logarithms(const void* others, std::int64_t count, void* folds) {
  auto* const made = static_cast<double*>(folds);
  for (std::int64_t i = 0; i < count; ++i) {
    made[i] = portable::join_exponentials(made[i], static_cast<const double*>(others)[i]);
  }
}

// What elements are folded as.
DataType folded_as(Isa isa, Fold fold, DataType type, bool real) {
  if (contains(kMathFloats, type)) return isa >= Isa::avx2 ? type : DataType::f64;
  if (real || fold == Fold::exponentials) return DataType::f64;
  if (fold == Fold::largest || fold == Fold::smallest) return type;
  if (type == DataType::s32 || type == DataType::u32) return type;
  return size_of(type) < sizeof(std::int32_t) ? DataType::s32 : DataType::s64;
}

// Few columns whose rows follow one another: of some rows as one there are more.
void fold_columns(const FoldLoops& loops, std::size_t element_size, const void* x, std::int64_t step, std::int64_t size,
                  std::int64_t count, void* folds) {
  constexpr std::int64_t kWide = 256, kFew = 16, kLeast = 4;
  if (step != count || count >= kFew || count == 0) return loops.columns(x, step, size, count, folds);
  const std::int64_t times = kWide / count, rows = size / times;
  if (rows < kLeast) return loops.columns(x, step, size, count, folds);
  alignas(64) std::array<double, kWide> wide;
  loops.start(wide.data(), times * count);
  loops.columns(x, times * count, rows, times * count, wide.data());
  for (std::int64_t t = 0; t < times; ++t) loops.join(wide.data() + t * count, count, folds);
  const std::int64_t done = rows * times;
  loops.columns(at_element(x, done * count, element_size), step, size - done, count, folds);
}

}  // namespace

FoldLoops::FoldLoops(Isa isa, Fold fold, DataType type, bool real) : size_(size_of(type)) {
  const DataType folded = folded_as(isa, fold, type, real);
  // Numbers without a sign are magnitudes.
  const bool is_sum = fold == Fold::magnitudes && !contains(kSignedIntegers | kFloats, type);
  kernels_ = (isa >= Isa::avx512 ? avx512::fold_kernels
              : isa >= Isa::avx2 ? avx2::fold_kernels
                                 : portable::fold_kernels)(is_sum ? Fold::sum : fold, type, folded);
  // Each part's logarithm is joined: they are large.
  constexpr std::int64_t kNear = 8 << 10;
  together_ = fold == Fold::exponentials ? kMostWide : kNear / static_cast<std::int64_t>(size_of(folded));
  dispatch<kMathNumeric | only(DataType::boolean)>(type, [&]<class T>(Tag<T>) {
    const auto in = [&]<class A>(Tag<A>) {
      A none{};
      if constexpr (std::is_same_v<A, double>) {  // of logarithms
        none = -std::numeric_limits<double>::infinity();
        join_ = join_logarithms;
      }
      portable::with_fold(fold, [&]<class Op>(Tag<Op>) {
        none = portable::none_of<Op, T, A>();
        join_ = join_folds<A, Op>;
      });
      std::memcpy(none_.data(), &none, sizeof(none));
      if (kernels_.finish == nullptr) kernels_.finish = finish_plain<T, A>;
    };
    real || fold == Fold::exponentials ? in(Tag<FoldOf<T, true>>()) : in(Tag<FoldOf<T, false>>());
  });
}

void FoldLoops::start(void* folds, std::int64_t count) const {
  const auto none = none_;
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(at_element(folds, i, sizeof(none)), none.data(), sizeof(none));
}

void FoldLoops::rows(const void* x, std::int64_t step, std::int64_t rows, std::int64_t count, void* folds) const {
  if (kernels_.widen == nullptr || count == 0) return kernels_.rows(x, step, rows, count, folds);
  alignas(64) std::array<double, kMostWide> wide;
  const std::int64_t some = std::max<std::int64_t>(1, together_ / count);
  for (std::int64_t r = 0; r < rows; r += some) {
    const std::int64_t n = std::min(some, rows - r);
    for (std::int64_t i = 0; i < count; i += together_) {
      const std::int64_t part = std::min(together_, count - i);
      kernels_.widen(at_element(x, r * step + i, size_), step, n, part, wide.data());
      kernels_.rows(wide.data(), part, n, part, at_element(folds, r, sizeof(double)));
    }
  }
}

void FoldLoops::columns(const void* x, std::int64_t step, std::int64_t size, std::int64_t count, void* folds) const {
  if (kernels_.widen == nullptr || count == 0) return kernels_.columns(x, step, size, count, folds);
  constexpr std::int64_t kColumns = 64;
  alignas(64) std::array<double, kMostWide> wide;
  const std::int64_t some = together_ / std::min(count, kColumns);
  for (std::int64_t r = 0; r < size; r += some) {
    const std::int64_t n = std::min(some, size - r);
    for (std::int64_t c = 0; c < count; c += kColumns) {
      const std::int64_t part = std::min(kColumns, count - c);
      kernels_.widen(at_element(x, r * step + c, size_), step, n, part, wide.data());
      kernels_.columns(wide.data(), part, n, part, at_element(folds, c, sizeof(double)));
    }
  }
}

void take_in(const FoldLoops& loops, const BroadcastLoop& reduced, DataType type, const void* x, std::int64_t step,
             std::int64_t count, void* folds) {
  const std::size_t size = size_of(type);
  const std::int64_t stride = reduced.inner_stride(0);
  reduced.run(0, reduced.elements(), [&](const std::int64_t* at, std::int64_t run) {
    const void* const first = at_element(x, at[0], size);
    if (stride == 1) return loops.rows(first, step, count, run, folds);
    if (step == 1) return fold_columns(loops, size, first, stride, run, count, folds);
    for (std::int64_t i = 0; i < count; ++i) {
      loops.columns(at_element(first, i * step, size), stride, run, 1, at_element(folds, i, sizeof(double)));
    }
  });
}

}  // namespace convoy::ops
