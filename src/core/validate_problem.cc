// What makes a convolution problem well-formed. One function a concern; each error names the field and both values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "convoy/convolution.h"

namespace convoy {
namespace {

template <class... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...)};
}

Result<void> check_tensor(const TensorDesc& desc, std::string_view name) {
  if (desc.rank() < 3 || desc.rank() > 5) {
    return invalid("{}.dims={} has {} dims; a convolution has 3 to 5 (N, C, 1 to 3 spatial)", name,
                   to_string(desc.dims), desc.rank());
  }
  return validate(desc, name);
}

Result<void> check_filter(const TensorDesc& w) {
  for (int i = 2; i < w.rank(); ++i) {
    if (w.dims[i] < 1) return invalid("w.dims[{}]={}; a filter's sizes must be at least 1", i, w.dims[i]);
  }
  return {};
}

Result<void> check_ranks(const ConvProblem& p) {
  if (p.w.rank() != p.x.rank()) {
    return invalid("w.dims={} has {} dims, x.dims={} has {}", to_string(p.w.dims), p.w.rank(), to_string(p.x.dims),
                   p.x.rank());
  }
  if (p.y.rank() != p.x.rank()) {
    return invalid("y.dims={} has {} dims, x.dims={} has {}", to_string(p.y.dims), p.y.rank(), to_string(p.x.dims),
                   p.x.rank());
  }
  const auto spatial = static_cast<std::size_t>(p.spatial_dims());
  for (const auto& [name, values, least] : {std::tuple{"pre_padding", &p.pre_padding, 0},
                                            {"post_padding", &p.post_padding, 0},
                                            {"stride", &p.stride, 1},
                                            {"dilation", &p.dilation, 1}}) {
    if (values->size() != spatial) {
      return invalid("{}={} has {} values for {} spatial dims", name, to_string(*values), values->size(), spatial);
    }
    for (std::size_t i = 0; i < spatial; ++i) {
      if ((*values)[i] < least) return invalid("{}[{}]={} is less than {}", name, i, (*values)[i], least);
    }
  }
  return {};
}

Result<void> check_channels(const ConvProblem& p) {
  if (p.groups < 1) return invalid("groups={} is less than 1", p.groups);
  if (p.x.dims[1] % p.groups != 0) {
    return invalid("groups={} does not divide x.dims[1]={}", p.groups, p.x.dims[1]);
  }
  if (p.w.dims[0] % p.groups != 0) {
    return invalid("groups={} does not divide w.dims[0]={}", p.groups, p.w.dims[0]);
  }
  if (p.w.dims[1] != p.x.dims[1] / p.groups) {
    return invalid("w.dims[1]={} does not match x.dims[1]={} and groups={}, which give {}", p.w.dims[1], p.x.dims[1],
                   p.groups, p.x.dims[1] / p.groups);
  }
  if (p.y.dims[0] != p.x.dims[0]) return invalid("y.dims[0]={} does not match x.dims[0]={}", p.y.dims[0], p.x.dims[0]);
  if (p.y.dims[1] != p.w.dims[0]) return invalid("y.dims[1]={} does not match w.dims[0]={}", p.y.dims[1], p.w.dims[0]);
  return {};
}

// Whether y may be empty along a dim, whatever the size of x: so a transposed convolution of an empty map has it.
bool fits_nowhere(const ConvProblem& p, int i) {
  const std::int64_t reach = saturating_mul(p.dilation[i], p.w.dims[2 + i] - 1);
  return saturating_add(p.x.dims[2 + i], saturating_add(p.pre_padding[i], p.post_padding[i])) <= reach;
}

Result<void> check_sizes(const ConvProblem& p) {
  for (int i = 0; i < p.spatial_dims(); ++i) {
    const int d = 2 + i;
    if (p.y.dims[d] == 0 && fits_nowhere(p, i)) continue;
    CONVOY_TRY(const std::int64_t size, conv_output_size(p.x.dims[d], p.w.dims[d], p.pre_padding[i], p.post_padding[i],
                                                         p.stride[i], p.dilation[i], fmt::format("y.dims[{}]", d)));
    if (p.y.dims[d] != size) {
      return invalid(
          "y.dims[{0}]={1} does not match x.dims[{0}]={2}, w.dims[{0}]={3}, pad={4}/{5}, stride={6}, dilation={7}, "
          "which give {8}",
          d, p.y.dims[d], p.x.dims[d], p.w.dims[d], p.pre_padding[i], p.post_padding[i], p.stride[i], p.dilation[i],
          size);
    }
  }
  return {};
}

