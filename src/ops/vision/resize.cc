// Resize and Upsample. Nearest is an index map a dim; linear and cubic are separable: one pass an axis.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "ops/movement/mapped_copy.h"
#include "ops/operator_row.h"
#include "ops/rows.h"
#include "ops/vision/resize_passes.h"

namespace convoy::ops {
namespace {

template <class E, std::size_t N>
Result<E> choose(const NodeDesc& node, const char* attribute, const char* fallback,
                 const std::pair<const char*, E> (&names)[N]) {
  CONVOY_TRY(const std::string text, node.text(attribute, fallback));
  for (const auto& [name, value] : names) {
    if (text == name) return value;
  }
  return bad_node(node, fmt::format("{}='{}' is not known", attribute, text));
}

Result<ResizeMode> mode_of(const NodeDesc& node) {
  return choose<ResizeMode>(node, "mode", "nearest",
                            {{"nearest", ResizeMode::nearest},
                             {"linear", ResizeMode::linear},
                             {"bilinear", ResizeMode::linear},
                             {"cubic", ResizeMode::cubic}});
}

Result<ResizeMethod> method_of(const NodeDesc& node) {
  ResizeMethod method;
  CONVOY_TRY(method.mode, mode_of(node));
  if (node.op == "Upsample") return method;
  if (node.opset < 11) {
    method.nearest = NearestMode::simple;
    return method;
  }
  CONVOY_TRY(method.coordinates, choose<Coordinates>(node, "coordinate_transformation_mode", "half_pixel",
                                                     {{"half_pixel", Coordinates::half_pixel},
                                                      {"half_pixel_symmetric", Coordinates::half_pixel_symmetric},
                                                      {"pytorch_half_pixel", Coordinates::pytorch_half_pixel},
                                                      {"align_corners", Coordinates::align_corners},
                                                      {"asymmetric", Coordinates::asymmetric},
                                                      {"tf_half_pixel_for_nn", Coordinates::tf_half_pixel_for_nn},
                                                      {"tf_crop_and_resize", Coordinates::tf_crop_and_resize}}));
  CONVOY_TRY(method.nearest, choose<NearestMode>(node, "nearest_mode", "round_prefer_floor",
                                                 {{"round_prefer_floor", NearestMode::round_prefer_floor},
                                                  {"round_prefer_ceil", NearestMode::round_prefer_ceil},
                                                  {"floor", NearestMode::floor},
                                                  {"ceil", NearestMode::ceil}}));
  CONVOY_TRY(method.cubic_a, node.real("cubic_coeff_a", -0.75));
  CONVOY_TRY(const std::int64_t exclude, node.integer("exclude_outside", 0));
  CONVOY_TRY(const std::int64_t antialias, node.integer("antialias", 0));
  CONVOY_TRY(method.extrapolation, node.real("extrapolation_value", 0));
  method.exclude_outside = exclude != 0;
  method.antialias = antialias != 0;
  return method;
}

Result<void> apply_scales(const NodeDesc& node, const std::vector<double>& scales, const std::vector<int>& named,
                          ResizeRequest& request) {
  if (scales.size() != named.size()) {
    return bad_node(node, fmt::format("scales has {} entries for {} axes", scales.size(), named.size()));
  }
  for (std::size_t i = 0; i < named.size(); ++i) {
    ResizeAxis& axis = request.axes[named[i]];
    // In f32, as the scales are: 10 times 0.7 is 7.
    const double out = std::floor(static_cast<float>(axis.in) * static_cast<float>(scales[i]));
    if (!(scales[i] > 0) || !(out < 9e18)) {
      return bad_node(node, fmt::format("scales[{}]={} for a dim of {}", i, scales[i], axis.in));
    }
    axis.scale = scales[i];
    axis.out = static_cast<std::int64_t>(out);
  }
  return {};
}

Result<void> apply_sizes(const NodeDesc& node, const Dims& sizes, const std::vector<int>& named,
                         ResizeRequest& request) {
  if (sizes.size() != named.size()) {
    return bad_node(node, fmt::format("sizes has {} entries for {} axes", sizes.size(), named.size()));
  }
  CONVOY_TRY(const std::string policy, node.text("keep_aspect_ratio_policy", "stretch"));
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    return bad_node(node, "keep_aspect_ratio_policy='" + policy + "' is not stretch, not_larger or not_smaller");
  }
  double common = policy == "not_larger" ? INFINITY : 0;
  for (std::size_t i = 0; i < named.size(); ++i) {
    ResizeAxis& axis = request.axes[named[i]];
    if (sizes[i] < 0 || (axis.in == 0 && sizes[i] != 0)) {
      return bad_node(node, fmt::format("sizes[{}]={} for a dim of {}", i, sizes[i], axis.in));
    }
    axis.out = sizes[i];
    axis.scale = axis.in == 0 ? 1 : static_cast<double>(axis.out) / static_cast<double>(axis.in);
    common = policy == "not_larger" ? std::min(common, axis.scale) : std::max(common, axis.scale);
  }
  if (policy == "stretch") return {};
  for (const int d : named) {
    ResizeAxis& axis = request.axes[d];
    const double out = std::floor(static_cast<double>(axis.in) * common + 0.5);
    if (!(out < 9e18)) return bad_node(node, "an output dim overflows");
    axis.scale = common;
    axis.out = static_cast<std::int64_t>(out);
  }
  return {};
}

}  // namespace

