#define CONVOY_PORTABLE
#include "ops/reduce/folds.h"

#include <array>
#include <cmath>

#include "ops/from_real.h"
#include "ops/movement/strided_copy.h"
#include "ops/reduce/folds.inc"

namespace convoy::ops {
namespace {

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
  using Whole = portable::FoldOf<T, false>;
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

template <class T, class A>
void set_ends(Fold fold, FoldLoops& loops) {
  loops.finish = finish_plain<T, A>;
  loops.start = [](void* folds, std::int64_t count) {
    std::fill_n(static_cast<double*>(folds), count, -std::numeric_limits<double>::infinity());
  };
  loops.join = [](const void* others, std::int64_t count, void* folds) {
    auto* const made = static_cast<double*>(folds);
    for (std::int64_t i = 0; i < count; ++i) {
      made[i] = portable::join_exponentials(made[i], static_cast<const double*>(others)[i]);
    }
  };
  portable::with_fold(fold, [&]<class Op>(Tag<Op>) {
    loops.start = [](void* folds, std::int64_t count) {
      std::fill_n(static_cast<A*>(folds), count, portable::none_of<Op, T, A>());
    };
    loops.join = [](const void* others, std::int64_t count, void* folds) {
      auto* const made = static_cast<A*>(folds);
      for (std::int64_t i = 0; i < count; ++i) made[i] = Op::join(made[i], static_cast<const A*>(others)[i]);
    };
  });
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

FoldLoops fold_loops(Isa isa, Fold fold, DataType type, bool real) {
  FoldLoops loops{};
  dispatch<kMathNumeric | only(DataType::boolean)>(type, [&]<class T>(Tag<T>) {
    real ? set_ends<T, portable::FoldOf<T, true>>(fold, loops) : set_ends<T, portable::FoldOf<T, false>>(fold, loops);
    portable::set_plain<T>(fold, real, loops);
  });
  if (isa >= Isa::avx512) {
    avx512::set_fold_loops(fold, type, real, loops);
  } else if (isa >= Isa::avx2) {
    avx2::set_fold_loops(fold, type, real, loops);
  }
  return loops;
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