// Two coordinates of a written tensor must not share an element. Sufficient: ordered by stride, each dim steps over
// all that the smaller ones span.
Result<void> check_no_overlap(const TensorDesc& out, std::string_view name) {
  struct Step {
    std::int64_t stride, count;
    int dim;
  };
  std::vector<Step> steps;
  for (int i = 0; i < out.rank(); ++i) {
    const std::int64_t count = i == 1 ? div_up(out.dims[i], out.channel_block) : out.dims[i];
    if (count > 1) steps.push_back({out.strides[i], count, i});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.stride < b.stride; });
  std::int64_t span = out.channel_block;
  for (const Step& step : steps) {
    if (step.stride < span) {
      return invalid(
          "{0}.strides[{1}]={2} is less than the {3} elements that the smaller strides of {0} span: "
          "elements that are written would overlap",
          name, step.dim, step.stride, span);
    }
    span = saturating_add(span, saturating_mul(step.stride, step.count - 1));
  }
  return {};
}

Result<void> check_gate(const ConvProblem& p) {
  if (!p.gate) return {};
  if (p.pass != Pass::fprop) return invalid("gate=1: pass={}, only fprop has a gate", name_of(p.pass));
  if (!is_floating(p.x.type)) return invalid("gate=1: x is {}, a gate is for floating-point types", name_of(p.x.type));
  return {};
}

bool is_byte(DataType type) { return type == DataType::s8 || type == DataType::u8; }

Result<void> check_types(const ConvProblem& p) {
  const std::string types = fmt::format("x={}, w={}, y={}", name_of(p.x.type), name_of(p.w.type), name_of(p.y.type));
  if (is_stored_only(p.x.type) || is_stored_only(p.w.type) || is_stored_only(p.y.type)) {
    return invalid("types {}: a convolution takes f64, f32, f16, bf16, f8_e4m3 and f8_e5m2, or s8 and u8", types);
  }
  const bool integers = is_integer(p.x.type) || is_integer(p.w.type);
  DataType compute = DataType::f32;
  if (integers) {
    if (!is_byte(p.x.type) || !is_byte(p.w.type)) {
      return invalid("types {}: integer problems take s8 or u8 for both x and w", types);
    }
    if (!is_byte(p.y.type) && p.y.type != DataType::s32 && p.y.type != DataType::f32) {
      return invalid("types {}: y of an integer problem is s8, u8, s32 or f32", types);
    }
    if (p.pass != Pass::fprop) return invalid("pass={}: integer problems ({}) have fprop only", name_of(p.pass), types);
    compute = DataType::s32;
  } else {
    if (!is_floating(p.x.type) || !is_floating(p.w.type) || !is_floating(p.y.type)) {
      return invalid("types {}: a convolution takes floating-point types, or s8 and u8", types);
    }
    const int doubles = (p.x.type == DataType::f64) + (p.w.type == DataType::f64) + (p.y.type == DataType::f64);
    if (doubles != 0 && doubles != 3) return invalid("types {}: f64 does not mix with other types", types);
    if (doubles == 3) compute = DataType::f64;
  }
  if (p.compute != compute) {
    return invalid("compute={} does not match types {}, which need {}", name_of(p.compute), types, name_of(compute));
  }
  return {};
}

Result<void> check_activation(const Activation& act) {
  for (const auto& [name, value, used] :
       {std::tuple{"a", act.a, has_parameter_a(act.kind)}, {"b", act.b, has_parameter_b(act.kind)}}) {
    if (std::isnan(value)) return invalid("act={}: {}=nan", name_of(act.kind), name);
    if (!used && value != 0) return invalid("act={} has no parameter {}, {} given", name_of(act.kind), name, value);
    // An infinite bound of clip means no bound.
    if (std::isinf(value) && act.kind != ActivationKind::clip) {
      return invalid("act={}: {}={} is not finite", name_of(act.kind), name, value);
    }
  }
  if (act.kind == ActivationKind::clip && act.a > act.b) {
    return invalid("act=clip: its lower bound {} is greater than its upper bound {}", act.a, act.b);
  }
  return {};
}

