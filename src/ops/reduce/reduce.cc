// ReduceSum and its kin.
#include "ops/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "ops/elementwise/elementwise.h"
#include "ops/math_types.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/reduce/folds.h"
#include "ops/short_lines.h"

namespace convoy::ops {

TensorDesc cut(TensorDesc desc, const std::vector<bool>& reduced, bool keep) {
  for (int d = 0; d < desc.rank(); ++d) {
    if (reduced[d] == keep) desc.dims[d] = 1;
  }
  return desc;
}

TensorDesc with_reduced_dims(const TensorDesc& output, const std::vector<bool>& reduced) {
  if (output.dims.size() == reduced.size()) return output;
  TensorDesc desc = output;
  desc.dims.clear();
  desc.strides.clear();
  for (std::size_t d = 0, at = 0; d < reduced.size(); ++d) {
    desc.dims.push_back(reduced[d] ? 1 : output.dims[at]);
    desc.strides.push_back(reduced[d] ? 0 : output.strides[at]);
    at += reduced[d] ? 0 : 1;
  }
  return desc;
}

ReduceLoops::ReduceLoops(const TensorDesc& output, const TensorDesc& input, const std::vector<bool>& reduced)
    : kept({with_reduced_dims(output, reduced), cut(input, reduced, true)}), reduced({cut(input, reduced, false)}) {}

Result<std::vector<bool>> reduced_axes(const NodeDesc& node, std::span<const Input> inputs, bool axes_are_input) {
  const int rank = inputs[0].desc.rank();
  std::vector<std::int64_t> axes;
  if (axes_are_input) {
    if (is_present(inputs, 1)) {
      CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
      CONVOY_TRY(axes, constant_integers(node, inputs, 1));
    }
  } else {
    CONVOY_TRY(axes, node.integers("axes", {}));
  }
  if (axes.empty()) {
    CONVOY_TRY(const std::int64_t noop, node.integer("noop_with_empty_axes", 0));
    return std::vector<bool>(rank, noop == 0);
  }
  CONVOY_TRY(const std::vector<int> normalized, normalize_axes(node, axes, rank));
  std::vector<bool> reduced(rank, false);
  for (const int axis : normalized) reduced[axis] = true;
  return reduced;
}

bool keeps_single_elements(const NodeDesc& node) {
  static constexpr std::string_view kCompute[] = {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"};
  return std::ranges::find(kCompute, node.op) == std::end(kCompute);
}

Dims reduced_dims(const Dims& dims, const std::vector<bool>& reduced, bool keep_dims) {
  Dims result;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!reduced[d]) result.push_back(dims[d]);
    if (reduced[d] && keep_dims) result.push_back(1);
  }
  return result;
}

namespace {

// What a reduction folds, in f64 of integers, too, where it is `real`, and what its result is.
struct Reduction {
  Fold fold;
  Finish finish = Finish::as_it_is;
  bool real = false;
};

struct Reducer {
  ReduceLoops loops;
  FoldLoops folds;
  Finish finish;
  DataType type;
  std::vector<std::int64_t> line;  // where a line's elements lie, where short lines are gathered; else none

  // y, from `at` on in steps, is what the folds of `count` lines finally are.
  void write(const void* made, std::int64_t count, void* y, std::int64_t step) const {
    const std::int64_t terms = loops.reduced.elements();
    if (step == 1) return folds.finish(finish, made, count, terms, y);
    alignas(64) std::array<std::byte, kChunk * sizeof(double)> results;
    folds.finish(finish, made, count, terms, results.data());
    const auto bytes = static_cast<std::int64_t>(size_of(type));
    copy_rows(results.data(), bytes, y, step * bytes, count, bytes);
  }

