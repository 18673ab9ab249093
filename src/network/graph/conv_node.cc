#include "network/graph/conv_node.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

#include "base/checked.h"
#include "ops/pooling/pooling.h"

namespace convoy::network {
namespace {

// Strides, paddings and the like beyond this are refused: no tensor is that long, and sizes computed from two of them
// stay within 64 bits.
constexpr std::int64_t kMaxParameter = std::numeric_limits<std::int32_t>::max();

Error bad(const Node& node, const std::string& text) {
  return {ErrorCode::invalid_argument, describe(node) + ": " + text};
}

struct ConvAttributes {
  std::string auto_pad;
  Dims kernel, strides, dilations, pads;  // pads: all pre, then all post
  std::int64_t groups = 1;
};

Result<Dims> parameter(const Node& node, const char* name, std::size_t count, std::int64_t fallback,
                       std::int64_t least) {
  auto read = node.desc.integers(name, {});
  if (!read.ok()) return read.error().within(describe(node));
  Dims values = *read;
  if (values.empty()) return Dims(count, fallback);
  if (values.size() != count) {
    return bad(node, std::string("attribute '") + name + "' has " + std::to_string(values.size()) +
                         " values, the input needs " + std::to_string(count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] < least || values[i] > kMaxParameter) {
      return bad(node, std::string("attribute '") + name + "'[" + std::to_string(i) + "]=" + std::to_string(values[i]) +
                           " must be between " + std::to_string(least) + " and " + std::to_string(kMaxParameter));
    }
  }
  return values;
}

Result<ConvAttributes> read_attributes(const Node& node, const Dims& weight_dims) {
  ConvAttributes a;
  const std::size_t spatial = weight_dims.size() - 2;
  auto auto_pad = node.desc.text("auto_pad", "NOTSET");
  if (!auto_pad.ok()) return auto_pad.error().within(describe(node));
  a.auto_pad = *auto_pad;
  if (a.auto_pad != "NOTSET" && a.auto_pad != "SAME_UPPER" && a.auto_pad != "SAME_LOWER" && a.auto_pad != "VALID") {
    return bad(node, "attribute 'auto_pad'='" + a.auto_pad + "' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
  }
  auto groups = node.desc.integer("group", 1);
  if (!groups.ok()) return groups.error().within(describe(node));
  a.groups = *groups;
  if (a.groups < 1) return bad(node, "attribute 'group'=" + std::to_string(a.groups) + " must be at least 1");
  a.kernel = Dims(weight_dims.begin() + 2, weight_dims.end());
  auto kernel = node.desc.integers("kernel_shape", a.kernel);
  if (!kernel.ok()) return kernel.error().within(describe(node));
  if (*kernel != a.kernel && !kernel->empty()) {
    return bad(node, "attribute 'kernel_shape'=" + to_string(*kernel) + " does not match the weights' " +
                         to_string(weight_dims));
  }
  for (std::int64_t size : a.kernel) {
    if (size < 1 || size > kMaxParameter) return bad(node, "weights of dims " + to_string(weight_dims));
  }
  CONVOY_TRY(a.strides, parameter(node, "strides", spatial, 1, 1));
  CONVOY_TRY(a.dilations, parameter(node, "dilations", spatial, 1, 1));
  CONVOY_TRY(a.pads, parameter(node, "pads", 2 * spatial, 0, 0));
  if (a.auto_pad != "NOTSET") a.pads.assign(2 * spatial, 0);
  for (std::size_t i = 0; i < spatial; ++i) {
    if (saturating_mul(a.dilations[i], a.kernel[i] - 1) > kMaxParameter) {
      return bad(node, "attribute 'dilations'[" + std::to_string(i) + "]=" + std::to_string(a.dilations[i]) +
                           " makes the filter too long");
    }
  }
  return a;
}

std::int64_t extent(const ConvAttributes& a, std::size_t i) { return a.dilations[i] * (a.kernel[i] - 1) + 1; }

void set_same_padding(ConvAttributes& a, std::size_t i, std::int64_t total) {
  const std::size_t spatial = a.kernel.size();
  const std::int64_t half = total / 2;
  a.pads[i] = a.auto_pad == "SAME_UPPER" ? half : total - half;
  a.pads[spatial + i] = total - a.pads[i];
}

int bias_input(const Node& node, const ConvForm& form) {
  return node.fusion.bias != kAbsent ? node.fusion.bias : form.bias;
}

bool is_float_bias(const Node& node, std::span<const ops::Input> inputs) {
  return node.fusion.bias != kAbsent && inputs[node.fusion.bias].desc.type == DataType::f32;
}

Result<void> check_inputs(const Node& node, const ConvForm& form, std::span<const ops::Input> inputs) {
  if (static_cast<int>(inputs.size()) < form.least_inputs || static_cast<int>(inputs.size()) > form.inputs) {
    return bad(node, std::to_string(inputs.size()) + " inputs, it takes " + std::to_string(form.least_inputs) + " to " +
                         std::to_string(form.inputs));
  }
  for (int i = 0; i < form.least_inputs; ++i) {
    if (!inputs[i].present) return bad(node, "input " + std::to_string(i) + " is absent");
  }
  const TensorDesc& data = inputs[kConvData].desc;
  const TensorDesc& weights = inputs[form.weights].desc;
  if (data.rank() < 3) {
    return bad(node, "input 'X' of dims " + to_string(data.dims) + " has no spatial dims (N,C,spatial are needed)");
  }
  if (data.rank() > 5) {
    return Error{ErrorCode::unsupported, describe(node) + ": input 'X' of dims " + to_string(data.dims) +
                                             " has more than 3 spatial dims; " + std::string(ops::kFourSpatialDims)};
  }
  if (weights.rank() != data.rank()) {
    return bad(node,
               "weights of dims " + to_string(weights.dims) + " do not match the input's " + to_string(data.dims));
  }
  for (const Dims* dims : {&data.dims, &weights.dims}) {
    for (std::int64_t size : *dims) {
      if (size > kMaxParameter * 256) return bad(node, "a size of " + std::to_string(size) + " is too large");
    }
  }
  return {};
}

Result<void> check_bias(const Node& node, std::span<const ops::Input> inputs, int index, DataType type,
                        std::int64_t channels) {
  if (index < 0 || index >= static_cast<int>(inputs.size()) || !inputs[index].present) return {};
  const TensorDesc& bias = inputs[index].desc;
  if (bias.elements() != channels || bias.rank() > 1) {
    return bad(node, "bias of dims " + to_string(bias.dims) + ", the convolution has " + std::to_string(channels) +
                         " output channels");
  }
  if (bias.type != type) {
    return bad(node, "bias of type " + std::string(name_of(bias.type)) + ", it must be " + std::string(name_of(type)));
  }
  return {};
}

void fill_geometry(ConvProblem& p, const ConvAttributes& a) {
  const auto spatial = static_cast<std::ptrdiff_t>(a.kernel.size());
  p.pre_padding = Dims(a.pads.begin(), a.pads.begin() + spatial);
  p.post_padding = Dims(a.pads.begin() + spatial, a.pads.end());
  p.stride = a.strides;
  p.dilation = a.dilations;
  p.groups = a.groups;
}

Result<ConvProblem> fprop_problem(const Node& node, const TensorDesc& x, const TensorDesc& w, DataType out_type) {
  CONVOY_TRY(ConvAttributes a, read_attributes(node, w.dims));
  if (w.dims[1] > kMaxSize / a.groups || w.dims[1] * a.groups != x.dims[1]) {
    return bad(node, "input 'X' has " + std::to_string(x.dims[1]) + " channels, weights of dims " + to_string(w.dims) +
                         " with group=" + std::to_string(a.groups) + " need " +
                         std::to_string(saturating_mul(w.dims[1], a.groups)));
  }
  if (w.dims[0] % a.groups != 0) {
    return bad(node, "attribute 'group'=" + std::to_string(a.groups) + " does not divide the " +
                         std::to_string(w.dims[0]) + " output channels");
  }
  Dims out = {x.dims[0], w.dims[0]};
  const std::size_t spatial = a.kernel.size();
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t in = x.dims[2 + i];
    if (a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER") {
      const std::int64_t size = div_up(in, a.strides[i]);
      set_same_padding(a, i, std::max<std::int64_t>((size - 1) * a.strides[i] + extent(a, i) - in, 0));
    }
    const auto size = conv_output_size(in, a.kernel[i], a.pads[i], a.pads[spatial + i], a.strides[i], a.dilations[i],
                                       "output dim " + std::to_string(2 + i));
    if (!size.ok()) return size.error().within(describe(node));
    out.push_back(*size);
  }
  ConvProblem p;
  p.pass = convoy::Pass::fprop;
  p.x = TensorDesc::packed(x.type, x.dims);
  p.w = TensorDesc::packed(w.type, w.dims);
  p.y = TensorDesc::packed(out_type, out);
  fill_geometry(p, a);
  return p;
}

// ConvTranspose is the dgrad of a convolution from its output to its input: X is y, Y is x, and ONNX's weights
// [C_in, C_out/group, ...] are already [K, C/groups, ...].
Result<ConvProblem> dgrad_problem(const Node& node, const TensorDesc& data, const TensorDesc& w) {
  CONVOY_TRY(ConvAttributes a, read_attributes(node, w.dims));
  if (w.dims[0] != data.dims[1]) {
    return bad(node, "input 'X' has " + std::to_string(data.dims[1]) + " channels, weights of dims " +
                         to_string(w.dims) + " need " + std::to_string(w.dims[0]));
  }
  if (w.dims[0] % a.groups != 0) {
    return bad(node, "attribute 'group'=" + std::to_string(a.groups) + " does not divide the " +
                         std::to_string(w.dims[0]) + " input channels");
  }
  const std::size_t spatial = a.kernel.size();
  CONVOY_TRY(const Dims output_padding, parameter(node, "output_padding", spatial, 0, 0));
  auto read_shape = node.desc.integers("output_shape", {});
  if (!read_shape.ok()) return read_shape.error().within(describe(node));
  Dims output_shape = *read_shape;
  if (output_shape.size() == spatial + 2) output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
  if (!output_shape.empty() && output_shape.size() != spatial) {
    return bad(node, "attribute 'output_shape' has " + std::to_string(output_shape.size()) +
                         " values, the input needs " + std::to_string(spatial));
  }
  const auto channels = checked_mul(w.dims[1], a.groups);
  if (!channels) return bad(node, "attribute 'group'=" + std::to_string(a.groups) + " is too large");
  Dims out = {data.dims[0], *channels};
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t in = data.dims[2 + i];
    // Without padding, the transposed convolution fills `full` elements.
    const std::int64_t full = saturating_add(saturating_mul(in - 1, a.strides[i]), extent(a, i));
    const std::int64_t padded = saturating_add(full, output_padding[i]);
    std::int64_t size = 0;
    const bool same = a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER";
    if (!output_shape.empty() || same) {
      size = !output_shape.empty() ? output_shape[i] : saturating_mul(in, a.strides[i]);
      if (size > kMaxParameter * 256 || size < (in > 0 ? 1 : 0)) {
        return bad(node,
                   "attribute 'output_shape'[" + std::to_string(i) + "]=" + std::to_string(size) + " is out of range");
      }
      set_same_padding(a, i, std::max<std::int64_t>(padded - size, 0));
    } else {
      size = padded - a.pads[i] - a.pads[spatial + i];
    }
    if (in == 0) {  // no tap reaches anything, wherever padding would put it
      a.pads[i] = a.pads[spatial + i] = 0;
      out.push_back(std::max<std::int64_t>(size, 0));
      continue;
    }
    if (size < 1 || size > kMaxParameter * 256) {
      return bad(node, "output dim " + std::to_string(2 + i) + " would be " + std::to_string(size) + ": input " +
                           std::to_string(in) + ", kernel " + std::to_string(a.kernel[i]) + ", stride " +
                           std::to_string(a.strides[i]) + ", pads " + std::to_string(a.pads[i]) + " and " +
                           std::to_string(a.pads[spatial + i]));
    }
    // What the filter reaches ends at pre + size + post = full; the rest (output_padding) is taken off the padding
    // behind, and beyond that the convolution this is the transpose of skips it, which is right for less than a stride.
    const std::int64_t behind = full - a.pads[i] - size;
    a.pads[spatial + i] = std::max<std::int64_t>(behind, 0);
    if (-behind >= a.strides[i]) {
      return Error{ErrorCode::unsupported, describe(node) + ": output dim " + std::to_string(2 + i) + " of " +
                                               std::to_string(size) + " ends " + std::to_string(-behind) +
                                               " past the last element the filter reaches, which is not less than " +
                                               "the stride of " + std::to_string(a.strides[i])};
    }
    out.push_back(size);
  }
  if (auto elements = checked_elements(out, 8); !elements.ok()) return elements.error().within(describe(node));
  ConvProblem p;
  p.pass = convoy::Pass::dgrad;
  p.x = TensorDesc::packed(data.type, out);
  p.w = TensorDesc::packed(w.type, w.dims);
  p.y = TensorDesc::packed(data.type, data.dims);
  fill_geometry(p, a);
  return p;
}

Result<ConvNode> float_problem(const Node& node, const ConvForm& form, std::span<const ops::Input> inputs) {
  const TensorDesc& data = inputs[0].desc;
  const TensorDesc& w = inputs[1].desc;
  if (!is_floating(data.type)) {
    return bad(node, "input 'X' of type " + std::string(name_of(data.type)) + ", a floating type is needed");
  }
  if (w.type != data.type) {
    return bad(node, "weights of type " + std::string(name_of(w.type)) + " do not match the input's " +
                         std::string(name_of(data.type)));
  }
  Result<ConvProblem> made = form.transposed ? dgrad_problem(node, data, w) : fprop_problem(node, data, w, data.type);
  if (!made.ok()) return made.error();
  ConvNode result{.problem = std::move(*made), .scales = {}, .w_zeros = {}};
  ConvProblem& p = result.problem;
  p.compute = data.type == DataType::f64 ? DataType::f64 : DataType::f32;
  CONVOY_CHECK(check_bias(node, inputs, bias_input(node, form), data.type, p.out().dims[1]));
  return result;
}

// Every element of a constant input as doubles.
Result<std::vector<double>> values_of(const Node& node, std::span<const ops::Input> inputs, int index, const char* name,
                                      std::int64_t channels) {
  if (index >= static_cast<int>(inputs.size()) || !inputs[index].present) return std::vector<double>{};
  const ops::Input& input = inputs[index];
  const std::int64_t count = input.desc.elements();
  if (input.desc.rank() > 1 || (count != 1 && count != channels)) {
    return bad(node, std::string("input '") + name + "' of dims " + to_string(input.desc.dims) +
                         " must have 1 element" +
                         (channels > 1 ? " or one per output channel (" + std::to_string(channels) + ")" : ""));
  }
  if (input.constant == nullptr) {
    return Error{ErrorCode::internal, describe(node) + ": input '" + name + "' is not known"};
  }
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_as_double(input.desc.type, input.constant, static_cast<std::int64_t>(i));
  }
  return values;
}

