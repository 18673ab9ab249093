#include "ops/elementwise/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "ops/elementwise/evaluator.h"
#include "ops/rows.h"

namespace convoy::ops {

Result<ElementFunction> ElementFunction::of(const ElementRule& rule, const NodeDesc& node, DataType type, int inputs,
                                            int all, bool ends) {
  Description description(node, type, inputs, all, ends);
  const Value result = rule.describe(description);
  if (description.error()) return *description.error();
  return std::move(description).function(result);
}

ElementFunction Description::function(const Value& result) && {
  expression_.result = result.term_in(expression_);
  return {std::move(expression_), function_};
}

Result<TensorDesc> broadcast_operand(const NodeDesc& node, std::span<const Input> inputs, int index) {
  TensorDesc desc = inputs[index].desc;
  if (index == 0 || node.opset >= 7 || !node.domain.empty() || desc.rank() == 0) return desc;
  CONVOY_TRY(const std::int64_t broadcast, node.integer("broadcast", 0));
  if (broadcast == 0) return desc;
  const int rank = inputs[0].desc.rank();
  CONVOY_TRY(const std::int64_t given, node.integer("axis", rank - desc.rank()));
  CONVOY_TRY(const int axis, normalize_axis(node, given, rank, "axis", 1));
  if (axis + desc.rank() > rank) {
    return bad_node(
        node, fmt::format("axis={}: input {} of rank {} does not fit into rank {}", axis, index, desc.rank(), rank));
  }
  desc.dims.resize(rank - axis, 1);
  desc.strides.resize(rank - axis, 1);
  return desc;
}

Result<Dims> broadcast_inputs(const NodeDesc& node, std::span<const Input> inputs) {
  std::vector<Dims> shapes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CONVOY_TRY(const TensorDesc desc, broadcast_operand(node, inputs, static_cast<int>(i)));
    shapes.push_back(desc.dims);
  }
  return broadcast_dims(node, shapes);
}

namespace {

// Operands where y is the same tensor without gaps: element i of both belong together.
bool runs_with(const TensorDesc& operand, const TensorDesc& y) {
  const int missing = y.rank() - operand.rank();
  for (int d = 0; d < y.rank(); ++d) {
    if (y.dims[d] == 1) continue;
    if (d < missing || operand.dims[d - missing] != y.dims[d] || operand.strides[d - missing] != y.strides[d]) {
      return false;
    }
  }
  return true;
}

// An operand whose elements come again and again as y, a tensor without gaps, is run through: after `period` elements
// of y, within each `span` of them. So are channels last with a value for each channel, of all samples or of each, and
// any values that are spread over outer dims.
struct Repeats {
  std::int64_t period = 0, span = 0;  // 0: it does not
};

// The outermost spread that is worth it.
Repeats repeats_of(const TensorDesc& operand, const TensorDesc& y) {
  constexpr std::int64_t kLongestPeriod = 1024, kLeastSpan = 256, kLeastTimes = 4;
  std::vector<int> order(y.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int d) { return y.strides[d]; });
  Repeats found;
  std::int64_t elements = 1, period = 1;  // of y, of the dims so far
  bool was_spread = false;
  for (const int d : order) {
    if (y.dims[d] == 1) continue;
    const int own = d - (y.rank() - operand.rank());
    const bool spread = own < 0 || operand.dims[own] == 1;
    if (spread && !was_spread) period = elements;
    elements *= y.dims[d];
    was_spread = spread;
    if (spread && period > 1 && period <= kLongestPeriod && elements >= std::max(kLeastSpan, kLeastTimes * period)) {
      found = {period, elements};
    }
  }
  return found;
}

void copy_row(std::size_t size, const void* x, std::int64_t x_step, void* y, std::int64_t y_step, std::int64_t count) {
  dispatch_bytes(size, [&]<class T>(Tag<T>) {
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(y);
    if (y_step == 1 && x_step == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
    } else if (y_step == 1 && x_step == 0) {
      std::fill_n(to, count, *from);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i * y_step] = from[i * x_step];
    }
  });
}

