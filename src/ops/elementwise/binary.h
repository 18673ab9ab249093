// Operators of two broadcasting operands: y = f(a, b). A family member is a struct F with
//   static constexpr TypeSet kTypes;                                  the element types it takes
//   static Result<F> make(const NodeDesc&, DataType);                 its parameters, and what the type forbids
//   template <class C> R operator()(C a, C b) const;                  in Compute<T>; R is bool where kToBool
//   static constexpr RowCombination kVectors;                         optional: the same with vectors, of f32 and
//   halves
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/support.h"
#include "ops/unary.h"

namespace convoy::ops {

// Operand `index` as it broadcasts to `rank` dims. Before opset 7 the second operand's dims were matched from `axis`
// on (default: the last ones), only with broadcast=1: its desc gets the trailing ones that make it right-aligned.
Result<TensorDesc> broadcast_operand(const NodeDesc& node, std::span<const Input> inputs, int index);

// The dims that all operands broadcast to.
Result<Dims> broadcast_inputs(const NodeDesc& node, std::span<const Input> inputs);

// y = f(a, b) where y and a are channels last and b has a value for each channel of a sample: squeeze and excitation,
// biases. Runs along the channels alone would be so short that finding them takes longer than computing them.
struct FewChannels {
  std::int64_t channels, positions;  // of a sample
  std::int64_t sample_stride;        // of b; 0: all samples have the same
};
std::optional<FewChannels> few_channels(const TensorDesc& y, const TensorDesc& a, const TensorDesc& b);
constexpr std::int64_t kMostFewChannels = 256;

template <class F, bool kToBool = false>
class BinaryOperator final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_same_type(node, inputs, F::kTypes));
    if (auto f = F::make(node, inputs[0].desc.type); !f.ok()) return f.error();
    CONVOY_TRY(Dims dims, broadcast_inputs(node, inputs));
    return one_output(node, kToBool ? DataType::boolean : inputs[0].desc.type, std::move(dims));
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }
  bool treats_channels_alike(const NodeDesc&, std::span<const Input>) const override { return true; }
  int in_place_input(const NodeDesc&) const override { return kToBool ? -1 : 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const F f, F::make(node, inputs[0].desc.type));
    CONVOY_TRY(const TensorDesc second, broadcast_operand(node, inputs, 1));
    const BroadcastLoop loop({outputs[0], inputs[0].desc, second});
    const auto few = few_channels(outputs[0], inputs[0].desc, second);
    return dispatch<F::kTypes>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [f, loop, few, rows = row_functions(request.cpu.isa)](
              std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            using Out = std::conditional_t<kToBool, bool, T>;
            if (few) {
              const std::int64_t count = loop.elements() / few->channels;
              parallel_for(context, count, 2 * few->channels, [&](std::int64_t begin, std::int64_t end) {
                positions<T, Out>(f, rows, *few, static_cast<const T*>(in[0]), static_cast<const T*>(in[1]),
                                  static_cast<Out*>(out[0]), begin, end);
              });
              return {};
            }
            parallel_for(context, loop.elements(), 2, [&](std::int64_t begin, std::int64_t end) {
              loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                row(f, rows, static_cast<const T*>(in[0]) + at[1], loop.inner_stride(1),
                    static_cast<const T*>(in[1]) + at[2], loop.inner_stride(2), static_cast<Out*>(out[0]) + at[0],
                    loop.inner_stride(0), count);
              });
            });
            return {};
          });
    });
  }

 private:
  // Values of b are repeated for some positions, which are then a row of their own.
  template <class T, class Out>
  static void positions(const F& f, const RowFunctions* rows, const FewChannels& few, const T* a, const T* b, Out* y,
                        std::int64_t begin, std::int64_t end) {
    std::array<T, 4 * kMostFewChannels> repeated;
    const std::int64_t channels = few.channels, most = static_cast<std::int64_t>(repeated.size()) / channels;
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t sample = at / few.positions, last = std::min(end, (sample + 1) * few.positions);
      const T* const of_sample = b + sample * few.sample_stride;
      for (std::int64_t p = 0; p < std::min(most, last - at); ++p) {
        std::copy_n(of_sample, channels, repeated.data() + p * channels);
      }
      for (std::int64_t n; at < last; at += n) {
        n = std::min(most, last - at);
        row(f, rows, a + at * channels, 1, repeated.data(), 1, y + at * channels, 1, n * channels);
      }
    }
  }

  // y = f(a, b) of halves made f32; the buffer may be a or b.
  template <class Out>
  static void store(const F& f, bool vectors, const float* a, const float* b, Out* y, std::int64_t y_stride,
                    std::int64_t count, float* buffer) {
    if constexpr (std::is_same_v<Out, bool>) {
      for (std::int64_t i = 0; i < count; ++i) y[i * y_stride] = f(a[i], b[i]);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) buffer[i] = f(a[i], b[i]);
      store_row(vectors, buffer, count, y, y_stride);
    }
  }

  template <class T, class Out>
  static void row(const F& f, const RowFunctions* rows, const T* a, std::int64_t a_stride, const T* b,
                  std::int64_t b_stride, Out* y, std::int64_t y_stride, std::int64_t count) {
    using C = Compute<T>;
    if constexpr (has_row_functions<T> && requires { F::kVectors; }) {
      if (rows != nullptr && y_stride == 1 && a_stride <= 1 && b_stride <= 1 && a_stride + b_stride > 0) {
        return rows->combine(F::kVectors, float_type<T>, a, a_stride, b, b_stride, y, count);
      }
    }
    // The usual strides get loops of their own, which vectorise; y is a or b, or does not overlap them.
    if constexpr (is_half<T>) {
      const bool vectors = rows != nullptr;
      RowBuffer first, second;
      for (std::int64_t start = 0; start < count; start += kRowChunk) {
        const std::int64_t n = std::min(kRowChunk, count - start);
        const float* from_a = load_row(vectors, a + start * a_stride, a_stride, n, first.data());
        const float* from_b = load_row(vectors, b + start * b_stride, b_stride, n, second.data());
        store(f, vectors, from_a, from_b, y + start * y_stride, y_stride, n, first.data());
      }
      return;
    } else if constexpr (!is_small_float<T>) {
      if (y_stride == 1 && a_stride == 1 && b_stride == 1) {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < count; ++i) y[i] = Out(f(a[i], b[i]));
        return;
      }
      if (y_stride == 1 && a_stride == 1 && b_stride == 0) {
        const T scalar = *b;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < count; ++i) y[i] = Out(f(a[i], scalar));
        return;
      }
      if (y_stride == 1 && a_stride == 0 && b_stride == 1) {
        const T scalar = *a;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < count; ++i) y[i] = Out(f(scalar, b[i]));
        return;
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      y[i * y_stride] = Out(f(static_cast<C>(a[i * a_stride]), static_cast<C>(b[i * b_stride])));
    }
  }
};

// Base of functions without parameters.
template <class F, TypeSet kSet>
struct PlainBinary {
  static constexpr TypeSet kTypes = kSet;
  static Result<F> make(const NodeDesc&, DataType) { return F{}; }
};

}  // namespace convoy::ops
