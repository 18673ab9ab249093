// LRN: y = x / (bias + alpha/size * sum of x^2 over `size` neighbouring channels)^beta. oneDNN's for f32 images and odd
// sizes (its window is symmetric), plain loops for the rest.
#include <fmt/format.h>

#include <cmath>

#include "ops/math_types.h"
#include "ops/onednn/onednn_plan.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

struct Parameters {
  std::int64_t size = 0;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
};

Result<Parameters> parameters_of(const NodeDesc& node) {
  Parameters p;
  CONVOY_TRY(p.size, node.integer("size", 0));
  if (p.size < 1) return bad_node(node, fmt::format("size={}, it must be at least 1", p.size));
  CONVOY_TRY(p.alpha, node.real("alpha", 1e-4));
  CONVOY_TRY(p.beta, node.real("beta", 0.75));
  CONVOY_TRY(p.bias, node.real("bias", 1));
  return p;
}

// The channels of one pixel, `x_step` and `y_step` apart.
template <class T>
void normalize_pixel(const Parameters& p, const T* x, std::int64_t x_step, T* y, std::int64_t y_step,
                     std::int64_t channels) {
  const std::int64_t before = (p.size - 1) / 2, after = p.size - 1 - before;
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::int64_t k = std::max<std::int64_t>(c - before, 0); k <= std::min(c + after, channels - 1); ++k) {
      sum += static_cast<double>(x[k * x_step]) * static_cast<double>(x[k * x_step]);
    }
    const double base = p.bias + p.alpha / static_cast<double>(p.size) * sum;
    y[c * y_step] = static_cast<T>(static_cast<double>(x[c * x_step]) * std::pow(base, -p.beta));
  }
}

class Lrn final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    if (auto p = parameters_of(node); !p.ok()) return p.error();
    const TensorDesc& x = inputs[0].desc;
    if (x.rank() < 2) return bad_node(node, fmt::format("input 0 has rank {}, it needs N and C", x.rank()));
    return one_output(node, x.type, x.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const Parameters p, parameters_of(node));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    // A window wider than all channels is no business of a kernel generator.
    const bool usual_size = p.size % 2 == 1 && p.size < 2 * x.dims[1];
    if (x.type == DataType::f32 && usual_size && x.rank() == 4 && x.elements() > 0 && x.strides == y.strides) {
      if (auto plan = onednn_plan(p, x, request.threads); plan.ok()) return plan;
    }
    TensorDesc y_pixels = y, x_pixels = x;
    y_pixels.dims[1] = x_pixels.dims[1] = 1;
    const BroadcastLoop pixels({y_pixels, x_pixels});
    const std::int64_t channels = x.dims[1], x_step = x.strides[1], y_step = y.strides[1];
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            parallel_for(context, pixels.elements(), channels * 32, [&](std::int64_t begin, std::int64_t end) {
              pixels.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                for (std::int64_t i = 0; i < count; ++i) {
                  normalize_pixel(p, static_cast<const T*>(in[0]) + at[1] + i * pixels.inner_stride(1), x_step,
                                  static_cast<T*>(out[0]) + at[0] + i * pixels.inner_stride(0), y_step, channels);
                }
              });
            });
            return {};
          });
    });
  }

 private:
  static Result<std::unique_ptr<OpPlan>> onednn_plan(const Parameters& p, const TensorDesc& x, int threads) {
    using onednn::Argument;
    const auto desc = onednn::memory_desc(x);
    return onednn::make_plan(
        "lrn", threads,
        {{DNNL_ARG_SRC, Argument::From::input, 0, desc}, {DNNL_ARG_DST, Argument::From::output, 0, desc}},
        [&](const dnnl::engine& engine, const dnnl::primitive_attr& attributes) {
          return dnnl::lrn_forward::primitive_desc(
              engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, desc, desc, p.size,
              static_cast<float>(p.alpha), static_cast<float>(p.beta), static_cast<float>(p.bias), attributes);
        });
  }
};

const Lrn op_LRN;

}  // namespace

std::vector<OperatorRow> lrn_rows() {
  return {{"LRN", &op_LRN, images::each_alone, Rate::channel_normalizations, values::mixed, in_place::never,
           layouts::plain, kMathFloats}};
}

}  // namespace convoy::ops
