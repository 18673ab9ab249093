// DeformConv (2D): a convolution whose taps read x at places shifted by offsets, bilinearly, times a mask.
//   y[n,m,p,q] = b[m] + sum over c, i, j of w[m,c,i,j] * mask[n,(g,i,j),p,q] *
//                x[n, c, p*sh - ph + i*dh + offset[n,(g,i,j,0),p,q], q*sw - pw + j*dw + offset[n,(g,i,j,1),p,q]]
// with g the offset group of the channel; x is zero outside.
#include <fmt/format.h>

#include <cmath>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

struct Geometry {
  std::int64_t batch, channels, height, width;  // x
  std::int64_t outputs, kernel_h, kernel_w, out_h, out_w;
  std::int64_t groups, offset_groups;
  Dims stride, dilation, pad;
  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t columns() const { return channels * taps(); }
};

template <class T>
double bilinear(const T* plane, std::int64_t height, std::int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) return 0;
  const double y0 = std::floor(y), x0 = std::floor(x);
  const double fy = y - y0, fx = x - x0;
  const auto at = [&](std::int64_t row, std::int64_t column) -> double {
    if (row < 0 || column < 0 || row >= height || column >= width) return 0;
    return static_cast<double>(static_cast<Compute<T>>(plane[row * width + column]));
  };
  const std::int64_t r = static_cast<std::int64_t>(y0), c = static_cast<std::int64_t>(x0);
  return (1 - fy) * ((1 - fx) * at(r, c) + fx * at(r, c + 1)) + fy * ((1 - fx) * at(r + 1, c) + fx * at(r + 1, c + 1));
}