  void run(const void* x, void* y, std::int64_t begin, std::int64_t end) const {
    const std::size_t size = size_of(type);
    const std::int64_t to_stride = loops.kept.inner_stride(0), from_stride = loops.kept.inner_stride(1);
    const std::int64_t terms = loops.reduced.elements(), row = loops.reduced.inner_stride(0);
    const bool in_one = folds.has_whole_columns() && loops.reduced.inner_size() == terms && row != 1 &&
                        from_stride == 1 && to_stride == 1;
    alignas(64) std::array<std::byte, kChunk * sizeof(double)> memory;
    loops.kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
      if (in_one &&
          folds.whole_columns(finish, at_element(x, at[1], size), row, terms, count, at_element(y, at[0], size))) {
        return;
      }
      for (std::int64_t start = 0; start < count; start += kChunk) {
        const std::int64_t n = std::min(kChunk, count - start);
        folds.start(memory.data(), n);
        take_in(folds, loops.reduced, type, at_element(x, at[1] + start * from_stride, size), from_stride, n,
                memory.data());
        write(memory.data(), n, at_element(y, at[0] + start * to_stride, size), to_stride);
      }
    });
  }

  void run_gathered(const void* x, void* y, std::int64_t begin, std::int64_t end) const {
    static constexpr std::int64_t kFirst = 0;
    const std::size_t size = size_of(type);
    const auto terms = static_cast<std::int64_t>(line.size()), part = std::min(terms, kLongestShort);
    const std::int64_t together = lines_together(loops.kept, size);
    alignas(64) std::array<std::byte, kShortElements * sizeof(double)> lines;
    alignas(64) std::array<std::byte, kShortLines * sizeof(double)> made, results;
    each_short_lines(loops.kept, begin, end, lines_at_once(part), [&](const LineStarts& starts) {
      const std::int64_t n = starts.count;
      folds.start(made.data(), n);
      for (std::int64_t first = 0; first < terms; first += part) {
        const auto some = std::span(line).subspan(static_cast<std::size_t>(first));
        const std::int64_t taken = std::min(part, terms - first);
        gather_lines(size, x, {starts.of[1].data(), static_cast<std::size_t>(n)}, together,
                     some.first(static_cast<std::size_t>(taken)), lines.data());
        folds.columns(lines.data(), n, taken, n, made.data());
      }
      if (starts.are_neighbours(0)) return write(made.data(), n, at_element(y, starts.of[0][0], size), 1);
      folds.finish(finish, made.data(), n, terms, results.data());
      scatter_lines(size, results.data(), {starts.of[0].data(), static_cast<std::size_t>(n)}, {&kFirst, 1}, y);
    });
  }

 private:
  static constexpr std::int64_t kChunk = 1024;
};

// Whether lines are found sooner one by one: few lie beside each other, and each is short or in several pieces. Of
// exponentials each piece takes a logarithm.
bool is_of_short_lines(const ReduceLoops& loops, Fold fold) {
  constexpr std::int64_t kFew = 16, kShort = 64, kMost = 1 << 14;
  const std::int64_t beside = loops.kept.inner_size(), terms = loops.reduced.elements();
  const std::int64_t piece = loops.reduced.inner_size();
  const bool in_pieces = terms > piece, apart = loops.kept.elements() > beside && beside < kFew;
  if (fold != Fold::exponentials) return apart && terms <= kShort;
  if (loops.kept.elements() <= 1) return false;
  if (in_pieces && piece * std::min(beside, kFew) <= kShort) return terms <= kMost;
  return terms <= kLongestShort && (apart || in_pieces || (loops.reduced.inner_stride(0) == 1 && terms <= kShort));
}

// What a reduction makes of one element, unless that is the element.
Value (*single_of(const Reduction& reduction))(const Value& x) {
  if (reduction.finish == Finish::logarithm) return elements::log;
  if (reduction.fold == Fold::squares && reduction.finish == Finish::as_it_is) {
    return [](const Value& x) { return x * x; };
  }
  return elements::absolute;
}