// The zero points of an input: none where it is absent.
Result<std::vector<std::int32_t>> zero_points(const Node& node, std::span<const ops::Input> inputs, int index,
                                              const char* name, DataType type, std::int64_t channels) {
  if (index < static_cast<int>(inputs.size()) && inputs[index].present && inputs[index].desc.type != type) {
    return bad(node, std::string("input '") + name + "' of type " + std::string(name_of(inputs[index].desc.type)) +
                         ", it must be " + std::string(name_of(type)));
  }
  CONVOY_TRY(const std::vector<double> values, values_of(node, inputs, index, name, channels));
  return std::vector<std::int32_t>(values.begin(), values.end());
}

Result<std::int32_t> zero_point(const Node& node, std::span<const ops::Input> inputs, int index, const char* name,
                                DataType type) {
  CONVOY_TRY(const std::vector<std::int32_t> values, zero_points(node, inputs, index, name, type, 1));
  return values.empty() ? 0 : values.front();
}

bool is_byte(DataType type) { return type == DataType::s8 || type == DataType::u8; }

// `all` has the inputs that fusion added behind ONNX's own.
Result<void> add_dequantization(ConvNode& result, const Node& node, std::span<const ops::Input> all) {
  const TensorDesc& scales = all[node.fusion.scales].desc;
  const std::int64_t count = scales.elements();
  if (scales.type != DataType::f32 || (count != 1 && count != result.problem.y.dims[1])) {
    return bad(node, "scales of type " + std::string(name_of(scales.type)) + " and dims " + to_string(scales.dims));
  }
  result.problem.epilogue.requantize = count == 1 ? Requantize::per_tensor : Requantize::per_channel;
  return {};
}