class ElementwisePlan {
 public:
  ElementwisePlan(const ElementFunction& function, const Program& program, bool in_f64,
                  const std::vector<TensorDesc>& operands, const TensorDesc& y, const PlanRequest& request)
      : program_(program),
        type_(operands[0].type),
        y_type_(y.type),
        size_(static_cast<std::int64_t>(size_of(type_))),
        y_size_(static_cast<std::int64_t>(size_of(y_type_))),
        evaluate_(in_f64 && !is_floating(type_) ? evaluate_integers_in_f64 : evaluator(request.cpu.isa)),
        loop_([&] {
          std::vector<TensorDesc> all{y};
          all.insert(all.end(), operands.begin(), operands.end());
          return BroadcastLoop(all);
        }()) {
    const bool has_rows = type_ == y_type_ && (type_ == DataType::f32 || contains(kHalves, type_));
    if (function.vectors && has_rows) rows_ = row_functions(request.cpu.isa);
    if (rows_ != nullptr) function_ = *function.vectors;
    y_runs_ = y.storage_elements() == y.elements();
    for (const TensorDesc& operand : operands) {
      repeats_.push_back(y_runs_ ? repeats_of(operand, y) : Repeats{});
      kinds_.push_back(operand.elements() == 1            ? Kind::single
                       : y_runs_ && runs_with(operand, y) ? Kind::runs
                       : repeats_.back().period > 0       ? Kind::repeats
                                                          : Kind::spread);
    }
    const auto any = [&](Kind kind) { return std::ranges::find(kinds_, kind) != kinds_.end(); };
    any_spread_ = !y_runs_ || any(Kind::spread);
    all_run_ = !any_spread_ && !any(Kind::repeats);
    in_runs_ = loop_.inner_stride(0) == 1;
    ElementRow rows[Program::kMostInputs];
    for (std::size_t k = 0; k < operands.size(); ++k) {
      rows[k] = {nullptr, loop_.inner_stride(static_cast<int>(k) + 1)};
      in_runs_ = in_runs_ && rows[k].step <= 1;
    }
    const bool as_they_are = evaluate_ != evaluate_integers_in_f64 && rows_ == nullptr;
    if (in_runs_ && as_they_are) step_loop_ = step_loop(request.cpu.isa, program, type_, rows, y_type_);
    for (std::size_t k = 0; k < operands.size(); ++k) rows[k].step = kinds_[k] == Kind::single ? 0 : 1;
    if (as_they_are) chunk_loop_ = step_loop(request.cpu.isa, program, type_, rows, y_type_);
    in_runs_ = in_runs_ && loop_.inner_size() >= (!any_spread_ ? kRepeatedRun : step_loop_ ? kShortRun : kLongRun);
  }

