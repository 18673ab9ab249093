// Recurrent layers by steps. All time steps' products with W are done first, in chunks that stay in the caches: a row
// for each sequence and step, in the order of the direction's steps. A step then adds the product with R to its rows,
// applies the activations there and leaves the hidden state, padded to whole panels, for the next step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "convoy/host_tensor.h"
#include "core/shared_bytes.h"
#include "ops/math_types.h"
#include "ops/matmul/panel_product.h"
#include "ops/recurrent/recurrent.h"
#include "ops/row_functions.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

constexpr int kRowsAtOnce = 32;                // of a product
constexpr std::int64_t kChunkBytes = 1 << 20;  // of rows before their steps, in each direction

// Part of the workspace, in elements.
struct Parts {
  std::int64_t w = 0, r = 0;               // packed, where they are no constants
  std::int64_t bias = 0, hidden_bias = 0;  // of the rows; of GRU's H . R, where it is apart
  std::int64_t rows = 0, state = 0, cell = 0, scratch = 0;
  std::int64_t end = 0;
};

// How a layer is divided among threads: sequences that nobody waits for, in groups, or slices of the hidden units, with
// a wait at the end of each step.
struct Split {
  bool by_sequence = true;
  std::int64_t groups = 1;  // of sequences
};

template <class C>
C limited(C x, C limit) {
  return x > limit ? limit : x < -limit ? -limit : x;  // keeps NaN
}

template <class T>
class RecurrentPlan final : public OpPlan {
 public:
  RecurrentPlan(const NodeDesc& node, const Recurrence& r, const PlanRequest& request) : op_(node.op), r_(r) {
    padded_ = (r.hidden + kPanel - 1) / kPanel * kPanel;
    width_ = r.gates() * padded_;
    const std::int64_t row_bytes = std::max<std::int64_t>(1, r.batch * width_ * static_cast<std::int64_t>(sizeof(T)));
    chunk_ = std::clamp<std::int64_t>(kChunkBytes / row_bytes, 1, std::max<std::int64_t>(1, r.steps));
    product_ = panel_product<T>(request.cpu.isa);
    if constexpr (std::is_same_v<T, float>) functions_ = row_functions(request.cpu.isa);
    split_ = split(request.threads);
  }

  // Constant weights are packed once, now.
  Result<void> prepare(std::span<const Input> inputs) {
    for (const int index : {kW, kR}) {
      if (inputs[index].constant == nullptr) continue;
      const std::int64_t count = std::max<std::int64_t>(kPanel, packed_elements(depth_of(index)));
      const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
      std::shared_ptr<std::byte> packed = allocate_aligned(bytes);
      if (packed == nullptr) {
        return Error{ErrorCode::out_of_memory,
                     fmt::format("{}: no memory for packed weights ({} elements)", op_, count)};
      }
      std::memset(packed.get(), 0, bytes);  // where panels have gaps, they are the same
      pack(static_cast<const T*>(inputs[index].constant), reinterpret_cast<T*>(packed.get()), depth_of(index), 0,
           r_.directions * panels());
      (index == kW ? packed_w_ : packed_r_) = shared_bytes(std::move(packed), bytes);
      retained_ += bytes;
    }
    const auto take = [&](std::int64_t count) {
      const std::int64_t at = parts_.end;
      parts_.end += (count + kPanel - 1) / kPanel * kPanel;
      return at;
    };
    const std::int64_t states = r_.directions * r_.batch * padded_;
    if (packed_w_ == nullptr) parts_.w = take(packed_elements(r_.inputs));
    if (packed_r_ == nullptr) parts_.r = take(packed_elements(r_.hidden));
    parts_.bias = take(r_.directions * width_);
    parts_.hidden_bias = take(r_.directions * padded_);
    parts_.rows = take(r_.directions * chunk_ * r_.batch * width_);
    parts_.state = take(2 * states);
    parts_.cell = take(r_.cell == Cell::lstm ? states : 0);
    parts_.scratch = take(r_.cell == Cell::gru ? states : 0);
    return {};
  }