// `all` has the inputs that fusion added behind ONNX's own.
Result<ConvNode> integer_problem(const Node& node, const ConvForm& form, std::span<const ops::Input> inputs,
                                 std::span<const ops::Input> all) {
  const bool requantized = form.requantizes;
  const TensorDesc& x = inputs[0].desc;
  const TensorDesc& w = inputs[form.weights].desc;
  if (!is_byte(x.type) || !is_byte(w.type)) {
    return bad(node, "input of type " + std::string(name_of(x.type)) + " and weights of type " +
                         std::string(name_of(w.type)) + ": both must be s8 or u8");
  }
  const bool dequantized = node.fusion.scales != kAbsent;
  const DataType out_type = requantized ? inputs[7].desc.type : dequantized ? DataType::f32 : DataType::s32;
  if (requantized && !is_byte(out_type)) {
    return bad(node, "input 'y_zero_point' of type " + std::string(name_of(out_type)) + " must be s8 or u8");
  }
  CONVOY_TRY(ConvProblem problem, fprop_problem(node, x, w, out_type));
  ConvNode result{.problem = std::move(problem), .scales = {}, .w_zeros = {}};
  ConvProblem& p = result.problem;
  const std::int64_t channels = p.y.dims[1];
  p.compute = DataType::s32;
  p.epilogue.float_bias = is_float_bias(node, all);
  CONVOY_CHECK(check_bias(node, all, bias_input(node, form), p.bias_type(), channels));
  if (!requantized && inputs.size() > 2 && inputs[2].present && inputs[2].constant == nullptr) {
    if (inputs[2].desc.type != x.type || inputs[2].desc.elements() != 1) {
      return bad(node, "input 'x_zero_point' of type " + std::string(name_of(inputs[2].desc.type)) + " and dims " +
                           to_string(inputs[2].desc.dims) + " must be one " + std::string(name_of(x.type)));
    }
    p.x_zero_given = true;
  } else {
    CONVOY_TRY(p.x_zero_point, zero_point(node, inputs, 2, "x_zero_point", x.type));
  }
  CONVOY_TRY(const std::vector<std::int32_t> w_zeros,
             zero_points(node, inputs, requantized ? 5 : 3, "w_zero_point", w.type, channels));
  if (std::adjacent_find(w_zeros.begin(), w_zeros.end(), std::not_equal_to<>()) != w_zeros.end()) {
    p.w_zero_given = true;
    result.w_zeros = w_zeros;
  } else if (!w_zeros.empty()) {
    p.w_zero_point = w_zeros.front();
  }
  if (dequantized) CONVOY_CHECK(add_dequantization(result, node, all));
  if (!requantized) return result;
  CONVOY_TRY(p.y_zero_point, zero_point(node, inputs, 7, "y_zero_point", out_type));
  CONVOY_TRY(const std::vector<double> x_scale, values_of(node, inputs, 1, "x_scale", 1));
  CONVOY_TRY(const std::vector<double> w_scale, values_of(node, inputs, 4, "w_scale", channels));
  CONVOY_TRY(const std::vector<double> y_scale, values_of(node, inputs, 6, "y_scale", 1));
  if (x_scale.size() != 1 || w_scale.empty() || y_scale.size() != 1) return bad(node, "a scale has no elements");
  for (double scale : w_scale) result.scales.push_back(static_cast<float>(x_scale[0] * scale / y_scale[0]));
  p.epilogue.requantize = w_scale.size() > 1 ? Requantize::per_channel : Requantize::per_tensor;
  return result;
}

}  // namespace