Result<void> check_scaling(const ConvProblem& p) {
  for (const auto& [name, value] : {std::pair{"alpha", p.alpha}, {"beta", p.beta}, {"gamma", p.epilogue.gamma}}) {
    if (!std::isfinite(value)) return invalid("{}={} is not finite", name, value);
  }
  const DataType out = p.out().type;
  if (p.epilogue.narrow_bias && (!p.epilogue.bias || (out != DataType::f16 && out != DataType::bf16))) {
    return invalid("bias=out: out is {}; only a 16-bit out has a bias of its own type", name_of(out));
  }
  if (p.epilogue.float_bias && (!p.epilogue.bias || p.compute != DataType::s32)) {
    return invalid("bias=f32: compute is {}; only an integer problem has a bias of another float type",
                   name_of(p.compute));
  }
  if (p.epilogue.zero_z && p.epilogue.gamma != 0) return invalid("gamma={}: zero_z goes with 0 only", p.epilogue.gamma);
  return check_activation(p.epilogue.activation);
}

Result<void> check_zero_point(std::string_view name, std::int32_t value, DataType type, std::string_view tensor) {
  const int least = type == DataType::s8 ? -128 : 0, most = type == DataType::s8 ? 127 : type == DataType::u8 ? 255 : 0;
  if (value >= least && value <= most) return {};
  return invalid("{}={} is not a value of {}={}", name, value, tensor, name_of(type));
}

Result<void> check_given(std::string_view name, bool given, std::int32_t value, bool integers) {
  if (!given) return {};
  if (!integers) return invalid("{} given at execution needs an integer problem", name);
  if (value != 0) return invalid("{}={} although it is given at execution", name, value);
  return {};
}

Result<void> check_residual(const ConvProblem& p) {
  if (!p.epilogue.residual) return {};
  const QuantizedResidual& residual = *p.epilogue.residual;
  if (p.epilogue.requantize == Requantize::none || (p.y.type != DataType::s8 && p.y.type != DataType::u8)) {
    return invalid("residual needs requantization (requant=tensor or channel) to s8 or u8, y is {}", name_of(p.y.type));
  }
  if (p.epilogue.gamma != 0 || p.epilogue.zero_z) {
    return invalid("gamma={}: z is added behind the requantization (residual) already", p.epilogue.gamma);
  }
  for (const auto& [name, value] : {std::pair{"scale", residual.scale}, {"z_scale", residual.z_scale}}) {
    if (!std::isfinite(value) || value <= 0) return invalid("residual: {}={} is not positive and finite", name, value);
  }
  CONVOY_CHECK(check_zero_point("residual: zero_point", residual.zero_point, p.y.type, "y"));
  return check_zero_point("residual: z_zero_point", residual.z_zero_point, p.y.type, "y");
}

Result<void> check_quantization(const ConvProblem& p) {
  const bool integers = is_integer(p.x.type);
  const bool requantize = p.epilogue.requantize != Requantize::none;
  if (!integers && requantize) {
    return invalid("requant={} needs an integer problem, x is {}",
                   p.epilogue.requantize == Requantize::per_tensor ? "tensor" : "channel", name_of(p.x.type));
  }
  if (!requantize && p.y_zero_point != 0) {
    return invalid("y_zero_point={} needs requantization (requant=tensor or channel)", p.y_zero_point);
  }
  CONVOY_CHECK(check_given("x_zero_point", p.x_zero_given, p.x_zero_point, integers));
  CONVOY_CHECK(check_given("w_zero_point", p.w_zero_given, p.w_zero_point, integers));
  CONVOY_CHECK(check_zero_point("x_zero_point", p.x_zero_point, p.x.type, "x"));
  CONVOY_CHECK(check_zero_point("w_zero_point", p.w_zero_point, p.w.type, "w"));
  CONVOY_CHECK(check_zero_point("y_zero_point", p.y_zero_point, p.y.type, "y"));
  return check_residual(p);
}

}  // namespace

Result<void> validate(const ConvProblem& p) {
  CONVOY_CHECK(check_tensor(p.x, "x"));
  CONVOY_CHECK(check_tensor(p.w, "w"));
  CONVOY_CHECK(check_tensor(p.y, "y"));
  CONVOY_CHECK(check_filter(p.w));
  CONVOY_CHECK(check_ranks(p));
  CONVOY_CHECK(check_channels(p));
  CONVOY_CHECK(check_sizes(p));
  CONVOY_CHECK(check_no_overlap(p.out(), p.pass == Pass::fprop ? "y" : p.pass == Pass::dgrad ? "x" : "w"));
  CONVOY_CHECK(check_types(p));
  CONVOY_CHECK(check_scaling(p));
  CONVOY_CHECK(check_gate(p));
  return check_quantization(p);
}

}  // namespace convoy