class Reduce final : public Operator {
 public:
  constexpr Reduce(Reduction reduction, int axes_input_since)
      : reduction_(reduction), axes_input_since_(axes_input_since) {}

  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return axes_are_input(node) ? std::vector<int>{1} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, axes_are_input(node) ? 2 : 1));
    CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(node, inputs, axes_are_input(node)));
    CONVOY_TRY(const std::int64_t keep_dims, node.integer("keepdims", 1));
    return one_output(node, inputs[0].desc.type, reduced_dims(inputs[0].desc.dims, reduced, keep_dims != 0));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<bool> reduced, reduced_axes(node, inputs, axes_are_input(node)));
    const ReduceLoops loops(outputs[0], inputs[0].desc, reduced);
    const TensorDesc& x = inputs[0].desc;
    const DataType type = x.type;
    if (loops.reduced.elements() == 1 && !reduced.empty()) {
      const TensorDesc y = with_reduced_dims(outputs[0], reduced);
      if (keeps_single_elements(node))
        return plan_of_copy(node, StridedCopy(size_of(type), y.dims, x.strides, y.strides));
      if (contains(kMathFloats, type)) return plan_of_singles(node, x, y, single_of(reduction_), request);
    }
    Reducer reducer{
        loops, fold_loops(request.cpu.isa, reduction_.fold, type, reduction_.real), reduction_.finish, type, {}};
    if (is_of_short_lines(loops, reduction_.fold)) reducer.line = offsets_of(loops.reduced, 0);
    return make_plan(
        node,
        [reducer = std::move(reducer)](std::span<const void* const> in, std::span<void* const> out,
                                       const ExecContext& context) -> Result<void> {
          const BroadcastLoop& kept = reducer.loops.kept;
          const std::int64_t terms = reducer.loops.reduced.elements();
          if (reducer.line.empty()) {
            parallel_for(context, kept.elements(), terms,
                         [&](std::int64_t begin, std::int64_t end) { reducer.run(in[0], out[0], begin, end); });
            return {};
          }
          const std::int64_t run = kept.inner_size();  // runs stay whole
          parallel_for(context, kept.elements() / run, terms * run, [&](std::int64_t begin, std::int64_t end) {
            reducer.run_gathered(in[0], out[0], begin * run, end * run);
          });
          return {};
        });
  }

 private:
  bool axes_are_input(const NodeDesc& node) const { return node.opset >= axes_input_since_; }

  Reduction reduction_;
  int axes_input_since_;
};

// With fewer dims than x, but more than two, y's channels are another dim than x's: one of them would be turned around.
Taken layouts_of_reduce(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  const auto outputs = find_row(node.domain, node.op)->infer(node, inputs);
  const bool apart = outputs.ok() && (outputs->front().rank() < 3 || outputs->front().rank() == inputs[0].desc.rank());
  return (apart ? layouts::plain : layouts::row_major)(node, inputs, layout);
}

constexpr TypeSet kOrdered = kMathNumeric | only(DataType::boolean);
constexpr Reduce op_ReduceSum({Fold::sum}, 13);
constexpr Reduce op_ReduceMean({Fold::sum, Finish::mean}, 18);
constexpr Reduce op_ReduceMax({Fold::largest}, 18);
constexpr Reduce op_ReduceMin({Fold::smallest}, 18);
constexpr Reduce op_ReduceProd({Fold::product}, 18);
constexpr Reduce op_ReduceL1({Fold::magnitudes}, 18);
constexpr Reduce op_ReduceL2({Fold::squares, Finish::root, true}, 18);
constexpr Reduce op_ReduceLogSum({Fold::sum, Finish::logarithm}, 18);
constexpr Reduce op_ReduceLogSumExp({Fold::exponentials, Finish::as_it_is, true}, 18);
constexpr Reduce op_ReduceSumSquare({Fold::squares}, 18);

}  // namespace

std::vector<OperatorRow> reduce_rows() {
  const auto row = [](std::string_view name, const Operator& op, TypeSet types = kMathNumeric) -> OperatorRow {
    return {name, &op, images::over_axes, Rate::reductions, values::mixed, in_place::never, layouts_of_reduce, types};
  };
  return {row("ReduceSum", op_ReduceSum),
          row("ReduceMean", op_ReduceMean),
          row("ReduceMax", op_ReduceMax, kOrdered),
          row("ReduceMin", op_ReduceMin, kOrdered),
          row("ReduceProd", op_ReduceProd),
          row("ReduceL1", op_ReduceL1),
          row("ReduceL2", op_ReduceL2),
          row("ReduceLogSum", op_ReduceLogSum),
          row("ReduceLogSumExp", op_ReduceLogSumExp),
          row("ReduceSumSquare", op_ReduceSumSquare)};
}

}  // namespace convoy::ops
