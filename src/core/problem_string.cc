// The problem string: print, parse, and the one list of its fields.
#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "base/errors.h"
#include "convoy/convolution.h"
#include "core/math_mode.h"
#include "core/text.h"

namespace convoy {
namespace {

using Parser = Result<void> (*)(std::string_view value, ConvProblem& p);

// The accumulator that the tensors' types call for.
DataType default_compute(const ConvProblem& p) {
  if (is_integer(p.x.type) && is_integer(p.w.type)) return DataType::s32;
  return p.x.type == DataType::f64 && p.w.type == DataType::f64 ? DataType::f64 : DataType::f32;
}

bool all_equal(const Dims& dims, std::int64_t value) {
  for (std::int64_t dim : dims) {
    if (dim != value) return false;
  }
  return true;
}

template <TensorDesc ConvProblem::*tensor>
Result<void> parse_tensor_field(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.*tensor, parse_tensor(value));
  return {};
}

template <Dims ConvProblem::*field>
Result<void> parse_dims_field(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.*field, parse_dims(value));
  return {};
}

template <double ConvProblem::*field>
Result<void> parse_double_field(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.*field, parse_double(value));
  return {};
}

Result<void> parse_pad(std::string_view value, ConvProblem& p) {
  const auto parts = split(value, '/');
  if (parts.size() > 2) return invalid(quoted(value) + " is not PRE or PRE/POST");
  CONVOY_TRY(p.pre_padding, parse_dims(parts[0]));
  CONVOY_TRY(p.post_padding, parse_dims(parts.back()));
  return {};
}

// The spatial sizes of w alone; with_filter makes a tensor of them once all fields are read.
Result<void> parse_filter(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.w.dims, parse_dims(value));
  return {};
}

Result<void> parse_groups(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.groups, parse_integer(value));
  return {};
}

Result<void> parse_mode(std::string_view value, ConvProblem& p) {
  if (value != "conv" && value != "xcorr") return invalid(quoted(value) + " is not one of conv, xcorr");
  p.mode = value == "conv" ? ConvMode::convolution : ConvMode::cross_correlation;
  return {};
}

Result<void> parse_compute(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.compute, parse_data_type(value));
  return {};
}

Result<void> parse_math(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.math, parse_math_mode(value));
  return {};
}

Result<void> parse_bias(std::string_view value, ConvProblem& p) {
  if (value != "0" && value != "1" && value != "out" && value != "f32") {
    return invalid(quoted(value) + " is not one of 0, 1, out, f32");
  }
  p.epilogue.bias = value != "0";
  p.epilogue.narrow_bias = value == "out";
  p.epilogue.float_bias = value == "f32";
  return {};
}

Result<void> parse_gamma(std::string_view value, ConvProblem& p) {
  CONVOY_TRY(p.epilogue.gamma, parse_double(value));
  p.epilogue.zero_z = p.epilogue.gamma == 0;
  return {};
}