const ConvForm* conv_form(std::string_view domain, std::string_view op) {
  // Scales and zero points; not ConvInteger's of x, which dynamic quantization computes in each run.
  static constexpr int kQuantized[] = {1, 2, 4, 5, 6, 7}, kInteger[] = {3};
  static constexpr ConvForm kForms[] = {
      {.op = "Conv"},
      {.op = "ConvTranspose", .transposed = true},
      {.op = "QLinearConv",
       .integer = true,
       .requantizes = true,
       .least_inputs = 8,
       .inputs = 9,
       .weights = 3,
       .bias = 8,
       .values = kQuantized},
      {.op = "ConvInteger", .integer = true, .inputs = 4, .bias = kAbsent, .x_zero = 2, .values = kInteger},
  };
  const auto* const found = std::ranges::find(kForms, op, &ConvForm::op);
  return domain.empty() && found != std::end(kForms) ? found : nullptr;
}

ConvInputs conv_inputs(const Node& node) {
  const auto input = [&](int index) {
    return index >= 0 && index < static_cast<int>(node.inputs.size()) ? node.inputs[index] : kAbsent;
  };
  const ConvForm& form = *conv_form(node);
  return {.data = input(kConvData),
          .weights = input(form.weights),
          .bias = input(bias_input(node, form)),
          .residual = input(node.fusion.residual),
          .slopes = input(node.fusion.slopes),
          .scales = input(node.fusion.scales),
          .x_zero = input(form.x_zero),
          .gate = input(node.fusion.gate)};
}