  Candidate candidate() const override {
    return {r_.cell == Cell::lstm ? "ops.lstm" : r_.cell == Cell::gru ? "ops.gru" : "ops.rnn", {}};
  }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(parts_.end) * sizeof(T); }
  std::size_t retained_bytes() const override { return retained_; }

  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    Run run;
    const auto input = [&](std::size_t i) { return i < inputs.size() ? static_cast<const T*>(inputs[i]) : nullptr; };
    const auto output = [&](std::size_t i) { return i < outputs.size() ? static_cast<T*>(outputs[i]) : nullptr; };
    run.work = static_cast<T*>(context.workspace);
    run.x = input(kX);
    run.b = input(kB);
    run.p = input(kP);
    run.y = output(kY);
    run.y_h = output(kYH);
    run.y_c = output(kYC);
    run.w = packed_w_ != nullptr ? reinterpret_cast<const T*>(packed_w_.get()) : run.work + parts_.w;
    run.r = packed_r_ != nullptr ? reinterpret_cast<const T*>(packed_r_.get()) : run.work + parts_.r;
    if (inputs.size() > kSequenceLens && inputs[kSequenceLens] != nullptr) {
      run.lens = static_cast<const std::int32_t*>(inputs[kSequenceLens]);
      CONVOY_CHECK(check_sequence_lens(op_, {run.lens, static_cast<std::size_t>(r_.batch)}, r_.steps));
    }
    if (r_.batch == 0 || r_.hidden == 0) return {};
    for (const int index : {kW, kR}) {
      if ((index == kW ? packed_w_ : packed_r_) != nullptr) continue;
      T* to = run.work + (index == kW ? parts_.w : parts_.r);
      parallel_for(context, r_.directions * panels(), kPanel * depth_of(index),
                   [&](std::int64_t begin, std::int64_t end) { pack(input(index), to, depth_of(index), begin, end); });
    }
    start(run, input(kInitialH), input(kInitialC));
    const std::int64_t cost = step_cost() * r_.batch;
    if (split_.by_sequence) {
      const std::int64_t groups = split_.groups;
      parallel_for(context, r_.directions * groups, (cost / groups + 1) * std::max<std::int64_t>(1, r_.steps),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t group = i % groups;
                       Slice slice{static_cast<int>(i / groups), r_.batch * group / groups,
                                   r_.batch * (group + 1) / groups, 0, padded_ / kPanel};
                       whole(run, slice);
                     }
                   });
      return {};
    }
    const std::int64_t blocks = padded_ / kPanel;
    const auto for_slices = [&](std::int64_t unit_cost, auto&& body) {
      parallel_for(context, r_.directions * blocks, unit_cost, [&](std::int64_t begin, std::int64_t end) {
        for (int d = 0; d < r_.directions; ++d) {
          const std::int64_t first = std::max(begin - d * blocks, std::int64_t{0});
          const std::int64_t last = std::min(end - d * blocks, blocks);
          if (first < last) body(Slice{d, 0, r_.batch, first, last});
        }
      });
    };
    const std::int64_t steps = most_steps(run, 0, r_.batch);
    for (std::int64_t start = 0; start < steps; start += chunk_) {
      const std::int64_t end = std::min(start + chunk_, steps);
      for_slices(cost / blocks * (end - start), [&](const Slice& slice) { project(run, slice, start, end); });
      for (std::int64_t step = start; step < end; ++step) {
        for (int phase = 0; phase < phases(); ++phase) {
          for_slices(cost / blocks, [&](const Slice& slice) { advance(run, slice, phase, step, start); });
        }
      }
    }
    return {};
  }

 private:
  // What an execution reads and writes.
  struct Run {
    T* work = nullptr;
    const T *x = nullptr, *w = nullptr, *r = nullptr, *b = nullptr, *p = nullptr;
    T *y = nullptr, *y_h = nullptr, *y_c = nullptr;
    const std::int32_t* lens = nullptr;
  };
  // Sequences [first, last) and blocks [begin, end) of kPanel hidden units, of a direction.
  struct Slice {
    int direction;
    std::int64_t first, last, begin, end;
  };

  std::int64_t depth_of(int index) const { return index == kW ? r_.inputs : r_.hidden; }
  std::int64_t panels() const { return width_ / kPanel; }  // of a direction
  std::int64_t packed_elements(std::int64_t depth) const { return r_.directions * width_ * depth; }
  // GRU's r has to be known of all units before R is applied to what it has multiplied.
  int phases() const { return r_.cell == Cell::gru && !r_.linear_before_reset ? 2 : 1; }
  bool reversed(int direction) const { return direction == 1 || r_.first_reversed; }
  std::int64_t length(const Run& run, std::int64_t b) const { return run.lens == nullptr ? r_.steps : run.lens[b]; }
  std::int64_t most_steps(const Run& run, std::int64_t first, std::int64_t last) const {
    std::int64_t most = 0;
    for (std::int64_t b = first; b < last; ++b) most = std::max(most, length(run, b));
    return most;
  }
  // As parallel_for counts: element visits of a sequence's step in one direction.
  std::int64_t step_cost() const { return width_ * (8 + (r_.inputs + r_.hidden) / 4); }

  T* row(const Run& run, int d, std::int64_t step, std::int64_t b) const {
    return run.work + parts_.rows + ((d * chunk_ + step) * r_.batch + b) * width_;
  }
  T* state(const Run& run, std::int64_t step, int d, std::int64_t b) const {
    return run.work + parts_.state + ((step % 2 * r_.directions + d) * r_.batch + b) * padded_;
  }
  T* of_sequence(const Run& run, std::int64_t part, int d, std::int64_t b) const {
    return run.work + part + (d * r_.batch + b) * padded_;
  }
  std::int64_t state_at(int d, std::int64_t b) const {  // in initial_h, Y_h and their like
    return (r_.batch_first ? b * r_.directions + d : d * r_.batch + b) * r_.hidden;
  }
  std::int64_t y_at(std::int64_t t, int d, std::int64_t b) const {
    return (r_.batch_first ? (b * r_.steps + t) * r_.directions + d : (t * r_.directions + d) * r_.batch + b) *
           r_.hidden;
  }

  // Without waits R is read by each group of sequences, and a few rows take no longer than one does: reading is what
  // takes the time. About 48 products a nanosecond with many rows; a wait takes some microseconds.
  Split split(int threads) const {
    constexpr double kWait = 3000;
    const auto work = static_cast<double>(width_ * (r_.hidden + r_.inputs));
    const auto nanoseconds = [&](std::int64_t rows, std::int64_t units, double part) {
      const std::int64_t rounds = (units + threads - 1) / threads;
      return static_cast<double>(rounds * std::max<std::int64_t>(rows, 4)) * work * part / 48;
    };
    const std::int64_t blocks = std::max<std::int64_t>(1, padded_ / kPanel);
    Split best;
    double least = nanoseconds(r_.batch, r_.directions, 1);
    for (std::int64_t groups = 2; groups <= std::min<std::int64_t>(threads, r_.batch); ++groups) {
      const double time = nanoseconds((r_.batch + groups - 1) / groups, r_.directions * groups, 1);
      if (time < least) {
        least = time;
        best.groups = groups;
      }
    }
    const double sliced = nanoseconds(r_.batch, r_.directions * blocks, 1.0 / static_cast<double>(blocks));
    if (threads > 1 && sliced + kWait * phases() < least) return {false, 1};
    return best;
  }

  // Rows of W or R as columns of panels, each gate's padded to whole ones.
  void pack(const T* from, T* to, std::int64_t depth, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t direction = panel / panels(), column = panel % panels() * kPanel;
      const std::int64_t gate = column / padded_, unit = column % padded_;
      T* packed = to + panel * depth * kPanel;
      for (std::int64_t j = 0; j < kPanel; ++j) {
        if (unit + j >= r_.hidden) {
          for (std::int64_t k = 0; k < depth; ++k) packed[k * kPanel + j] = T(0);
          continue;
        }
        const T* row = from + ((direction * r_.gates() + gate) * r_.hidden + unit + j) * depth;
        for (std::int64_t k = 0; k < depth; ++k) packed[k * kPanel + j] = row[k];
      }
    }
  }

  // Biases, first states, and 0 as the output of steps that a sequence doesn't have; of one without any the last state
  // is 0, too, as ONNX Runtime has it.
  void start(const Run& run, const T* initial_h, const T* initial_c) const {
    const std::int64_t hidden = r_.hidden, gates = r_.gates();
    std::fill_n(run.work + parts_.bias, r_.directions * width_, T(0));
    std::fill_n(run.work + parts_.hidden_bias, r_.directions * padded_, T(0));
    for (int d = 0; run.b != nullptr && d < r_.directions; ++d) {
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        const T* of_w = run.b + (d * 2 * gates + gate) * hidden;
        const T* of_r = of_w + gates * hidden;
        T* to = run.work + parts_.bias + d * width_ + gate * padded_;
        const bool apart = r_.linear_before_reset && gate == 2;
        for (std::int64_t j = 0; j < hidden; ++j) to[j] = apart ? of_w[j] : of_w[j] + of_r[j];
        if (apart) std::copy_n(of_r, hidden, run.work + parts_.hidden_bias + d * padded_);
      }
    }
    for (int d = 0; d < r_.directions; ++d) {
      for (std::int64_t b = 0; b < r_.batch; ++b) {
        const std::int64_t from = state_at(d, b);
        const auto begin = [&](const T* initial, T* to, T* output) {
          std::fill_n(to, padded_, T(0));
          if (initial != nullptr) std::copy_n(initial + from, hidden, to);
          if (output != nullptr && length(run, b) == 0) std::fill_n(output + from, hidden, T(0));
        };
        begin(initial_h, state(run, 0, d, b), run.y_h);
        if (r_.cell == Cell::lstm) begin(initial_c, of_sequence(run, parts_.cell, d, b), run.y_c);
        for (std::int64_t t = length(run, b); run.y != nullptr && t < r_.steps; ++t) {
          std::fill_n(run.y + y_at(t, d, b), hidden, T(0));
        }
      }
    }
  }

  // All steps of some sequences, for one thread.
  void whole(const Run& run, const Slice& slice) const {
    const std::int64_t steps = most_steps(run, slice.first, slice.last);
    for (std::int64_t start = 0; start < steps; start += chunk_) {
      const std::int64_t end = std::min(start + chunk_, steps);
      project(run, slice, start, end);
      for (std::int64_t step = start; step < end; ++step) {
        for (int phase = 0; phase < phases(); ++phase) advance(run, slice, phase, step, start);
      }
    }
  }

  // Some rows of a product, gathered.
  struct Rows {
    const T* a[kRowsAtOnce];
    T* c[kRowsAtOnce];
    int count = 0;
  };

  // c[at(gate, block)] += a . packed for the gates [first, last) and the slice's blocks.
  template <class At>
  void multiply(const Rows& rows, const Slice& slice, int first, int last, const T* packed, std::int64_t depth,
                At&& at) const {
    T* c[kRowsAtOnce];
    for (int gate = first; gate < last; ++gate) {
      for (std::int64_t block = slice.begin; block < slice.end; ++block) {
        for (int i = 0; i < rows.count; ++i) c[i] = rows.c[i] + at(gate, block);
        const std::int64_t panel = slice.direction * panels() + gate * (padded_ / kPanel) + block;
        product_(rows.a, c, rows.count, packed + panel * depth * kPanel, depth, {});
      }
    }
  }
  std::int64_t in_row(std::int64_t gate, std::int64_t block) const { return gate * padded_ + block * kPanel; }

  // The rows of steps [start, end): bias + X . W.
  void project(const Run& run, const Slice& slice, std::int64_t start, std::int64_t end) const {
    const int d = slice.direction;
    const T* bias = run.work + parts_.bias + d * width_;
    const std::int64_t units = (slice.end - slice.begin) * kPanel;
    Rows rows;
    const auto flush = [&] {
      multiply(rows, slice, 0, r_.gates(), run.w, r_.inputs,
               [&](int gate, std::int64_t block) { return in_row(gate, block); });
      rows.count = 0;
    };
    for (std::int64_t step = start; step < end; ++step) {
      for (std::int64_t b = slice.first; b < slice.last; ++b) {
        if (step >= length(run, b)) continue;
        const std::int64_t t = reversed(d) ? length(run, b) - 1 - step : step;
        T* to = row(run, d, step - start, b);
        for (int gate = 0; gate < r_.gates(); ++gate) {
          std::copy_n(bias + in_row(gate, slice.begin), units, to + in_row(gate, slice.begin));
        }
        rows.a[rows.count] = run.x + (r_.batch_first ? b * r_.steps + t : t * r_.batch + b) * r_.inputs;
        rows.c[rows.count++] = to;
        if (rows.count == kRowsAtOnce) flush();
      }
    }
    if (rows.count > 0) flush();
  }

  // A step (or half of one) of a slice.
  void advance(const Run& run, const Slice& slice, int phase, std::int64_t step, std::int64_t start) const {
    const int d = slice.direction;
    const auto each = [&](auto&& body) {
      for (std::int64_t b = slice.first; b < slice.last; ++b) {
        if (step < length(run, b)) body(b);
      }
    };
    Rows rows;
    const auto flush = [&] {
      const auto at = [&](int gate, std::int64_t block) { return in_row(gate, block); };
      if (r_.cell != Cell::gru || phase == 1) {
        multiply(rows, slice, phase == 1 ? 2 : 0, r_.gates(), run.r, r_.hidden, at);
      } else {
        multiply(rows, slice, 0, 2, run.r, r_.hidden, at);
      }
      rows.count = 0;
    };
    each([&](std::int64_t b) {
      rows.a[rows.count] = phase == 1 ? of_sequence(run, parts_.scratch, d, b) : state(run, step, d, b);
      rows.c[rows.count++] = row(run, d, step - start, b);
      if (rows.count == kRowsAtOnce) flush();
    });
    if (rows.count > 0) flush();
    if (r_.linear_before_reset) reset_late(run, slice, step);
    const std::int64_t first = slice.begin * kPanel;
    const std::int64_t count = std::min(slice.end * kPanel, r_.hidden) - first;
    each([&](std::int64_t b) {
      T* gates = row(run, d, step - start, b) + first;
      const T* h = state(run, step, d, b) + first;
      T* next = state(run, step + 1, d, b) + first;
      T* cell = nullptr;
      if (r_.cell == Cell::lstm) {
        cell = of_sequence(run, parts_.cell, d, b) + first;
        lstm(d, gates, run.p == nullptr ? nullptr : run.p + d * 3 * r_.hidden + first, cell, next, count);
      } else if (r_.cell == Cell::rnn) {
        activate(r_.activations[d][0], gates, next, count);
      } else if (!gru(d, phase, gates, h, of_sequence(run, parts_.scratch, d, b) + first, next, count)) {
        return;
      }
      const std::int64_t last = length(run, b) - 1;
      if (run.y != nullptr) std::copy_n(next, count, run.y + y_at(reversed(d) ? last - step : step, d, b) + first);
      if (step != last) return;
      if (run.y_h != nullptr) std::copy_n(next, count, run.y_h + state_at(d, b) + first);
      if (run.y_c != nullptr) std::copy_n(cell, count, run.y_c + state_at(d, b) + first);
    });
  }

  // scratch = H . Rh + its bias, with linear_before_reset.
  void reset_late(const Run& run, const Slice& slice, std::int64_t step) const {
    const int d = slice.direction;
    const T* bias = run.work + parts_.hidden_bias + d * padded_;
    Rows rows;
    const auto flush = [&] {
      multiply(rows, slice, 2, 3, run.r, r_.hidden, [](int, std::int64_t block) { return block * kPanel; });
      rows.count = 0;
    };
    for (std::int64_t b = slice.first; b < slice.last; ++b) {
      if (step >= length(run, b)) continue;
      T* to = of_sequence(run, parts_.scratch, d, b);
      std::copy(bias + slice.begin * kPanel, bias + slice.end * kPanel, to + slice.begin * kPanel);
      rows.a[rows.count] = state(run, step, d, b);
      rows.c[rows.count++] = to;
      if (rows.count == kRowsAtOnce) flush();
    }
    if (rows.count > 0) flush();
  }

  // y = f(x), limited before where there is a clip; y is x or does not overlap it.
  void activate(const CellActivation& f, const T* x, T* y, std::int64_t count, bool limit_it = true) const {
    if (limit_it && r_.clip > 0) {
      const T limit = static_cast<T>(r_.clip);
      for (std::int64_t i = 0; i < count; ++i) y[i] = limited(x[i], limit);
      x = y;
    }
    const T a = static_cast<T>(f.a), b = static_cast<T>(f.b);
    const auto with = [&](auto&& function) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = function(x[i]);
    };
    const auto rows = [&](RowFunction::Kind kind, auto&& function) {
      if constexpr (std::is_same_v<T, float>) {
        if (functions_ != nullptr) return functions_->map({kind, a, b}, DataType::f32, x, y, count);
      }
      with(function);
    };
    switch (f.kind) {
      case CellActivation::relu:
        return with([](T v) { return v < T(0) ? T(0) : v; });
      case CellActivation::tanh:
        return rows(RowFunction::tanh, [](T v) { return std::tanh(v); });
      case CellActivation::sigmoid:
        return rows(RowFunction::sigmoid, [](T v) { return T(1) / (T(1) + std::exp(-v)); });
      case CellActivation::affine:
        return with([=](T v) { return a * v + b; });
      case CellActivation::leaky_relu:
        return rows(RowFunction::leaky_relu, [=](T v) { return v < T(0) ? a * v : v; });
      case CellActivation::thresholded_relu:
        return with([=](T v) { return v <= a ? T(0) : v; });
      case CellActivation::scaled_tanh:
        return with([=](T v) { return a * std::tanh(b * v); });
      case CellActivation::hard_sigmoid:
        return rows(RowFunction::hard_sigmoid,
                    [=](T v) { return std::max(std::min(a * v + b, T(1)), T(0)); });  // keeps NaN
      case CellActivation::elu:
        return rows(RowFunction::elu, [=](T v) { return v < T(0) ? a * std::expm1(v) : v; });
      case CellActivation::softsign:
        return with([](T v) { return v / (T(1) + std::abs(v)); });
      case CellActivation::softplus:
        return with([](T v) { return std::max(v, T(0)) + std::log1p(std::exp(-std::abs(v))); });
    }
  }

  // Gates i, o, f, c (the last is what may enter the cell).
  void lstm(int d, T* gates, const T* p, T* cell, T* next, std::int64_t count) const {
    const auto& [f, g, h] = r_.activations[d];
    T *in = gates, *out = gates + padded_, *forget = gates + 2 * padded_, *candidate = gates + 3 * padded_;
    const T *p_out = p == nullptr ? nullptr : p + r_.hidden, *p_forget = p == nullptr ? nullptr : p + 2 * r_.hidden;
    const auto peek = [&](T* gate, const T* weights) {
      if (p == nullptr) return;
      for (std::int64_t j = 0; j < count; ++j) gate[j] += weights[j] * cell[j];
    };
    peek(in, p);
    activate(f, in, in, count);
    if (r_.input_forget) {
      for (std::int64_t j = 0; j < count; ++j) forget[j] = T(1) - in[j];
    } else {
      peek(forget, p_forget);
      activate(f, forget, forget, count);
    }
    activate(g, candidate, candidate, count);
    for (std::int64_t j = 0; j < count; ++j) cell[j] = forget[j] * cell[j] + in[j] * candidate[j];
    peek(out, p_out);
    activate(f, out, out, count);
    activate(h, cell, next, count, false);  // as ONNX Runtime does: clip is of the gates
    for (std::int64_t j = 0; j < count; ++j) next[j] *= out[j];
  }

  // Gates z, r, h. False where another phase has yet to come.
  bool gru(int d, int phase, T* gates, const T* h, T* scratch, T* next, std::int64_t count) const {
    const auto& [f, g, unused] = r_.activations[d];
    T *update = gates, *reset = gates + padded_, *candidate = gates + 2 * padded_;
    if (phase == 0) {
      activate(f, update, update, count);
      activate(f, reset, reset, count);
      if (!r_.linear_before_reset) {
        for (std::int64_t j = 0; j < count; ++j) scratch[j] = reset[j] * h[j];
        return false;
      }
      for (std::int64_t j = 0; j < count; ++j) candidate[j] += reset[j] * scratch[j];
    }
    activate(g, candidate, candidate, count);
    for (std::int64_t j = 0; j < count; ++j) next[j] = candidate[j] + update[j] * (h[j] - candidate[j]);
    return true;
  }

  std::string op_;
  Recurrence r_;
  std::int64_t padded_ = 0;  // hidden units, up to whole panels
  std::int64_t width_ = 0;   // of a row: the gates, each padded
  std::int64_t chunk_ = 1;   // steps
  PanelProduct<T> product_ = nullptr;
  const RowFunctions* functions_ = nullptr;
  Split split_;
  Parts parts_;
  std::shared_ptr<const std::byte> packed_w_, packed_r_;
  std::size_t retained_ = 0;
};

}  // namespace

Result<void> check_sequence_lens(const std::string& op, std::span<const std::int32_t> lens, std::int64_t steps) {
  for (std::size_t b = 0; b < lens.size(); ++b) {
    if (lens[b] >= 0 && lens[b] <= steps) continue;
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("{}: input 4 (sequence_lens) has {} for sequence {}, which is outside [0, {}], the steps of X", op,
                    lens[b], b, steps)};
  }
  return {};
}

Result<std::unique_ptr<OpPlan>> plan_recurrence(const NodeDesc& node, const Recurrence& recurrence,
                                                std::span<const Input> inputs, const PlanRequest& request) {
  return dispatch<only(DataType::f32) | only(DataType::f64)>(
      inputs[kX].desc.type, [&]<class T>(Tag<T>) -> Result<std::unique_ptr<OpPlan>> {
        auto plan = std::make_unique<RecurrentPlan<T>>(node, recurrence, request);
        CONVOY_CHECK(plan->prepare(inputs));
        return std::unique_ptr<OpPlan>(std::move(plan));
      });
}

}  // namespace convoy::ops
