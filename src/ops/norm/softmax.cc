// Softmax, LogSoftmax and Hardmax over one axis (opset 13 on), or over all dims from the axis on (before).
#include <cmath>
#include <vector>

#include "ops/elementwise/elementwise.h"
#include "ops/in_f32.h"
#include "ops/math_types.h"
#include "ops/onednn/onednn_plan.h"
#include "ops/operator_row.h"
#include "ops/reduce/reduce.h"
#include "ops/reductions.h"
#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/short_lines.h"

namespace convoy::ops {
namespace {

enum class Kind { softmax, log_softmax, hardmax };

// The tensor in memory order as [outer][size][inner], normalised over the middle.
struct Fold {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};

template <class T>
void normalize(Kind kind, const T* x, T* y, std::int64_t size, std::int64_t stride) {
  using C = Compute<T>;
  C largest = static_cast<C>(x[0]);
  std::int64_t position = 0;
  for (std::int64_t i = 1; i < size; ++i) {
    const C value = static_cast<C>(x[i * stride]);
    if (value > largest) {
      largest = value;
      position = i;
    }
  }
  if (kind == Kind::hardmax) {
    for (std::int64_t i = 0; i < size; ++i) y[i * stride] = T(i == position ? C(1) : C(0));
    return;
  }
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<C>(x[i * stride]) - largest);
  const C scale = static_cast<C>(1 / sum), shift = largest + static_cast<C>(std::log(sum));
  for (std::int64_t i = 0; i < size; ++i) {
    const C value = static_cast<C>(x[i * stride]);
    y[i * stride] = T(kind == Kind::softmax ? std::exp(value - largest) * scale : value - shift);
  }
}

// One axis, or all from it on, as softmax was defined up to opset 12.
bool one_axis(const NodeDesc& node) { return node.opset >= 13; }

Result<int> axis_of(const NodeDesc& node, int rank) {
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", one_axis(node) ? -1 : 1));
  if (rank == 0 && (axis == 0 || axis == -1)) return 0;
  return normalize_axis(node, axis, rank, "axis", one_axis(node) ? 0 : 1);
}

class Softmax final : public Operator {
 public:
  constexpr explicit Softmax(Kind kind) : kind_(kind) {}

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    if (auto axis = axis_of(node, inputs[0].desc.rank()); !axis.ok()) return axis.error();
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const TensorDesc& x = inputs[0].desc;
    CONVOY_TRY(const int axis, axis_of(node, x.rank()));
    const Fold fold = fold_of(node, x, axis);
    if (fold.size == 1 && kind_ != Kind::hardmax) {
      if (kind_ == Kind::log_softmax) {
        return plan_of_singles(
            node, x, outputs[0], [](const Value& of) { return of - of; }, request);
      }
      return plan_of_singles(
          node, x, outputs[0], [](const Value& of) { return of - of + 1; }, request);
    }
    const bool vectors = has_row_vectors(request) && (x.type == DataType::f32 || contains(kHalves, x.type));
    if (vectors && x.elements() > 0) {
      return dispatch<only(DataType::f32) | kHalves>(x.type, [&]<class T>(Tag<T>) {
        if (is_of_short_lines(fold)) return gathered_plan<T>(node, fold, *reductions(request.cpu.isa));
        if (kind_ == Kind::hardmax) return hardmax_plan<T>(node, fold, *reductions(request.cpu.isa));
        return fold.inner == 1 ? rows_plan<T>(node, fold, row_functions(request.cpu.isa), request.threads)
                               : columns_plan<T>(node, fold, *reductions(request.cpu.isa), request.threads);
      });
    }
    if (kind_ != Kind::hardmax && x.elements() > 0) {
      if (x.type == DataType::f32) {
        if (auto plan = onednn_plan(node, fold, request.threads); plan.ok()) return plan;
      }
      if (contains(kHalves, x.type)) return plan_in_f32(*this, node, inputs, outputs, request);
    }
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) { return loops_plan<T>(node, fold); });
  }

 private:
  static Fold fold_of(const NodeDesc& node, const TensorDesc& x, int axis) {
    Fold fold;
    for (int d = 0; d < x.rank(); ++d) {
      const bool normalized = one_axis(node) ? d == axis : d >= axis;
      const bool outside = one_axis(node) ? x.strides[d] > x.strides[axis] : d < axis;
      (normalized ? fold.size : outside ? fold.outer : fold.inner) *= x.dims[d];
    }
    return fold;
  }

  // Few lines lie beside each other and each is short, or they are rows shorter than a vector, of which Softmax takes
  // several at once as they lie.
  bool is_of_short_lines(const Fold& fold) const {
    constexpr std::int64_t kFew = 16, kShort = 64, kShortRow = 12;
    if (fold.outer < kFew) return false;
    if (fold.inner > 1) return fold.inner < kFew && fold.size <= kShort;
    return kind_ != Kind::softmax && fold.size <= kShortRow;
  }

  template <class T>
  std::unique_ptr<OpPlan> gathered_plan(const NodeDesc& node, const Fold& fold, const Reductions& functions) const {
    const TensorDesc dims = TensorDesc::packed(float_type<T>, {fold.outer, fold.size, fold.inner});
    const TensorDesc first = cut(dims, {false, true, false}, true);
    const BroadcastLoop kept({first, first}), line({cut(dims, {false, true, false}, false)});
    return make_plan(
        node,
        [=, kind = kind_, offsets = offsets_of(line, 0), together = lines_together(kept, sizeof(T))](
            std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
          parallel_for(context, fold.outer, fold.size * fold.inner * 4, [&](std::int64_t begin, std::int64_t end) {
            alignas(64) std::array<T, kShortElements> lines;
            alignas(64) std::array<float, kShortElements> wide;
            const std::int64_t most = lines_at_once(fold.size);
            each_short_lines(kept, begin * fold.inner, end * fold.inner, most, [&](const LineStarts& starts) {
              const std::int64_t n = starts.count;
              const std::span<const std::int64_t> from(starts.of[0].data(), static_cast<std::size_t>(n));
              gather_lines(sizeof(T), in[0], from, together, offsets, lines.data());
              if (kind == Kind::hardmax) {
                functions.positions(true, false, float_type<T>, lines.data(), n, fold.size, wide.data(), n);
                T* const y = static_cast<T*>(out[0]);
                if (fold.inner == 1) {  // the zeros of all rows are one
                  std::fill_n(y + from[0], n * fold.size, T(0));
                  for (std::int64_t i = 0; i < n; ++i) y[from[i] + static_cast<std::int64_t>(wide[i])] = T(1);
                  return;
                }
                write_ones(wide.data(), n, fold.size, lines.data(), n);
              } else {
                functions.softmax(kind == Kind::log_softmax, float_type<T>, lines.data(), n, fold.size, wide.data(),
                                  lines.data(), n);
              }
              scatter_lines(sizeof(T), lines.data(), from, offsets, out[0]);
            });
          });
          return {};
        });
  }

  // 1 where a column's place is, 0 elsewhere.
  template <class T>
  static void write_ones(const float* places, std::int64_t count, std::int64_t size, T* y, std::int64_t step) {
    const T one(1), none(0);
    for (std::int64_t i = 0; i < size; ++i) {
      T* const to = y + i * step;
      const auto here = static_cast<float>(i);
      for (std::int64_t c = 0; c < count; ++c) to[c] = places[c] == here ? one : none;
    }
  }

  template <class T>
  std::unique_ptr<OpPlan> loops_plan(const NodeDesc& node, const Fold& fold) const {
    return make_plan(
        node,
        [kind = kind_, fold](std::span<const void* const> in, std::span<void* const> out,
                             const ExecContext& context) -> Result<void> {
          if (fold.size == 0) return {};
          parallel_for(context, fold.outer * fold.inner, fold.size * 8, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
              const std::int64_t at = i / fold.inner * fold.size * fold.inner + i % fold.inner;
              normalize(kind, static_cast<const T*>(in[0]) + at, static_cast<T*>(out[0]) + at, fold.size, fold.inner);
            }
          });
          return {};
        });
  }

  // The workspace of halves: a row for each thread.
  template <class T>
  std::unique_ptr<OpPlan> rows_plan(const NodeDesc& node, const Fold& fold, const RowFunctions* functions,
                                    int threads) const {
    const std::int64_t row = std::is_same_v<T, float> ? 0 : (fold.size + 15) / 16 * 16;
    return make_plan(
        node,
        [kind = kind_, fold, row, functions](std::span<const void* const> in, std::span<void* const> out,
                                             const ExecContext& context) -> Result<void> {
          const T* x = static_cast<const T*>(in[0]);
          T* y = static_cast<T*>(out[0]);
          parallel_for_thread(context, fold.outer, fold.size * 4,
                              [&](std::int64_t begin, std::int64_t end, int thread) {
                                float* own = static_cast<float*>(context.workspace) + thread * row;
                                const std::int64_t at = begin * fold.size;
                                functions->softmax(kind == Kind::log_softmax, float_type<T>, x + at, own, y + at,
                                                   end - begin, fold.size);
                              });
          return {};
        },
        static_cast<std::size_t>(row * threads) * sizeof(float));
  }

  // A unit of work: as many neighbouring columns as are done at a time, of which each thread keeps what it computed.
  template <class T>
  std::unique_ptr<OpPlan> columns_plan(const NodeDesc& node, const Fold& fold, const Reductions& functions,
                                       int threads) const {
    const std::int64_t width = softmax_columns(fold.size), kept = fold.size * width;
    return make_plan(
        node,
        [=, log = kind_ == Kind::log_softmax](std::span<const void* const> in, std::span<void* const> out,
                                              const ExecContext& context) -> Result<void> {
          each_columns(fold, width, context, [&](std::int64_t at, std::int64_t count, int thread) {
            functions.softmax(log, float_type<T>, static_cast<const T*>(in[0]) + at, fold.inner, fold.size,
                              static_cast<float*>(context.workspace) + thread * kept, static_cast<T*>(out[0]) + at,
                              count);
          });
          return {};
        },
        static_cast<std::size_t>(kept * threads) * sizeof(float));
  }

  template <class T>
  std::unique_ptr<OpPlan> hardmax_plan(const NodeDesc& node, const Fold& fold, const Reductions& functions) const {
    constexpr std::int64_t kWidth = 64;
    if (fold.size >= kMostPositions) return loops_plan<T>(node, fold);
    return make_plan(
        node,
        [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
          if (fold.inner == 1) {
            hardmax_rows(fold, functions, static_cast<const T*>(in[0]), static_cast<T*>(out[0]), context);
            return {};
          }
          each_columns(fold, kWidth, context, [&](std::int64_t at, std::int64_t count, int) {
            const T* const x = static_cast<const T*>(in[0]) + at;
            T* const y = static_cast<T*>(out[0]) + at;
            float places[kWidth];
            functions.positions(true, false, float_type<T>, x, fold.inner, fold.size, places, count);
            write_ones(places, count, fold.size, y, fold.inner);
          });
          return {};
        });
  }

  // Some rows at a time: the zeros of all are one long row. y may be x.
  template <class T>
  static void hardmax_rows(const Fold& fold, const Reductions& functions, const T* x, T* y,
                           const ExecContext& context) {
    constexpr std::int64_t kMostRows = 64, kMostElements = 4096;
    const std::int64_t most = std::clamp<std::int64_t>(kMostElements / fold.size, 1, kMostRows);
    parallel_for(context, fold.outer, fold.size * 4, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t places[kMostRows];
      for (std::int64_t first = begin, n; first < end; first += n) {
        n = std::min(most, end - first);
        for (std::int64_t r = 0; r < n; ++r) {
          places[r] = functions.position(true, false, float_type<T>, x + (first + r) * fold.size, fold.size);
        }
        std::fill_n(y + first * fold.size, n * fold.size, T(0));
        for (std::int64_t r = 0; r < n; ++r) y[(first + r) * fold.size + places[r]] = T(1);
      }
    });
  }

  // body(first element, columns, thread) for all columns, at most `width` neighbours at a time.
  static void each_columns(const Fold& fold, std::int64_t width, const ExecContext& context,
                           FunctionRef<void(std::int64_t at, std::int64_t count, int thread)> body) {
    const std::int64_t units = (fold.inner + width - 1) / width;
    parallel_for_thread(context, fold.outer * units, fold.size * std::min(width, fold.inner) * 4,
                        [&](std::int64_t begin, std::int64_t end, int thread) {
                          for (std::int64_t unit = begin; unit < end; ++unit) {
                            const std::int64_t first = unit % units * width;
                            body(unit / units * fold.size * fold.inner + first, std::min(width, fold.inner - first),
                                 thread);
                          }
                        });
  }

  Result<std::unique_ptr<OpPlan>> onednn_plan(const NodeDesc&, const Fold& fold, int threads) const {
    using onednn::Argument;
    const Dims dims = {fold.outer, fold.size, fold.inner};
    const auto desc = onednn::memory_desc(DataType::f32, dims, {fold.size * fold.inner, fold.inner, 1});
    const bool is_log = kind_ == Kind::log_softmax;
    return onednn::make_plan(
        is_log ? "log_softmax" : "softmax", threads,
        {{DNNL_ARG_SRC, Argument::From::input, 0, desc}, {DNNL_ARG_DST, Argument::From::output, 0, desc}},
        [&](const dnnl::engine& engine, const dnnl::primitive_attr& attributes) {
          return dnnl::softmax_forward::primitive_desc(
              engine, dnnl::prop_kind::forward_inference,
              is_log ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate, desc, desc, 1, attributes);
        });
  }

  Kind kind_;
};

// A constant stays in nchw. Over all dims of an image the order of elements matters to no one but Hardmax, which takes
// the first of equals.
template <bool kOfAll>
Taken layouts_of_softmax(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  const Result<int> axis = axis_of(node, inputs[0].desc.rank());
  const bool apart = axis.ok() && inputs[0].constant == nullptr && (one_axis(node) || (*axis <= 1 && kOfAll));
  return (apart ? layouts::plain : layouts::row_major)(node, inputs, layout);
}

const Softmax op_Softmax(Kind::softmax);
const Softmax op_LogSoftmax(Kind::log_softmax);
const Softmax op_Hardmax(Kind::hardmax);

}  // namespace

std::vector<OperatorRow> softmax_rows() {
  return {{"Softmax", &op_Softmax, images::along_last, Rate::functions, values::mixed, in_place::first,
           layouts_of_softmax<true>, kMathFloats},
          {"LogSoftmax", &op_LogSoftmax, images::along_last, Rate::functions, values::mixed, in_place::first,
           layouts_of_softmax<true>, kMathFloats},
          {"Hardmax", &op_Hardmax, images::along_last, Rate::others, values::mixed, in_place::first,
           layouts_of_softmax<false>, kMathFloats}};
}

}  // namespace convoy::ops