int add_fused_input(Node& node, int value) {
  const auto own = static_cast<std::size_t>(conv_form(node)->inputs);
  node.inputs.resize(std::max(node.inputs.size(), own), kAbsent);
  node.inputs.push_back(value);
  return static_cast<int>(node.inputs.size()) - 1;
}

Result<ConvNode> conv_problem(const Node& node, std::span<const ops::Input> inputs) {
  const ConvForm& form = *conv_form(node);
  const auto own_inputs = inputs.first(std::min(inputs.size(), static_cast<std::size_t>(form.inputs)));
  const ConvFusion& fusion = node.fusion;
  if (std::max({fusion.residual, fusion.slopes, fusion.scales, fusion.bias, fusion.gate}) == kAbsent) {
    CONVOY_CHECK(check_inputs(node, form, inputs));
  }
  CONVOY_CHECK(check_inputs(node, form, own_inputs));
  if (node.outputs.size() != 1) return bad(node, std::to_string(node.outputs.size()) + " outputs, it has 1");
  CONVOY_TRY(ConvNode result,
             form.integer ? integer_problem(node, form, own_inputs, inputs) : float_problem(node, form, own_inputs));
  ConvProblem& p = result.problem;
  const int bias = bias_input(node, form);
  p.epilogue.bias = bias >= 0 && bias < static_cast<int>(inputs.size()) && inputs[bias].present;
  p.epilogue.gamma = fusion.residual != kAbsent && !fusion.sum ? 1 : 0;
  if (fusion.sum) {
    p.epilogue.residual = fusion.sum->residual;
    p.y_zero_point = fusion.sum->zero_point;
  }
  p.epilogue.activation = fusion.activation;
  p.gate = fusion.gate != kAbsent;
  if (auto valid = validate(p); !valid.ok()) return valid.error().within(describe(node));
  return result;
}

}  // namespace convoy::network