Result<void> parse_activation(std::string_view value, ConvProblem& p) {
  const auto parts = split(value, ',');
  Activation activation;
  bool found = false;
  std::string names;
  for (int i = 0; i <= static_cast<int>(ActivationKind::mish); ++i) {
    const auto kind = static_cast<ActivationKind>(i);
    if (parts[0] == convoy::name_of(kind)) {
      activation.kind = kind;
      found = true;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", convoy::name_of(kind));
  }
  if (!found) return invalid(quoted(parts[0]) + " is not one of " + names);
  const std::size_t wanted = has_parameter_a(activation.kind) + has_parameter_b(activation.kind);
  if (activation.kind == ActivationKind::swish && parts.size() == 1) {
    activation.a = 1;
  } else if (parts.size() != 1 + wanted) {
    return invalid(fmt::format("{} has {} parameters, {} given", parts[0], wanted, parts.size() - 1));
  } else {
    if (wanted > 0) {
      CONVOY_TRY(activation.a, parse_double(parts[1]));
    }
    if (wanted > 1) {
      CONVOY_TRY(activation.b, parse_double(parts[2]));
    }
  }
  p.epilogue.activation = activation;
  return {};
}

Result<void> parse_requantize(std::string_view value, ConvProblem& p) {
  if (value != "tensor" && value != "channel") return invalid(quoted(value) + " is not one of tensor, channel");
  p.epilogue.requantize = value == "tensor" ? Requantize::per_tensor : Requantize::per_channel;
  return {};
}

Result<void> parse_zero_point(std::string_view text, std::int32_t& to) {
  CONVOY_TRY(const std::int64_t number, parse_integer(text));
  using Limits = std::numeric_limits<std::int32_t>;
  if (number < Limits::min() || number > Limits::max()) return invalid(quoted(text) + " is out of range");
  to = static_cast<std::int32_t>(number);
  return {};
}

Result<void> parse_residual(std::string_view value, ConvProblem& p) {
  const auto parts = split(value, ',');
  if (parts.size() != 4) return invalid(quoted(value) + " is not SCALE,ZERO,Z_SCALE,Z_ZERO");
  QuantizedResidual& residual = p.epilogue.residual.emplace();
  CONVOY_TRY(residual.scale, parse_double(parts[0]));
  CONVOY_CHECK(parse_zero_point(parts[1], residual.zero_point));
  CONVOY_TRY(residual.z_scale, parse_double(parts[2]));
  return parse_zero_point(parts[3], residual.z_zero_point);
}

Result<void> parse_zero_points(std::string_view value, ConvProblem& p) {
  const auto parts = split(value, ',');
  if (parts.size() != 3) return invalid(quoted(value) + " is not X,W,Y");
  const std::array<std::int32_t*, 3> targets = {&p.x_zero_point, &p.w_zero_point, &p.y_zero_point};
  const std::array<bool*, 3> given = {&p.x_zero_given, &p.w_zero_given, nullptr};
  for (int i = 0; i < 3; ++i) {
    if (given[i] != nullptr && parts[i] == "given") {
      *given[i] = true;
      continue;
    }
    CONVOY_CHECK(parse_zero_point(parts[i], *targets[i]));
  }
  return {};
}

Result<void> parse_gate(std::string_view value, ConvProblem& p) {
  if (value != "0" && value != "1") return invalid(quoted(value) + " is not one of 0, 1");
  p.gate = value == "1";
  return {};
}

struct Field {
  std::string_view name;
  Parser parse;
};
constexpr std::array<Field, 20> kFields = {{
    {"x", parse_tensor_field<&ConvProblem::x>},
    {"w", parse_tensor_field<&ConvProblem::w>},
    {"y", parse_tensor_field<&ConvProblem::y>},
    {"filter", parse_filter},
    {"pad", parse_pad},
    {"stride", parse_dims_field<&ConvProblem::stride>},
    {"dilation", parse_dims_field<&ConvProblem::dilation>},
    {"groups", parse_groups},
    {"mode", parse_mode},
    {"compute", parse_compute},
    {"math", parse_math},
    {"alpha", parse_double_field<&ConvProblem::alpha>},
    {"beta", parse_double_field<&ConvProblem::beta>},
    {"bias", parse_bias},
    {"gamma", parse_gamma},
    {"act", parse_activation},
    {"requant", parse_requantize},
    {"residual", parse_residual},
    {"zp", parse_zero_points},
    {"gate", parse_gate},
}};

using Seen = std::array<bool, kFields.size()>;
enum FieldIndex { kX, kW, kY, kFilter, kCompute = 9 };
static_assert(kFields[kFilter].name == "filter" && kFields[kCompute].name == "compute");

// Which tensors may be left out: see convolution.h.
Result<void> check_tensors(const ConvProblem& p, const Seen& seen) {
  if (seen[kFilter] && seen[kW]) return invalid("filter: w is given, which says the filter's sizes");
  if (seen[kFilter] && p.pass != Pass::wgrad) return invalid("filter: it is for wgrad, where w is computed; give w");
  const bool has_w = seen[kW] || seen[kFilter];
  if (p.pass == Pass::dgrad && !seen[kX] && !seen[kY]) return invalid("fields 'x' and 'y' are missing: one is needed");
  if (p.pass != Pass::dgrad && !seen[kX]) return invalid("field 'x' is missing");
  if (!has_w && p.pass == Pass::wgrad) return invalid("field 'w' is missing (or filter, its spatial sizes, and y)");
  if (!has_w) return invalid("field 'w' is missing");
  if (seen[kFilter] && !seen[kY]) return invalid("field 'y' is missing: filter doesn't say how many filters w has");
  return {};
}

// Of pad, stride and dilation, which have a value for each spatial dim: infer() knows them by other names.
Result<void> check_counts(const ConvProblem& p, const Seen& seen) {
  const int spatial = (seen[kX] ? p.x : p.y).spatial_dims();
  for (const auto& [name, values] :
       {std::pair{"pad", &p.pre_padding}, {"pad", &p.post_padding}, {"stride", &p.stride}, {"dilation", &p.dilation}}) {
    const auto count = static_cast<int>(values->size());
    if (count == 0 || count == spatial || spatial < 1) continue;
    const std::string text = to_string(*values);
    std::string all = text;
    for (int i = 1; i < spatial; ++i) all += "x" + text;
    return invalid(fmt::format("{}={}: {} value{} for {} spatial dim{}{}", name, text, count, count == 1 ? "" : "s",
                               spatial, spatial == 1 ? "" : "s",
                               count == 1 ? fmt::format("; write {}={}", name, all) : ""));
  }
  return {};
}

// w from x, y and its spatial sizes, which parse_filter has read; row-major.
Result<void> with_filter(ConvProblem& p) {
  for (const auto& [name, desc] : {std::pair{"x", &p.x}, std::pair{"y", &p.y}}) {
    if (desc->rank() == p.w.rank() + 2) continue;
    return invalid(fmt::format("filter={} has {} sizes, {}.dims={} has {} spatial dims", to_string(p.w.dims),
                               p.w.rank(), name, to_string(desc->dims), desc->spatial_dims()));
  }
  if (p.groups < 1) return invalid(fmt::format("groups={} is less than 1", p.groups));
  Dims dims = {p.y.dims[1], p.x.dims[1] / p.groups};
  dims.insert(dims.end(), p.w.dims.begin(), p.w.dims.end());
  p.w = TensorDesc::packed(p.x.type, std::move(dims));
  return {};
}

// Types that follow from the given tensors where the text leaves out a tensor or the accumulator.
void fill_types(ConvProblem& p, const Seen& seen) {
  const DataType input = !seen[kX] ? p.y.type : p.pass == Pass::dgrad ? p.w.type : p.x.type;
  const bool sums = p.pass == Pass::fprop && is_integer(input) && p.epilogue.requantize == Requantize::none;
  if (!seen[kY]) p.y.type = sums ? DataType::s32 : input;
  if (!seen[kX]) p.x.type = input;
  if (!seen[kCompute]) p.compute = default_compute(p);
}

}  // namespace