Result<ResizeRequest> resize_request(const NodeDesc& node, std::span<const Input> inputs) {
  ResizeRequest request;
  CONVOY_TRY(request.method, method_of(node));
  const Dims& dims = inputs[0].desc.dims;
  const int rank = static_cast<int>(dims.size());
  for (const std::int64_t dim : dims) request.axes.push_back({dim, dim});
  std::vector<int> named(rank);
  std::iota(named.begin(), named.end(), 0);
  if (node.has("axes")) {
    CONVOY_TRY(const Dims given, node.integers("axes", {}));
    CONVOY_TRY(named, normalize_axes(node, given, rank));
  }
  const bool one_input = node.op == "Upsample" || node.opset < 11;
  if (one_input) {
    std::vector<double> scales;
    if (is_present(inputs, 1)) {
      CONVOY_TRY(scales, constant_reals(node, inputs, 1));
    } else if (node.opset < 7) {  // two names for what is a list since
      CONVOY_TRY(const double height, node.real("height_scale", 0));
      CONVOY_TRY(const double width, node.real("width_scale", 0));
      scales = {1, 1, height, width};
    } else {
      CONVOY_TRY(scales, node.reals("scales", {}));
    }
    CONVOY_CHECK(apply_scales(node, scales, named, request));
    return request;
  }
  // An empty tensor stands for an absent input: opset 11 has no other way to leave out scales.
  const auto given = [&](int index) { return is_present(inputs, index) && inputs[index].desc.elements() > 0; };
  if (given(2) == given(3)) return bad_node(node, "one of the inputs 2 (scales) and 3 (sizes) must be given");
  if (given(2)) {
    CONVOY_TRY(const std::vector<double> scales, constant_reals(node, inputs, 2));
    CONVOY_CHECK(apply_scales(node, scales, named, request));
  } else {
    CONVOY_TRY(const Dims sizes, constant_integers(node, inputs, 3));
    CONVOY_CHECK(apply_sizes(node, sizes, named, request));
  }
  if (request.method.coordinates == Coordinates::tf_crop_and_resize) {
    CONVOY_TRY(const std::vector<double> roi, constant_reals(node, inputs, 1));
    if (roi.size() != 2 * named.size()) {
      return bad_node(node, fmt::format("input 1 (roi) has {} entries for {} axes", roi.size(), named.size()));
    }
    for (std::size_t i = 0; i < named.size(); ++i) {
      request.axes[named[i]].roi_begin = roi[i];
      request.axes[named[i]].roi_end = roi[named.size() + i];
    }
  }
  return request;
}

namespace {

template <class C>
std::unique_ptr<OpPlan> passes_plan(const NodeDesc& node, const ResizeRequest& request, const TensorDesc& x,
                                    const TensorDesc& y, const PlanRequest& plan_request) {
  std::vector<int> order(x.rank());  // dims as they lie in memory
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return y.strides[a] > y.strides[b]; });
  std::vector<ResizeAxis> axes;
  for (const int d : order) axes.push_back(request.axes[d]);
  const ResizePasses<C> passes(request.method, axes, x.type, plan_request.threads);
  return make_plan(
      node,
      [passes, functions = row_functions(plan_request.cpu.isa)](auto in, auto out,
                                                                const ExecContext& context) -> Result<void> {
        passes.run(functions, in[0], out[0], context);
        return {};
      },
      passes.workspace_bytes());
}

