// PRelu: y = x < 0 ? slope * x : x, the slope broadcasting to x.
#include <fmt/format.h>

#include "ops/families.h"
#include "ops/rows.h"
#include "ops/unary.h"

namespace convoy::ops {
namespace {

class PRelu final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_same_type(node, inputs, kMathNumeric));
    const TensorDesc& x = inputs[0].desc;
    const Dims shapes[] = {x.dims, slope_operand(node, inputs).dims};
    CONVOY_TRY(const Dims dims, broadcast_dims(node, shapes));
    if (dims != x.dims) {
      return bad_node(node, fmt::format("input 1 (slope) with dims [{}] does not broadcast to input 0 with [{}]",
                                        to_string(inputs[1].desc.dims), to_string(x.dims)));
    }
    return one_output(node, x.type, x.dims);
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }
  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc, slope_operand(node, inputs)});
    return dispatch<kMathNumeric>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [loop, vectors = has_row_vectors(request)](std::span<const void* const> in, std::span<void* const> out,
                                                     const ExecContext& context) -> Result<void> {
            parallel_for(context, loop.elements(), 2, [&](std::int64_t begin, std::int64_t end) {
              loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                row(vectors, static_cast<const T*>(in[0]) + at[1], loop.inner_stride(1),
                    static_cast<const T*>(in[1]) + at[2], loop.inner_stride(2), static_cast<T*>(out[0]) + at[0],
                    loop.inner_stride(0), count);
              });
            });
            return {};
          });
    });
  }

 private:
  // Before opset 7 a slope of one dim is one value a channel (or one for all).
  static TensorDesc slope_operand(const NodeDesc& node, std::span<const Input> inputs) {
    TensorDesc slope = inputs[1].desc;
    const TensorDesc& x = inputs[0].desc;
    if (node.opset < 7 && slope.rank() == 1 && x.rank() > 2 && slope.dims[0] == x.dims[1]) {
      slope.dims.resize(x.rank() - 1, 1);
      slope.strides.resize(x.rank() - 1, 1);
    }
    return slope;
  }

  // Integers wrap, as those of Mul do.
  template <class C>
  static C product(C a, C b) {
    if constexpr (std::is_integral_v<C>) {
      return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }

  template <class T>
  static void row(bool vectors, const T* x, std::int64_t x_stride, const T* slope, std::int64_t slope_stride, T* y,
                  std::int64_t y_stride, std::int64_t count) {
    using C = Compute<T>;
    if constexpr (std::is_same_v<C, float>) {
      RowBuffer slopes;
      in_f32(vectors, x, x_stride, y, y_stride, count,
             [&](const float* from, float* to, std::int64_t offset, std::int64_t n) {
               if (slope_stride == 0) {
                 const float factor = static_cast<float>(*slope);
#pragma GCC ivdep  // y is x or does not overlap it
                 for (std::int64_t i = 0; i < n; ++i) {
                   const float scaled = from[i] * factor;
                   to[i] = from[i] < 0 ? scaled : from[i];
                 }
                 return;
               }
               for (std::int64_t at = 0; at < n; at += kRowChunk) {
                 const std::int64_t m = std::min(kRowChunk, n - at);
                 const float* factors =
                     load_row(vectors, slope + (offset + at) * slope_stride, slope_stride, m, slopes.data());
                 const float* in = from + at;
                 float* out = to + at;
#pragma GCC ivdep
                 for (std::int64_t i = 0; i < m; ++i) {
                   const float scaled = in[i] * factors[i];
                   out[i] = in[i] < 0 ? scaled : in[i];
                 }
               }
             });
    } else if (slope_stride == 0 && x_stride == 1 && y_stride == 1) {
      const C factor = *slope;
#pragma GCC ivdep  // y is x or does not overlap it
      for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] < C(0) ? T(product(C(x[i]), factor)) : x[i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        const C value = x[i * x_stride];
        y[i * y_stride] = T(value < C(0) ? product(value, C(slope[i * slope_stride])) : value);
      }
    }
  }
};

const PRelu op_PRelu;

}  // namespace

std::vector<OperatorRow> prelu_rows() { return {{"PRelu", &op_PRelu}}; }

}  // namespace convoy::ops