  void run(std::span<const void* const> in, void* y, const ExecContext& context) const {
    const auto cost = static_cast<std::int64_t>(std::max<std::size_t>(in.size(), program_.step_count));
    parallel_for(context, loop_.elements(), cost, [&](std::int64_t begin, std::int64_t end) {
      if (all_run_) {
        along(in, y, begin, end);
      } else if (in_runs_) {
        loop_.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
          if (step_loop_) {
            return step_loop_([&](int k) { return element(in[k], at[k + 1]); }, result(y, at[0]), count);
          }
          ElementRow rows[Program::kMostInputs];
          for (std::size_t k = 0; k < kinds_.size(); ++k) {
            rows[k] = {element(in[k], at[k + 1]), loop_.inner_stride(static_cast<int>(k) + 1)};
          }
          compute(rows, result(y, at[0]), count);
        });
      } else {
        gathered(in, y, begin, end);
      }
    });
  }

 private:
  enum class Kind : std::uint8_t { single, runs, repeats, spread };
  // From where on it takes less to compute runs by themselves than to lay out operands as y is: without and with a loop
  // that is found already, and where they repeat.
  static constexpr std::int64_t kLongRun = 1024, kShortRun = 16, kRepeatedRun = 512;
  static constexpr std::int64_t kChunkBytes = 4096, kSlack = 16;

  static void evaluate_integers_in_f64(const Program& program, DataType type, const ElementRow* inputs, DataType y_type,
                                       void* y, std::int64_t count) {
    constexpr std::int64_t kMost = 256;
    std::array<double, kMost> wide, made;
    for (std::int64_t start = 0; start < count; start += kMost) {
      const std::int64_t n = std::min(kMost, count - start);
      for (std::int64_t i = 0; i < n; ++i) {
        wide[i] = load_as_double(type, inputs[0].data, (start + i) * inputs[0].step);
      }
      const ElementRow row{wide.data(), 1};
      portable::evaluate(program, DataType::f64, &row, DataType::f64, made.data(), n);
      for (std::int64_t i = 0; i < n; ++i) store_from_double(y_type, y, start + i, made[i]);
    }
  }

  const void* element(const void* x, std::int64_t at) const { return static_cast<const char*>(x) + at * size_; }
  void* result(void* y, std::int64_t at) const { return static_cast<char*>(y) + at * y_size_; }

  void compute(const ElementRow* rows, void* y, std::int64_t count) const {
    if (rows_ != nullptr && rows[0].step == 1) {
      rows_->map(function_, type_, rows[0].data, y, count);
    } else {
      evaluate_(program_, type_, rows, y_type_, y, count);
    }
  }

  void along(std::span<const void* const> in, void* y, std::int64_t begin, std::int64_t end) const {
    ElementRow rows[Program::kMostInputs];
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const bool single = kinds_[k] == Kind::single && loop_.elements() > 1;
      rows[k] = {single ? in[k] : element(in[k], begin), single ? 0 : 1};
    }
    compute(rows, result(y, begin), end - begin);
  }

  // Operand k of the elements [begin, end) of y, as y is. What lies kSlack bytes behind them may be written, too.
  void lay_out(std::size_t k, const void* x, std::int64_t begin, std::int64_t end, char* to) const {
    const std::int64_t step = loop_.inner_stride(static_cast<int>(k) + 1);
    dispatch_bytes(static_cast<std::size_t>(size_), [&]<class T>(Tag<T>) {
      loop_.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
        const auto* const from = static_cast<const T*>(element(x, at[k + 1]));
        if (step == 0) {
          fill(*from, count, to);
        } else {
          copy_row(sizeof(T), from, step, to, 1, count);
        }
        to += count * size_;
      });
    });
  }
  template <class T>
  static void fill(T value, std::int64_t count, char* to) {
    std::array<T, kSlack / sizeof(T)> values;
    values.fill(value);
    const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t at = 0; at < bytes; at += kSlack) std::memcpy(to + at, values.data(), kSlack);
  }

  // Operands that don't run with y are laid out as it does, some at a time; what repeats, once, so often that a row may
  // begin anywhere in the period.
  void gathered(std::span<const void* const> in, void* y, std::int64_t begin, std::int64_t end) const {
    const std::int64_t most = kChunkBytes / std::max(size_, y_size_);
    std::vector<std::int64_t> offsets{0, kChunkBytes};  // in memory: of y, and of each operand
    for (const Repeats& each : repeats_) offsets.push_back(offsets.back() + kChunkBytes + each.period * size_ + kSlack);
    const auto memory = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(offsets.back()));
    ElementRow rows[Program::kMostInputs];
    for (std::int64_t start = begin, n; start < end; start += n) {
      n = std::min(most, end - start);
      for (const Repeats& each : repeats_) {
        if (each.period > 0) n = std::min(n, each.span - start % each.span);
      }
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        char* const own = memory.get() + offsets[k + 1];
        const auto [period, span] = repeats_[k];
        switch (kinds_[k]) {
          case Kind::single:
            rows[k] = {in[k], 0};
            break;
          case Kind::runs:
            rows[k] = {element(in[k], start), 1};
            break;
          case Kind::repeats:
            if (start == begin || start % span == 0) {
              const std::int64_t first = start - start % span, bytes = kChunkBytes + period * size_;
              lay_out(k, in[k], first, first + period, own);
              for (std::int64_t made = period * size_; made < bytes; made *= 2) {
                std::memcpy(own + made, own, static_cast<std::size_t>(std::min(made, bytes - made)));
              }
            }
            rows[k] = {element(own, start % period), 1};
            break;
          case Kind::spread:
            lay_out(k, in[k], start, start + n, own);
            rows[k] = {own, 1};
            break;
        }
      }
      void* const made = y_runs_ ? result(y, start) : memory.get();
      if (chunk_loop_) {
        chunk_loop_([&](int k) { return rows[k].data; }, made, n);
      } else {
        compute(rows, made, n);
      }
      if (y_runs_) continue;
      const char* from = memory.get();
      loop_.run(start, start + n, [&](const std::int64_t* at, std::int64_t count) {
        copy_row(static_cast<std::size_t>(y_size_), from, 1, result(y, at[0]), loop_.inner_stride(0), count);
        from += count * y_size_;
      });
    }
  }

  Program program_;
  DataType type_, y_type_;
  std::int64_t size_, y_size_;
  Evaluate evaluate_;
  BroadcastLoop loop_;
  const RowFunctions* rows_ = nullptr;
  RowFunction function_{};
  StepLoop step_loop_, chunk_loop_;  // of runs, and of what is laid out as y is
  std::vector<Kind> kinds_;
  std::vector<Repeats> repeats_;  // of those that do
  bool y_runs_ = false, any_spread_ = false, all_run_ = false, in_runs_ = false;
};

}  // namespace