std::string_view name_of(MathMode math) {
  return math == MathMode::strict ? "strict" : math == MathMode::tf32 ? "tf32" : "reduced";
}

std::string print(const ConvProblem& p) {
  std::string text(name_of(p.pass));
  const auto add = [&](std::string_view field, std::string_view value) {
    text.append(":").append(field).append("=").append(value);
  };
  add("x", print(p.x));
  add("w", print(p.w));
  add("y", print(p.y));
  if (!all_equal(p.pre_padding, 0) || !all_equal(p.post_padding, 0)) {
    const std::string pre = to_string(p.pre_padding);
    add("pad", p.pre_padding == p.post_padding ? pre : pre + "/" + to_string(p.post_padding));
  }
  if (!all_equal(p.stride, 1)) add("stride", to_string(p.stride));
  if (!all_equal(p.dilation, 1)) add("dilation", to_string(p.dilation));
  if (p.groups != 1) add("groups", std::to_string(p.groups));
  if (p.mode == ConvMode::convolution) add("mode", "conv");
  if (p.compute != default_compute(p)) add("compute", name_of(p.compute));
  if (p.math != MathMode::strict) add("math", name_of(p.math));
  if (p.alpha != 1) add("alpha", print_double(p.alpha));
  if (p.beta != 0) add("beta", print_double(p.beta));
  const Epilogue& epilogue = p.epilogue;
  if (epilogue.bias) add("bias", epilogue.narrow_bias ? "out" : epilogue.float_bias ? "f32" : "1");
  if (epilogue.gamma != 0 || epilogue.zero_z) add("gamma", print_double(epilogue.gamma));
  if (epilogue.activation.kind != ActivationKind::identity) {
    std::string act(name_of(epilogue.activation.kind));
    if (has_parameter_a(epilogue.activation.kind)) act.append(",").append(print_double(epilogue.activation.a));
    if (has_parameter_b(epilogue.activation.kind)) act.append(",").append(print_double(epilogue.activation.b));
    add("act", act);
  }
  if (epilogue.requantize != Requantize::none) {
    add("requant", epilogue.requantize == Requantize::per_tensor ? "tensor" : "channel");
  }
  if (const auto& residual = epilogue.residual) {
    add("residual", fmt::format("{},{},{},{}", print_double(residual->scale), residual->zero_point,
                                print_double(residual->z_scale), residual->z_zero_point));
  }
  if (p.x_zero_point != 0 || p.w_zero_point != 0 || p.y_zero_point != 0 || p.x_zero_given || p.w_zero_given) {
    const auto zero = [](bool given, std::int32_t value) { return given ? "given" : std::to_string(value); };
    add("zp", fmt::format("{},{},{}", zero(p.x_zero_given, p.x_zero_point), zero(p.w_zero_given, p.w_zero_point),
                          p.y_zero_point));
  }
  if (p.gate) add("gate", "1");
  return text;
}

Result<ConvProblem> parse_problem(std::string_view text) {
  const std::vector<std::string_view> pieces = split(trim(text), ':');
  ConvProblem p;
  CONVOY_TRY(p.pass, parse_pass(pieces[0]));
  Seen seen{};
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const std::size_t equals = pieces[i].find('=');
    const std::string_view name = pieces[i].substr(0, equals);
    if (equals == std::string_view::npos) return invalid("field " + quoted(pieces[i]) + " has no '='");
    std::size_t index = 0;
    while (index < kFields.size() && kFields[index].name != name) ++index;
    if (index == kFields.size()) {
      std::string names;
      for (const Field& field : kFields) names.append(names.empty() ? "" : ", ").append(field.name);
      return invalid("field " + quoted(name) + " is not one of " + names);
    }
    if (seen[index]) return invalid("field " + quoted(name) + " is given twice");
    seen[index] = true;
    const Result<void> parsed = kFields[index].parse(pieces[i].substr(equals + 1), p);
    if (!parsed.ok()) return parsed.error().within(std::string(name));
  }
  CONVOY_CHECK(check_tensors(p, seen));
  CONVOY_CHECK(check_counts(p, seen));
  if (seen[kFilter]) CONVOY_CHECK(with_filter(p));
  fill_types(p, seen);
  CONVOY_CHECK(infer(p));
  CONVOY_CHECK(validate(p));
  return p;
}

}  // namespace convoy
