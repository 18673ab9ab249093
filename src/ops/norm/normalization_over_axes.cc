// Normalisation over any axes: MeanVarianceNormalization, y = (x - mean) / (deviation + 1e-9) over `axes`, and
// LpNormalization, y = x / norm along one axis (0 where the norm is 0).
#include <fmt/format.h>

#include <cmath>

#include "ops/families.h"
#include "ops/reduce/reduce.h"
#include "ops/unary.h"

namespace convoy::ops {
namespace {

// One group of elements: its value of y for every element is (x - center) * factor.
struct Affine {
  double center = 0;
  double factor = 1;
};

struct MeanVariance {
  static Result<std::vector<bool>> axes(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::vector<std::int64_t> given, node.integers("axes", {0, 2, 3}));
    CONVOY_TRY(const std::vector<int> axes, normalize_axes(node, given, x.rank()));
    std::vector<bool> marks(x.rank(), false);
    for (const int axis : axes) marks[axis] = true;
    return marks;
  }
  static Result<MeanVariance> make(const NodeDesc&) { return MeanVariance{}; }
  template <class ForEach>
  Affine operator()(ForEach&& for_each, std::int64_t count) const {
    double sum = 0, squares = 0;
    for_each([&](double x) { sum += x; });
    const double mean = sum / static_cast<double>(count);
    for_each([&](double x) { squares += (x - mean) * (x - mean); });
    return {mean, 1 / (std::sqrt(squares / static_cast<double>(count)) + 1e-9)};
  }
};

struct LpNorm {
  std::int64_t p = 2;
  static Result<std::vector<bool>> axes(const NodeDesc& node, const TensorDesc& x) {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", -1));
    CONVOY_TRY(const int axis, normalize_axis(node, given, x.rank(), "axis"));
    std::vector<bool> marks(x.rank(), false);
    marks[axis] = true;
    return marks;
  }
  static Result<LpNorm> make(const NodeDesc& node) {
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    if (p != 1 && p != 2) return bad_node(node, fmt::format("p={}, it must be 1 or 2", p));
    return LpNorm{p};
  }
  template <class ForEach>
  Affine operator()(ForEach&& for_each, std::int64_t) const {
    double sum = 0;
    if (p == 1) {
      for_each([&](double x) { sum += std::abs(x); });
    } else {
      for_each([&](double x) { sum += x * x; });
    }
    const double norm = p == 1 ? sum : std::sqrt(sum);
    return {0, norm == 0 ? 0 : 1 / norm};
  }
};

template <class F>
class NormalizeOverAxes final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_CHECK(check_type(node, inputs, 0, kMathFloats));
    if (auto axes = F::axes(node, inputs[0].desc); !axes.ok()) return axes.error();
    if (auto f = F::make(node); !f.ok()) return f.error();
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }
  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::vector<bool> axes, F::axes(node, inputs[0].desc));
    CONVOY_TRY(const F f, F::make(node));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    const BroadcastLoop kept({cut(y, axes, true), cut(x, axes, true)});
    const BroadcastLoop group({cut(y, axes, false), cut(x, axes, false)});
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [f, kept, group](std::span<const void* const> in, std::span<void* const> out,
                                        const ExecContext& context) -> Result<void> {
                         parallel_for(
                             context, kept.elements(), group.elements() * 4, [&](std::int64_t begin, std::int64_t end) {
                               kept.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                                 for (std::int64_t i = 0; i < count; ++i) {
                                   normalize(f, group, static_cast<const T*>(in[0]) + at[1] + i * kept.inner_stride(1),
                                             static_cast<T*>(out[0]) + at[0] + i * kept.inner_stride(0));
                                 }
                               });
                             });
                         return {};
                       });
    });
  }

 private:
  template <class T>
  static void normalize(const F& f, const BroadcastLoop& group, const T* x, T* y) {
    using C = Compute<T>;
    const auto for_each = [&](auto&& visit) {
      group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) visit(static_cast<double>(x[at[1] + i * group.inner_stride(1)]));
      });
    };
    const Affine affine = f(for_each, group.elements());
    const auto center = static_cast<C>(affine.center), factor = static_cast<C>(affine.factor);
    group.run(0, group.elements(), [&](const std::int64_t* at, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        y[at[0] + i * group.inner_stride(0)] =
            T((static_cast<C>(x[at[1] + i * group.inner_stride(1)]) - center) * factor);
      }
    });
  }
};

const NormalizeOverAxes<MeanVariance> op_MeanVarianceNormalization;
const NormalizeOverAxes<LpNorm> op_LpNormalization;

}  // namespace

std::vector<OperatorRow> normalization_over_axes_rows() {
  return {{"MeanVarianceNormalization", &op_MeanVarianceNormalization}, {"LpNormalization", &op_LpNormalization}};
}

}  // namespace convoy::ops
