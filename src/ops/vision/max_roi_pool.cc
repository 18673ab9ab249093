// MaxRoiPool: the largest element of each bin of a region, whose edges are whole pixels (Girshick, Fast R-CNN, 2015); 0
// where a bin has none. Edges are rounded as ONNX Runtime rounds them, in f32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

class MaxRoiPool final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, only(inputs[0].desc.type)));
    CONVOY_TRY(const Bins bins, read(node));
    const Dims &x = inputs[0].desc.dims, &rois = inputs[1].desc.dims;
    if (x.size() != 4 || rois.size() != 2 || rois[1] != 5) {
      return bad_node(node, fmt::format("inputs have dims [{}] and [{}]; NxCxHxW and Rx5 are needed", to_string(x),
                                        to_string(rois)));
    }
    return one_output(node, inputs[0].desc.type, {rois[0], x[1], bins.height, bins.width});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Bins bins, read(node));
    return dispatch<kMathFloats>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [bins, dims = inputs[0].desc.dims, rois = outputs[0].dims[0]](
                           auto in, auto out, const ExecContext& context) -> Result<void> {
                         const T* const regions = static_cast<const T*>(in[1]);
                         CONVOY_CHECK(check(regions, rois, dims[0]));
                         const std::int64_t plane = dims[2] * dims[3], count = bins.height * bins.width;
                         parallel_for(context, rois * dims[1], plane, [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const T* const region = regions + i / dims[1] * 5;
                             const auto image = static_cast<std::int64_t>(number(region[0]));
                             pool(bins, region, dims[2], dims[3],
                                  static_cast<const T*>(in[0]) + (image * dims[1] + i % dims[1]) * plane,
                                  static_cast<T*>(out[0]) + i * count);
                           }
                         });
                         return {};
                       });
    });
  }

 private:
  // Whole numbers of 64 bits hold what becomes of an edge.
  static constexpr float kMostEdge = 1e9F;
  static constexpr double kMostScale = 1e6;

  struct Bins {
    std::int64_t height, width;
    float scale;
  };

  template <class T>
  static float number(T value) {
    return static_cast<float>(static_cast<Compute<T>>(value));
  }

  static Result<Bins> read(const NodeDesc& node) {
    CONVOY_TRY(const std::vector<std::int64_t> shape, node.integers("pooled_shape", {}));
    CONVOY_TRY(const double scale, node.real("spatial_scale", 1));
    if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
      return bad_node(node, fmt::format("pooled_shape=[{}] must be two sizes of 1 or more", fmt::join(shape, ",")));
    }
    if (!(std::abs(scale) <= kMostScale))
      return bad_node(node, fmt::format("spatial_scale={} is far too large", scale));
    return Bins{shape[0], shape[1], static_cast<float>(scale)};
  }

  template <class T>
  static Result<void> check(const T* regions, std::int64_t count, std::int64_t images) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float image = number(regions[i * 5]);
      if (!(image >= 0 && image < static_cast<float>(images))) {
        return Error{
            ErrorCode::invalid_argument,
            fmt::format("MaxRoiPool: input 1 (rois) names the image {} at {}, outside [0, {})", image, i, images)};
      }
      for (int edge = 1; edge < 5; ++edge) {
        if (!(std::abs(number(regions[i * 5 + edge])) <= kMostEdge)) {
          return Error{
              ErrorCode::invalid_argument,
              fmt::format("MaxRoiPool: input 1 (rois) has a region {} that is not finite or far too large", i)};
        }
      }
    }
    return {};
  }

  // The pixels of bin i: [first, second).
  static std::pair<std::int64_t, std::int64_t> range(float from, float to, float scale, std::int64_t i,
                                                     std::int64_t bins, std::int64_t size) {
    const auto first = static_cast<std::int64_t>(std::round(from * scale));
    const auto last = static_cast<std::int64_t>(std::round(to * scale));
    const float step = static_cast<float>(std::max<std::int64_t>(last - first + 1, 1)) / static_cast<float>(bins);
    const auto low = static_cast<std::int64_t>(std::floor(static_cast<float>(i) * step));
    const auto high = static_cast<std::int64_t>(std::ceil(static_cast<float>(i + 1) * step));
    return {std::clamp<std::int64_t>(low + first, 0, size), std::clamp<std::int64_t>(high + first, 0, size)};
  }

  template <class T>
  static void pool(const Bins& bins, const T* region, std::int64_t height, std::int64_t width, const T* x, T* y) {
    for (std::int64_t i = 0; i < bins.height * bins.width; ++i) {
      const auto [top, bottom] =
          range(number(region[2]), number(region[4]), bins.scale, i / bins.width, bins.height, height);
      const auto [left, right] =
          range(number(region[1]), number(region[3]), bins.scale, i % bins.width, bins.width, width);
      const bool some = top < bottom && left < right;
      T largest = some ? x[top * width + left] : static_cast<T>(0);
      for (std::int64_t row = top; some && row < bottom; ++row) {
        for (std::int64_t column = left; column < right; ++column) {
          const T value = x[row * width + column];
          if (static_cast<Compute<T>>(value) > static_cast<Compute<T>>(largest)) largest = value;
        }
      }
      y[i] = largest;
    }
  }
};

const MaxRoiPool op_MaxRoiPool;

}  // namespace

std::vector<OperatorRow> max_roi_pool_rows() {
  return {{"MaxRoiPool", &op_MaxRoiPool, images::mixed, Rate::windows, values::mixed, in_place::never,
           layouts::row_major, kMathFloats}};
}

}  // namespace convoy::ops
