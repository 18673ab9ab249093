// Clip: y = min(max(x, low), high). The bounds are attributes before opset 11 and optional scalar inputs since; where
// low > high the result is high, and NaN stays NaN.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/from_real.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/row_functions.h"
#include "ops/rows.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// Elements of one row; y is x, or does not overlap it.
template <class T, class C>
void clip_row(const RowFunctions* rows, const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride,
              std::int64_t count, C low, C high) {
  const auto clip = [&](C value) {
    value = value < low ? low : value;
    return value > high ? high : value;
  };
  if constexpr (has_row_functions<T>) {
    if (rows != nullptr && x_stride == 1 && y_stride == 1) {
      return rows->map({RowFunction::clip, low, high}, float_type<T>, x, y, count);
    }
  }
  if constexpr (is_half<T>) {
    in_f32(rows != nullptr, x, x_stride, y, y_stride, count,
           [&](const float* from, float* to, std::int64_t, std::int64_t n) {
#pragma GCC ivdep
             for (std::int64_t i = 0; i < n; ++i) to[i] = clip(from[i]);
           });
  } else if (std::is_same_v<T, std::int8_t> && x_stride == 1 && y_stride == 1) {
    // Moved up by 128: any vectors have the least and the largest of unsigned bytes, and not of signed ones.
    const auto moved = [](auto value) { return static_cast<std::uint8_t>(static_cast<std::uint8_t>(value) ^ 0x80U); };
    const std::uint8_t least = moved(low), most = moved(high);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint8_t value = moved(x[i]);
      value = value < least ? least : value;
      value = value > most ? most : value;
      y[i] = T(moved(value));
    }
  } else if (x_stride == 1 && y_stride == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) y[i] = T(clip(static_cast<C>(x[i])));
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i * y_stride] = T(clip(static_cast<C>(x[i * x_stride])));
  }
}

class Clip final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, node.opset < 11 ? 1 : 3));
    CONVOY_CHECK(check_same_type(node, inputs));
    for (const char* bound : {"min", "max"}) {
      if (auto value = node.real(bound, 0); !value.ok()) return value.error();
    }
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].present && inputs[i].desc.elements() != 1) {
        return bad_node(node,
                        fmt::format("input {} has dims [{}], it must be a scalar", i, to_string(inputs[i].desc.dims)));
      }
    }
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc});
    return dispatch<kMathNumeric>(outputs[0].type, [&]<class T>(Tag<T>) -> Result<std::unique_ptr<OpPlan>> {
      using C = Compute<T>;
      constexpr bool kFloat = is_float_element<T>;
      // Infinite bounds leave infinities alone; the lowest finite value, ONNX's default, clips -inf only in name.
      C low = kFloat ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
      C high = kFloat ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
      if (node.opset < 11) {
        CONVOY_TRY(const double given_low, node.real("min", static_cast<double>(low)));
        CONVOY_TRY(const double given_high, node.real("max", static_cast<double>(high)));
        if (node.has("min")) low = from_real<C>(given_low);
        if (node.has("max")) high = from_real<C>(given_high);
      }
      const bool has_low = is_present(inputs, 1), has_high = is_present(inputs, 2);
      const RowFunctions* const rows = row_functions(request.cpu.isa);
      return make_plan(
          node,
          [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            const C a = has_low ? static_cast<C>(*static_cast<const T*>(in[1])) : low;
            const C b = has_high ? static_cast<C>(*static_cast<const T*>(in[2])) : high;
            parallel_for(context, loop.elements(), 1, [&](std::int64_t begin, std::int64_t end) {
              loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                clip_row(rows, static_cast<const T*>(in[0]) + at[1], loop.inner_stride(1),
                         static_cast<T*>(out[0]) + at[0], loop.inner_stride(0), count, a, b);
              });
            });
            return {};
          });
    });
  }
};

const Clip op_Clip;

}  // namespace

std::vector<OperatorRow> clip_rows() {
  return {{"Clip", &op_Clip, images::element_wise, Rate::elements, values::mapped, in_place::first,
           layouts::channels_alike, kMathNumeric}};
}

}  // namespace convoy::ops