class Resize final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    if (node.op == "Upsample") return node.opset >= 9 ? std::vector<int>{1} : std::vector<int>{};
    return node.opset < 11 ? std::vector<int>{1} : std::vector<int>{1, 2, 3};
  }
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    if (node.op == "Upsample") {
      CONVOY_CHECK(node.opset >= 9 ? check_counts(node, inputs, 2, 2) : check_counts(node, inputs, 1, 1));
    } else {
      CONVOY_CHECK(node.opset < 11 ? check_counts(node, inputs, 2, 2) : check_counts(node, inputs, 1, 4));
    }
    CONVOY_TRY(const ResizeRequest request, resize_request(node, inputs));
    if (request.method.mode != ResizeMode::nearest) CONVOY_CHECK(check_type(node, inputs, 0, kNumeric));
    Dims dims;
    for (const ResizeAxis& axis : request.axes) dims.push_back(axis.out);
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs,
                                       const PlanRequest& plan_request) const override {
    CONVOY_TRY(const ResizeRequest request, resize_request(node, inputs));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    if (y.elements() == 0) {
      return make_plan(node, [](auto, auto, const ExecContext&) -> Result<void> { return {}; });
    }
    CONVOY_CHECK(check_mappable(node, y));
    if (request.method.mode == ResizeMode::nearest) {
      const MappedCopy copy(x, y, [&](int d, std::int64_t o) -> std::int64_t {
        const ResizeAxis& axis = request.axes[d];
        if (axis.is_identity(request.method)) return o;
        const double at = source_coordinate(request.method, axis, o);
        return is_extrapolated(request.method, axis, at) ? -1 : nearest_index(request.method, axis, at);
      });
      std::vector<std::byte> fill(8);
      store_from_double(x.type, fill.data(), 0, request.method.extrapolation);
      return make_plan(node, [copy, fill](auto in, auto out, const ExecContext& context) -> Result<void> {
        copy.run(in[0], out[0], fill.data(), context);
        return {};
      });
    }
    // Intermediates have dims between those of x and y; the largest must be countable.
    Dims largest;
    for (int d = 0; d < x.rank(); ++d) largest.push_back(std::max(x.dims[d], y.dims[d]));
    if (auto count = checked_elements(largest, 4 * sizeof(double)); !count.ok()) return count.error().within(node.op);
    for (const std::int64_t dim : x.dims) {  // places in an axis are 32-bit numbers
      if (dim <= INT32_MAX) continue;
      return Error{ErrorCode::unsupported, fmt::format("{}: input 0 has dims [{}], of which none may be above {}",
                                                       node.op, to_string(x.dims), INT32_MAX)};
    }
    return contains(kResizedInF64, x.type) ? passes_plan<double>(node, request, x, y, plan_request)
                                           : passes_plan<float>(node, request, x, y, plan_request);
  }
};

const Resize resize;

// Sizes would be those of other samples and channels.
Taken layouts_of_resize(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  return (is_present(inputs, 3) ? layouts::plain : layouts::channels_alike)(node, inputs, layout);
}

// The index of the input that each output of an axis takes, where it is a line or a step.
std::optional<Index> index_of(const ResizeMethod& method, const ResizeAxis& axis, int d) {
  if (axis.out == 0 || axis.is_identity(method)) return Index{0, {{d}}};
  std::vector<std::int64_t> taken;
  for (std::int64_t o = 0; o < axis.out; ++o) {
    const double at = source_coordinate(method, axis, o);
    if (is_extrapolated(method, axis, at)) return std::nullopt;
    taken.push_back(nearest_index(method, axis, at));
  }
  IndexTerm term{d};
  if (axis.out > axis.in) term.divisor = axis.out / axis.in;
  if (axis.out < axis.in && axis.out > 1) term.factor = taken[1] - taken[0];
  const Index index{taken[0], {term}};
  Dims o(static_cast<std::size_t>(d) + 1, 0);
  for (o[d] = 0; o[d] < axis.out; ++o[d]) {
    if (index.at(o) != taken[o[d]]) return std::nullopt;
  }
  return index;
}

std::vector<IndexMap> map_of_resize(const NodeDesc& node, std::span<const Input> inputs,
                                    std::span<const TensorDesc> outputs) {
  const auto request = resize_request(node, inputs);
  if (!request.ok() || request->method.mode != ResizeMode::nearest) return {};
  if (!check_mappable(node, outputs[0]).ok()) return {};
  std::vector<Index> indices;
  for (std::size_t d = 0; d < request->axes.size(); ++d) {
    const auto index = index_of(request->method, request->axes[d], static_cast<int>(d));
    if (!index) return {};
    indices.push_back(*index);
  }
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

// The nearest element is one of the input's, unless it lies outside.
Values of_resize(const NodeDesc& node) {
  const auto mode = node.text("mode", "nearest");
  const auto transformation = node.text("coordinate_transformation_mode", "half_pixel");
  const bool moves = mode.ok() && *mode == "nearest" && transformation.ok() && *transformation != "tf_crop_and_resize";
  return {moves ? Values::moved : Values::mixed};
}

}  // namespace

std::vector<OperatorRow> resize_rows() {
  std::vector<OperatorRow> rows;
  for (const char* const name : {"Resize", "Upsample"}) {
    rows.emplace_back(name, &resize, images::resize, Rate::resizes, GivenValues{of_resize, map_of_resize},
                      in_place::never, layouts_of_resize, kEveryType);
  }
  return rows;
}

}  // namespace convoy::ops