class DeformConv final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 5));
    CONVOY_CHECK(check_same_type(node, inputs));
    CONVOY_TRY(const Geometry g, read(node, inputs));
    return one_output(node, inputs[0].desc.type, {g.batch, g.outputs, g.out_h, g.out_w});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const Geometry g, read(node, inputs));
    // A column of sampled values a thread.
    auto scratch = checked_elements({g.columns(), request.threads}, sizeof(double));
    if (!scratch.ok()) return scratch.error().within(node.op);
    return dispatch<kMathFloats>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [g](auto in, auto out, const ExecContext& context) -> Result<void> {
            parallel_ranges(context.team(), g.batch * g.out_h * g.out_w,
                            [&](std::int64_t begin, std::int64_t end, int thread) {
                              double* column = static_cast<double*>(context.workspace) + thread * g.columns();
                              for (std::int64_t at = begin; at < end; ++at) point<T>(g, in, out, at, column);
                            });
            return {};
          },
          g.columns() * request.threads * sizeof(double));
    });
  }

 private:
  template <class T>
  static void point(const Geometry& g, std::span<const void* const> in, std::span<void* const> out, std::int64_t at,
                    double* column) {
    const std::int64_t area = g.out_h * g.out_w, place = at % area, n = at / area;
    const std::int64_t p = place / g.out_w, q = place % g.out_w;
    const T* x = static_cast<const T*>(in[0]) + n * g.channels * g.height * g.width;
    const T* w = static_cast<const T*>(in[1]);
    const auto load = [](const void* data, std::int64_t index) {
      return static_cast<double>(static_cast<Compute<T>>(static_cast<const T*>(data)[index]));
    };
    const void* bias = in.size() > 3 ? in[3] : nullptr;
    const void* mask = in.size() > 4 ? in[4] : nullptr;
    for (std::int64_t c = 0; c < g.channels; ++c) {
      const std::int64_t group = c / (g.channels / g.offset_groups);
      for (std::int64_t tap = 0; tap < g.taps(); ++tap) {
        const std::int64_t own = (n * g.offset_groups + group) * g.taps() + tap;
        const std::int64_t row = p * g.stride[0] - g.pad[0] + tap / g.kernel_w * g.dilation[0];
        const std::int64_t col = q * g.stride[1] - g.pad[1] + tap % g.kernel_w * g.dilation[1];
        const double y = static_cast<double>(row) + load(in[2], 2 * own * area + place);
        const double z = static_cast<double>(col) + load(in[2], (2 * own + 1) * area + place);
        const double value = bilinear(x + c * g.height * g.width, g.height, g.width, y, z);
        column[c * g.taps() + tap] = mask == nullptr ? value : value * load(mask, own * area + place);
      }
    }
    const std::int64_t per_group = g.columns() / g.groups;
    for (std::int64_t m = 0; m < g.outputs; ++m) {
      const double* from = column + m / (g.outputs / g.groups) * per_group;
      double sum = bias == nullptr ? 0 : load(bias, m);
      for (std::int64_t k = 0; k < per_group; ++k) {
        sum += from[k] * static_cast<double>(static_cast<Compute<T>>(w[m * per_group + k]));
      }
      static_cast<T*>(out[0])[(n * g.outputs + m) * area + place] = T(sum);
    }
  }

  static Result<Geometry> read(const NodeDesc& node, std::span<const Input> inputs) {
    const Dims &x = inputs[0].desc.dims, &w = inputs[1].desc.dims;
    if (x.size() != 4 || w.size() != 4) {
      return bad_node(node, fmt::format("inputs 0 and 1 have dims [{}] and [{}]; both must have rank 4", to_string(x),
                                        to_string(w)));
    }
    CONVOY_TRY(const Dims stride, node.integers("strides", {1, 1}));
    CONVOY_TRY(const Dims dilation, node.integers("dilations", {1, 1}));
    CONVOY_TRY(const Dims pads, node.integers("pads", {0, 0, 0, 0}));
    CONVOY_TRY(const Dims kernel, node.integers("kernel_shape", {w[2], w[3]}));
    CONVOY_TRY(const std::int64_t groups, node.integer("group", 1));
    CONVOY_TRY(const std::int64_t offset_groups, node.integer("offset_group", 1));
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;
    const auto valid = [&](const Dims& values, std::size_t count, std::int64_t least) {
      return values.size() == count &&
             std::all_of(values.begin(), values.end(), [&](auto v) { return v >= least && v <= kLargest; });
    };
    if (!valid(stride, 2, 1) || !valid(dilation, 2, 1) || !valid(pads, 4, 0) || !valid(w, 4, 1) || !valid(x, 4, 0) ||
        kernel != Dims{w[2], w[3]}) {
      return bad_node(node,
                      fmt::format("strides=[{}], dilations=[{}], pads=[{}], kernel_shape=[{}] for weights of dims "
                                  "[{}]",
                                  fmt::join(stride, ","), fmt::join(dilation, ","), fmt::join(pads, ","),
                                  fmt::join(kernel, ","), to_string(w)));
    }
    if (groups < 1 || offset_groups < 1 || x[1] % groups != 0 || x[1] % offset_groups != 0 || w[0] % groups != 0 ||
        w[1] != x[1] / groups) {
      return bad_node(node, fmt::format("group={} and offset_group={} do not fit {} channels and weights of dims [{}]",
                                        groups, offset_groups, x[1], to_string(w)));
    }
    Geometry g{x[0], x[1], x[2],   x[3],          w[0],   w[2],     w[3],
               0,    0,    groups, offset_groups, stride, dilation, {pads[0], pads[1]}};
    for (const int d : {0, 1}) {
      const std::int64_t room = x[2 + d] + pads[d] + pads[2 + d] - (w[2 + d] - 1) * dilation[d] - 1;
      if (room < 0)
        return bad_node(node, fmt::format("the weights are larger than spatial dim {} with its padding", d));
      (d == 0 ? g.out_h : g.out_w) = room / stride[d] + 1;
    }
    const auto check = [&](int index, const Dims& expected) -> Result<void> {
      if (!is_present(inputs, index) || inputs[index].desc.dims == expected) return {};
      return bad_node(node, fmt::format("input {} has dims [{}]; [{}] are needed", index,
                                        to_string(inputs[index].desc.dims), to_string(expected)));
    };
    CONVOY_CHECK(check(2, {x[0], offset_groups * g.taps() * 2, g.out_h, g.out_w}));
    CONVOY_CHECK(check(3, {w[0]}));
    CONVOY_CHECK(check(4, {x[0], offset_groups * g.taps(), g.out_h, g.out_w}));
    return g;
  }
};

const DeformConv deform_conv;

}  // namespace

std::vector<OperatorRow> deform_conv_rows() {
  return {{"DeformConv", &deform_conv, images::deform_conv, Rate::others, values::mixed, in_place::never,
           layouts::row_major, kMathFloats}};
}

}  // namespace convoy::ops
