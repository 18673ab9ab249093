#include "ops/pooling/pooling.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/onednn/onednn_plan.h"

namespace convoy::ops {
namespace {

// Attributes and sizes below this keep every product of two of them within 63 bits.
constexpr std::int64_t kLargest = std::int64_t{1} << 30;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

Result<Dims> positive(const NodeDesc& node, const char* name, Dims fallback, std::int64_t least) {
  const std::size_t count = fallback.size();
  CONVOY_TRY(Dims values, node.integers(name, std::move(fallback)));
  if (values.size() != count) {
    return bad_node(node, fmt::format("{} has {} entries, it needs {}", name, values.size(), count));
  }
  for (const std::int64_t value : values) {
    if (value < least || value > kLargest) {
      return bad_node(node, fmt::format("{}=[{}] must be in [{}, {}]", name, fmt::join(values, ","), least, kLargest));
    }
  }
  return values;
}

}  // namespace

Result<PoolGeometry> read_pooling(const NodeDesc& node, const Dims& dims) {
  const int spatial = static_cast<int>(dims.size()) - 2;
  if (spatial > 3) {
    return Error{ErrorCode::unsupported, fmt::format("{}: input 0 has dims [{}], more than 3 spatial dims; {}", node.op,
                                                     to_string(dims), kFourSpatialDims)};
  }
  if (spatial < 1) {
    return bad_node(node, fmt::format("input 0 has dims [{}]; 1 to 3 spatial dims are needed", to_string(dims)));
  }
  if (!node.has("kernel_shape")) return bad_node(node, "attribute 'kernel_shape' is required");
  CONVOY_TRY(const Dims kernel, positive(node, "kernel_shape", Dims(spatial, 1), 1));
  CONVOY_TRY(const Dims strides, positive(node, "strides", Dims(spatial, 1), 1));
  CONVOY_TRY(const Dims dilations, positive(node, "dilations", Dims(spatial, 1), 1));
  CONVOY_TRY(const Dims pads, positive(node, "pads", Dims(2 * spatial, 0), 0));
  CONVOY_TRY(const std::int64_t ceil_mode, node.integer("ceil_mode", 0));
  CONVOY_TRY(const std::string auto_pad, node.text("auto_pad", "NOTSET"));
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty()) {
    return bad_node(node, "auto_pad='" + auto_pad + "' is not NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  }

  PoolGeometry geometry;
  geometry.spatial_dims = spatial;
  for (int d = 0; d < spatial; ++d) {
    PoolAxis& axis = geometry.axes[3 - spatial + d];
    axis = {dims[2 + d], 1, kernel[d], strides[d], dilations[d], pads[d], pads[spatial + d]};
    if (axis.in > kLargest) return bad_node(node, fmt::format("spatial dim {} is {}", d, axis.in));
    if (same) {
      axis.out = (axis.in + axis.stride - 1) / axis.stride;
      const std::int64_t total = std::max<std::int64_t>(0, (axis.out - 1) * axis.stride + axis.extent() - axis.in);
      axis.pad = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.pad_end = total - axis.pad;
      continue;
    }
    if (auto_pad == "VALID") axis.pad = axis.pad_end = 0;
    const std::int64_t room = axis.in + axis.pad + axis.pad_end - axis.extent();
    // Towards zero, as ONNX's shape inference and ONNX Runtime: a window too large by less than a stride still is one.
    const std::int64_t steps = ceil_mode != 0 ? -floor_div(-room, axis.stride)
                               : axis.in == 0 ? floor_div(room, axis.stride)
                                              : room / axis.stride;
    axis.out = axis.in == 0 ? std::max<std::int64_t>(steps + 1, 0) : steps + 1;
    if (axis.out < 0) {
      return bad_node(node, fmt::format("the window of {} is larger than spatial dim {} with its padding ({}+{}+{})",
                                        axis.extent(), d, axis.in, axis.pad, axis.pad_end));
    }
    if (ceil_mode != 0 && axis.out > 0 && (axis.out - 1) * axis.stride >= axis.in + axis.pad) --axis.out;
    // Before opset 19 ONNX Runtime counts all of such a window as padding, too.
    const bool counts_all = node.op == "AveragePool" && node.domain.empty() && node.opset < 19 && ceil_mode == 0;
    if (counts_all) axis.pad_end = std::max(axis.pad_end, axis.extent() - axis.in - axis.pad);
  }
  return geometry;
}

Dims pooled_dims(const PoolGeometry& geometry, const Dims& dims) {
  Dims result{dims[0], dims[1]};
  for (int d = 3 - geometry.spatial_dims; d < 3; ++d) result.push_back(geometry.axes[d].out);
  return result;
}

std::array<std::int64_t, 5> five_strides(const TensorDesc& desc) {
  std::array<std::int64_t, 5> strides{desc.strides[0], desc.strides[1], 0, 0, 0};
  const int spatial = desc.rank() - 2;
  for (int d = 0; d < spatial; ++d) strides[5 - spatial + d] = desc.strides[2 + d];
  return strides;
}

bool suits_channel_rows(const PoolGeometry& geometry, const TensorDesc& x, const TensorDesc& y) {
  constexpr std::int64_t kLeast = 8;  // f32 elements of a vector
  const bool apart =
      std::ranges::all_of(geometry.axes, [](const PoolAxis& axis) { return axis.kernel <= 2 * axis.stride; });
  return apart && x.dims[1] >= kLeast && x.strides[1] == 1 && y.strides[1] == 1;
}

std::unique_ptr<OpPlan> onednn_pooling(PoolKind kind, const PoolGeometry& geometry, const TensorDesc& x,
                                       const TensorDesc& y, int threads) {
  if (x.type != DataType::f32 || x.elements() == 0 || y.elements() == 0) return nullptr;
  Dims stride, kernel, dilation, before, after;
  for (int d = 3 - geometry.spatial_dims; d < 3; ++d) {
    const PoolAxis& axis = geometry.axes[d];
    // The padding that makes oneDNN's formula give our output size: more than the node's under ceil_mode.
    const std::int64_t end = (axis.out - 1) * axis.stride + axis.extent() - axis.in - axis.pad;
    if (kind == PoolKind::average_include_pad && end > axis.pad_end) return nullptr;
    // Windows that lie in the padding entirely mean different things to the two.
    if (axis.pad >= axis.extent() || end >= axis.extent()) return nullptr;
    // oneDNN does not say what a window gives whose taps all miss the input.
    if (axis.dilation > 1 && (axis.pad > 0 || end > 0)) return nullptr;
    stride.push_back(axis.stride);
    kernel.push_back(axis.kernel);
    dilation.push_back(axis.dilation - 1);
    before.push_back(axis.pad);
    after.push_back(std::max<std::int64_t>(0, end));
  }
  using onednn::Argument;
  const auto from = onednn::memory_desc(x), to = onednn::memory_desc(y);
  const auto algorithm = kind == PoolKind::max                   ? dnnl::algorithm::pooling_max
                         : kind == PoolKind::average_exclude_pad ? dnnl::algorithm::pooling_avg_exclude_padding
                                                                 : dnnl::algorithm::pooling_avg_include_padding;
  auto plan = onednn::make_plan(
      "pooling", threads,
      {{DNNL_ARG_SRC, Argument::From::input, 0, from}, {DNNL_ARG_DST, Argument::From::output, 0, to}},
      [&](const dnnl::engine& engine, const dnnl::primitive_attr& attributes) {
        return dnnl::pooling_forward::primitive_desc(engine, dnnl::prop_kind::forward_inference, algorithm, from, to,
                                                     stride, kernel, dilation, before, after, attributes);
      });
  // Its reference implementations are slower than our loops.
  if (!plan.ok() || (*plan)->notes()[0].find("jit") == std::string::npos) return nullptr;
  return std::move(*plan);
}

}  // namespace convoy::ops
