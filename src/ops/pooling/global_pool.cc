// GlobalAveragePool, GlobalMaxPool and GlobalLpPool: all spatial dims become one.
#include <array>
#include <cmath>
#include <limits>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/pooling/plane_pool.h"
#include "ops/reduce/folds.h"
#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

enum class Kind { average, max, lp };

// A NaN wins, as ONNX's reference has it (of MaxPool it hasn't).
template <class C>
C larger(C a, C b) {
  return b > a || b != b ? b : a;
}

template <Kind kKind, class C>
C step(C acc, C value, C p) {
  if constexpr (kKind == Kind::average) return acc + value;
  if constexpr (kKind == Kind::max) return larger(acc, value);
  if constexpr (kKind == Kind::lp) return acc + (p == 2 ? value * value : std::pow(std::abs(value), p));
}

template <Kind kKind, class C>
C join(C a, C b) {
  if constexpr (kKind == Kind::max) return larger(a, b);
  return a + b;
}

template <Kind kKind, class C>
C finish(C acc, std::int64_t count, C p) {
  if constexpr (kKind == Kind::average) return acc / static_cast<C>(count);
  if constexpr (kKind == Kind::max) return acc;
  if constexpr (kKind == Kind::lp) return p == 2 ? std::sqrt(acc) : std::pow(acc, 1 / p);
}

template <class T>
struct Planes {
  const T* x;
  T* y;
  std::int64_t batch, channels, area;
  Compute<T> p;
  const RowFunctions* rows;  // null: there are none
};

// Planes are contiguous: the rows of a matrix, folded as ReduceMean and its kin do.
struct PlaneFolds {
  FoldLoops loops;  // none: another p than 1 and 2
  Finish finish = Finish::as_it_is;
};

PlaneFolds plane_folds(Kind kind, std::int64_t p, DataType type, Isa isa) {
  if (kind == Kind::average) return {fold_loops(isa, Fold::sum, type), Finish::mean};
  if (kind == Kind::max) return {fold_loops(isa, Fold::largest, type)};
  if (p == 2) return {fold_loops(isa, Fold::squares, type), Finish::root};
  return p == 1 ? PlaneFolds{fold_loops(isa, Fold::magnitudes, type)} : PlaneFolds{};
}

template <Kind kKind, class T>
void reduce_planes(const Planes<T>& planes, const PlaneFolds& folds, const ExecContext& context) {
  using C = Compute<T>;
  parallel_for(context, planes.batch * planes.channels, planes.area, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kChunk = 256;
    std::array<double, kChunk> sums;
    for (std::int64_t first = begin; first < end; first += kChunk) {
      const std::int64_t count = std::min(kChunk, end - first);
      const T* const x = planes.x + first * planes.area;
      if (folds.loops) {
        folds.loops.start(sums.data(), count);
        folds.loops.rows(x, planes.area, count, planes.area, sums.data());
        folds.loops.finish(folds.finish, sums.data(), count, planes.area, planes.y + first);
        continue;
      }
      for (std::int64_t plane = 0; plane < count; ++plane) {
        C sum(0);
        for (std::int64_t i = 0; i < planes.area; ++i) {
          sum = step<kKind>(sum, static_cast<C>(x[plane * planes.area + i]), planes.p);
        }
        planes.y[first + plane] = T(finish<kKind>(sum, planes.area, planes.p));
      }
    }
  });
}

// What `rows` neighbouring rows of all channels come to, each channel for itself. Four rows of accumulators: sums over
// large areas keep their accuracy.
template <Kind kKind, class T>
void reduce_rows(const Planes<T>& planes, const T* x, std::int64_t rows, Compute<T>* to) {
  using C = Compute<T>;
  const C start = kKind == Kind::max ? -std::numeric_limits<C>::infinity() : C(0);
  C acc[4][kRowChunk];
  RowBuffer buffer;
  for (std::int64_t c0 = 0; c0 < planes.channels; c0 += kRowChunk) {
    const std::int64_t lanes = std::min(kRowChunk, planes.channels - c0);
    for (auto& row : acc) std::fill_n(row, lanes, start);
    std::int64_t i = 0;
    if constexpr (kKind == Kind::average && has_row_functions<T>) {
      constexpr std::int64_t kRows = 64;  // whose sum is made before it is added
      for (; planes.rows != nullptr && i < rows; i += kRows) {
        planes.rows->accumulate(float_type<T>, x + i * planes.channels + c0, planes.channels, std::min(kRows, rows - i),
                                acc[i / kRows % 4], lanes);
      }
    }
    for (; i < rows; ++i) {
      C* row = acc[i % 4];
      const C* values = computed(planes.rows != nullptr, x + i * planes.channels + c0, lanes, buffer);
#pragma GCC ivdep
      for (std::int64_t lane = 0; lane < lanes; ++lane) row[lane] = step<kKind>(row[lane], values[lane], planes.p);
    }
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      to[c0 + lane] = join<kKind>(join<kKind>(acc[0][lane], acc[1][lane]), join<kKind>(acc[2][lane], acc[3][lane]));
    }
  }
}

