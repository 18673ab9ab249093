// Operators that map every element by itself: y[i] = f(x[i]). A family member is a struct F with
//   static constexpr TypeSet kTypes;                    the element types it takes
//   static Result<F> make(const NodeDesc&);             its parameters, read from the attributes
//   template <class C> R operator()(C x) const;         the function, in Compute<T>; R is bool where kToBool
//   RowFunction vectors() const;                        optional: the same with vectors, of f32 and halves
#pragma once

#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/support.h"

namespace convoy::ops {

// The floats that ONNX's arithmetic operators take (the 8-bit ones are for storage).
constexpr TypeSet kMathFloats = only(DataType::f64) | only(DataType::f32) | only(DataType::f16) | only(DataType::bf16);
constexpr TypeSet kMathNumeric = kMathFloats | kIntegers;

template <class F, bool kToBool = false>
class UnaryOperator final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_CHECK(check_type(node, inputs, 0, F::kTypes));
    if (auto f = F::make(node); !f.ok()) return f.error();
    return one_output(node, kToBool ? DataType::boolean : inputs[0].desc.type, inputs[0].desc.dims);
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }
  bool treats_channels_alike(const NodeDesc&, std::span<const Input>) const override { return true; }
  int in_place_input(const NodeDesc&) const override { return kToBool ? -1 : 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const F f, F::make(node));
    const BroadcastLoop loop({outputs[0], inputs[0].desc});
    return dispatch<F::kTypes>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [f, loop, rows = row_functions(request.cpu.isa)](std::span<const void* const> in, std::span<void* const> out,
                                                           const ExecContext& context) -> Result<void> {
            using Out = std::conditional_t<kToBool, bool, T>;
            const T* x = static_cast<const T*>(in[0]);
            Out* y = static_cast<Out*>(out[0]);
            parallel_for(context, loop.elements(), 4, [&](std::int64_t begin, std::int64_t end) {
              loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                apply(f, rows, x + at[1], loop.inner_stride(1), y + at[0], loop.inner_stride(0), count);
              });
            });
            return {};
          });
    });
  }

 private:
  template <class T, class Out>
  static void apply(const F& f, const RowFunctions* rows, const T* x, std::int64_t x_stride, Out* y,
                    std::int64_t y_stride, std::int64_t count) {
    if constexpr (std::is_same_v<T, Out> && has_row_functions<T>) {
      if constexpr (requires { f.vectors(); }) {
        if (rows != nullptr && x_stride == 1 && y_stride == 1)
          return rows->map(f.vectors(), float_type<T>, x, y, count);
      }
      in_f32(rows != nullptr, x, x_stride, y, y_stride, count,
             [&](const float* from, float* to, std::int64_t, std::int64_t n) { row(f, rows, from, to, n); });
    } else if (x_stride == 1 && y_stride == 1) {
#pragma GCC ivdep  // y is x or does not overlap it
      for (std::int64_t i = 0; i < count; ++i) y[i] = Out(f(static_cast<Compute<T>>(x[i])));
    } else {
      for (std::int64_t i = 0; i < count; ++i) y[i * y_stride] = Out(f(static_cast<Compute<T>>(x[i * x_stride])));
    }
  }

  [[gnu::noinline]] static void row(const F& f, [[maybe_unused]] const RowFunctions* rows, const float* x, float* y,
                                    std::int64_t count) {
    if constexpr (requires { f.vectors(); }) {
      if (rows != nullptr) return rows->map(f.vectors(), DataType::f32, x, y, count);
    }
#pragma GCC ivdep  // y is x or does not overlap it
    for (std::int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
  }
};

// Base of functions without parameters.
template <class F, TypeSet kSet>
struct PlainFunction {
  static constexpr TypeSet kTypes = kSet;
  static Result<F> make(const NodeDesc&) { return F{}; }
};

}  // namespace convoy::ops