Result<std::unique_ptr<OpPlan>> element_plan(const NodeDesc& node, const ElementFunction& function, bool in_f64,
                                             std::vector<TensorDesc> operands, const TensorDesc& y,
                                             const PlanRequest& request) {
  CONVOY_TRY(const Program program, compiled(function.expression, static_cast<int>(operands.size())));
  const auto plan = std::make_shared<const ElementwisePlan>(function, program, in_f64, operands, y, request);
  return make_plan(
      node,
      [plan](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
        plan->run(in, out[0], context);
        return {};
      });
}

Result<std::unique_ptr<OpPlan>> plan_of_singles(const NodeDesc& node, const TensorDesc& x, const TensorDesc& y,
                                                Value (*function)(const Value& x), const PlanRequest& request) {
  Description description(node, x.type, 1);
  const Value result = function(description.input());
  return element_plan(node, std::move(description).function(result), false, {x}, y, request);
}

Result<std::vector<TensorDesc>> ElementwiseOperator::infer(const NodeDesc& node, std::span<const Input> inputs) const {
  CONVOY_CHECK(check_counts(node, inputs, std::max(rule_.operands, 1), rule_.operands == 0 ? -1 : rule_.operands));
  const int count = static_cast<int>(inputs.size());
  if (rule_.operands == 0) CONVOY_CHECK(check_counts(node, inputs, count, -1));  // all of them present
  CONVOY_CHECK(check_same_type(node, inputs));
  const int together = std::min(count, Program::kMostInputs);
  CONVOY_TRY(const ElementFunction function, ElementFunction::of(rule_, node, inputs[0].desc.type, together));
  if (auto program = compiled(function.expression, together); !program.ok()) return program.error().within(node.op);
  CONVOY_TRY(Dims dims, broadcast_inputs(node, inputs));
  return one_output(node, rule_.to_bool ? DataType::boolean : inputs[0].desc.type, std::move(dims));
}

Result<std::unique_ptr<OpPlan>> ElementwiseOperator::plan(const NodeDesc& node, std::span<const Input> inputs,
                                                          std::span<const TensorDesc> outputs,
                                                          const PlanRequest& request) const {
  struct Part {
    std::unique_ptr<OpPlan> plan;
    int begin, end;  // of the operands
  };
  std::vector<Part> parts;
  for (int begin = 0, end, count = static_cast<int>(inputs.size()); begin < count; begin = end) {
    std::vector<TensorDesc> operands;
    if (begin > 0) operands.push_back(outputs[0]);
    for (end = begin; end < count && operands.size() < Program::kMostInputs; ++end) {
      CONVOY_TRY(operands.emplace_back(), broadcast_operand(node, inputs, end));
    }
    CONVOY_TRY(
        const ElementFunction function,
        ElementFunction::of(rule_, node, inputs[0].desc.type, static_cast<int>(operands.size()), count, end == count));
    CONVOY_TRY(auto plan, element_plan(node, function, rule_.in_f64, std::move(operands), outputs[0], request));
    parts.push_back({std::move(plan), begin, end});
  }
  if (parts.size() == 1) return std::move(parts[0].plan);
  return make_plan(node,
                   [parts = std::make_shared<const std::vector<Part>>(std::move(parts))](
                       auto in, auto out, const ExecContext& context) -> Result<void> {
                     for (const Part& part : *parts) {
                       std::vector<const void*> operands(in.begin() + part.begin, in.begin() + part.end);
                       if (part.begin > 0) operands.insert(operands.begin(), out[0]);
                       CONVOY_CHECK(part.plan->execute(operands, out, context));
                     }
                     return {};
                   });
}

}  // namespace convoy::ops