// So many parts of an image are reduced by themselves.
std::int64_t parts_of(std::int64_t batch, std::int64_t area, std::int64_t threads) {
  return batch >= threads ? 1 : std::max<std::int64_t>(1, std::min(threads, area));
}

// Channels are innermost. Threads share the rows, as the step before did that wrote them: each finds its part in its
// own core's cache, and does not take the other's away, who writes it next. (Where they shared the channels, the
// product behind the pool of a squeeze-and-excite block took longer on two threads than on one.)
template <Kind kKind, class T>
void reduce_channels(const Planes<T>& planes, const ExecContext& context) {
  using C = Compute<T>;
  auto* const sums = static_cast<C*>(context.workspace);
  const std::int64_t parts = parts_of(planes.batch, planes.area, context.team().size());
  const std::int64_t work = planes.area / parts * planes.channels;
  parallel_for(context, planes.batch * parts, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t n = unit / parts, part = unit % parts;
      const std::int64_t first = planes.area * part / parts, last = planes.area * (part + 1) / parts;
      reduce_rows<kKind>(planes, planes.x + (n * planes.area + first) * planes.channels, last - first,
                         sums + unit * planes.channels);
    }
  });
  for (std::int64_t n = 0; n < planes.batch; ++n) {
    C* const first = sums + n * parts * planes.channels;
    for (std::int64_t part = 1; part < parts; ++part) {
      const C* more = first + part * planes.channels;
      for (std::int64_t c = 0; c < planes.channels; ++c) first[c] = join<kKind>(first[c], more[c]);
    }
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      planes.y[n * planes.channels + c] = T(finish<kKind>(first[c], planes.area, planes.p));
    }
  }
}

template <Kind kKind>
class GlobalPool final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    Dims dims = inputs[0].desc.dims;
    if (dims.size() < 2) return bad_node(node, "input 0 has dims [" + to_string(dims) + "]; rank 2 or more is needed");
    std::fill(dims.begin() + 2, dims.end(), 1);
    if (inputs[0].desc.elements() == 0 && dims[0] * dims[1] != 0) {
      return bad_node(node, "input 0 has dims [" + to_string(inputs[0].desc.dims) + "]: nothing to pool");
    }
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    if (p < 1) return bad_node(node, "p=" + std::to_string(p) + " must be positive");
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    const TensorDesc& x = inputs[0].desc;
    const std::int64_t batch = x.dims[0], channels = x.dims[1];
    const std::int64_t images = outputs[0].elements();
    const std::int64_t area = images == 0 ? 0 : x.elements() / images;
    const RowFunctions* const rows = row_functions(request.cpu.isa);
    const PlaneFolds folds = plane_folds(kKind, p, x.type, request.cpu.isa);
    const bool channels_last = x.rank() > 2 && !x.is_packed(Layout::nchw);
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      const std::int64_t sums = channels_last ? batch * parts_of(batch, area, request.threads) * channels : 0;
      const auto run = [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        const Planes<T> planes{static_cast<const T*>(in[0]),
                               static_cast<T*>(out[0]),
                               batch,
                               channels,
                               area,
                               static_cast<Compute<T>>(p),
                               rows};
        channels_last ? reduce_channels<kKind>(planes, context) : reduce_planes<kKind>(planes, folds, context);
        return {};
      };
      return make_plan(node, run, static_cast<std::size_t>(sums) * sizeof(Compute<T>));
    });
  }
};

const GlobalPool<Kind::average> global_average_pool;
const GlobalPool<Kind::max> global_max_pool;
const GlobalPool<Kind::lp> global_lp_pool;

}  // namespace

std::unique_ptr<OpPlan> average_of_planes(const NodeDesc& node, const TensorDesc& x, const PlanRequest& request) {
  const PlaneFolds folds = plane_folds(Kind::average, 1, x.type, request.cpu.isa);
  const std::int64_t batch = x.dims[0], channels = x.dims[1], area = x.elements() / (batch * channels);
  return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
    return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
      const Planes<T> planes{static_cast<const T*>(in[0]), static_cast<T*>(out[0]), batch, channels, area, 1, nullptr};
      reduce_planes<Kind::average>(planes, folds, context);
      return {};
    });
  });
}

std::vector<OperatorRow> global_pool_rows() {
  return {{"GlobalAveragePool", &global_average_pool, images::each_alone, Rate::reductions, values::mixed,
           in_place::never, layouts::channels_alike, kMathFloats},
          {"GlobalMaxPool", &global_max_pool, images::each_alone, Rate::reductions, values::mixed, in_place::never,
           layouts::channels_alike, kMathFloats},
          {"GlobalLpPool", &global_lp_pool, images::each_alone, Rate::reductions, values::mixed, in_place::never,
           layouts::channels_alike, kMathFloats}};
}

}  // namespace convoy::ops
