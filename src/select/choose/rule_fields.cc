#include "select/choose/rule_fields.h"

#include <fmt/format.h>

#include <array>

#include "convoy/selection.h"
#include "core/text.h"

namespace convoy {
namespace selection {
namespace {

FieldValue text(std::string_view value) { return {std::string(value), {}}; }

FieldValue number(std::int64_t value) { return {fmt::format("{}", value), {static_cast<double>(value)}}; }
FieldValue real(double value) { return {print_double(value), {value}}; }

FieldValue sizes(const Dims& dims) { return {to_string(dims), {dims.begin(), dims.end()}}; }
FieldValue spatial_sizes(const TensorDesc& desc) { return sizes(Dims(desc.dims.begin() + 2, desc.dims.end())); }

FieldValue padding(const ConvProblem& p) {
  FieldValue value = sizes(p.pre_padding);
  if (p.pre_padding == p.post_padding) return value;
  value.text.append("/").append(to_string(p.post_padding));
  value.numbers.insert(value.numbers.end(), p.post_padding.begin(), p.post_padding.end());
  return value;
}

// A field as the problem string writes it; empty where it leaves it out.
FieldValue written(const ConvProblem& problem, std::string_view name) {
  const std::string all = print(problem);
  const std::string start = fmt::format(":{}=", name);
  const std::size_t at = all.find(start);
  if (at == std::string::npos) return {};
  const std::size_t from = at + start.size();
  return text(std::string_view(all).substr(from, all.find(':', from) - from));
}

FieldValue layout_of(const TensorDesc& desc) { return text(name_of(desc.layout(), desc.spatial_dims())); }

FieldValue requantization(const ConvProblem& p) {
  constexpr std::string_view names[] = {"none", "tensor", "channel"};
  return text(names[static_cast<std::size_t>(p.epilogue.requantize)]);
}

using Subject = const RuleSubject&;
constexpr std::array kFields = {
    RuleFieldInfo{"node", "name of the network's node", false, [](Subject s) { return text(s.node_name); }},
    RuleFieldInfo{"pass", "fprop, dgrad, wgrad", false, [](Subject s) { return text(name_of(s.problem.pass)); }},
    RuleFieldInfo{"x", "x as in the problem string", false, [](Subject s) { return written(s.problem, "x"); }},
    RuleFieldInfo{"w", "w as in the problem string", false, [](Subject s) { return written(s.problem, "w"); }},
    RuleFieldInfo{"y", "y as in the problem string", false, [](Subject s) { return written(s.problem, "y"); }},
    RuleFieldInfo{"type", "data type of x", false, [](Subject s) { return text(name_of(s.problem.x.type)); }},
    RuleFieldInfo{"w_type", "data type of w", false, [](Subject s) { return text(name_of(s.problem.w.type)); }},
    RuleFieldInfo{"y_type", "data type of y", false, [](Subject s) { return text(name_of(s.problem.y.type)); }},
    RuleFieldInfo{"layout", "layout of x", false, [](Subject s) { return layout_of(s.problem.x); }},
    RuleFieldInfo{"w_layout", "layout of w", false, [](Subject s) { return layout_of(s.problem.w); }},
    RuleFieldInfo{"y_layout", "layout of y", false, [](Subject s) { return layout_of(s.problem.y); }},
    RuleFieldInfo{"spatial", "spatial dimensions: 1, 2, 3", true,
                  [](Subject s) { return number(s.problem.spatial_dims()); }},
    RuleFieldInfo{"batch", "N", true, [](Subject s) { return number(s.problem.batch()); }},
    RuleFieldInfo{"channels", "C, channels of x", true, [](Subject s) { return number(s.problem.in_channels()); }},
    RuleFieldInfo{"out_channels", "K, channels of y", true, [](Subject s) { return number(s.problem.out_channels()); }},
    RuleFieldInfo{"groups", "groups", true, [](Subject s) { return number(s.problem.groups); }},
    RuleFieldInfo{"group_channels", "C/groups", true,
                  [](Subject s) { return number(s.problem.in_channels() / s.problem.groups); }},
    RuleFieldInfo{"size", "spatial sizes of x: 56x56", true, [](Subject s) { return spatial_sizes(s.problem.x); }},
    RuleFieldInfo{"out_size", "spatial sizes of y", true, [](Subject s) { return spatial_sizes(s.problem.y); }},
    RuleFieldInfo{"filter", "spatial sizes of w: 3x3", true, [](Subject s) { return spatial_sizes(s.problem.w); }},
    RuleFieldInfo{"pad", "padding: 1x1, or 1x1/0x1", true, [](Subject s) { return padding(s.problem); }},
    RuleFieldInfo{"stride", "stride: 2x2", true, [](Subject s) { return sizes(s.problem.stride); }},
    RuleFieldInfo{"dilation", "dilation: 1x1", true, [](Subject s) { return sizes(s.problem.dilation); }},
    RuleFieldInfo{"mode", "cross, conv", false,
                  [](Subject s) { return text(s.problem.mode == ConvMode::convolution ? "conv" : "cross"); }},
    RuleFieldInfo{"compute", "accumulator's type", false, [](Subject s) { return text(name_of(s.problem.compute)); }},
    RuleFieldInfo{"math", "strict, tf32, reduced", false, [](Subject s) { return text(name_of(s.problem.math)); }},
    RuleFieldInfo{"alpha", "alpha", true, [](Subject s) { return real(s.problem.alpha); }},
    RuleFieldInfo{"beta", "beta", true, [](Subject s) { return real(s.problem.beta); }},
    RuleFieldInfo{"bias", "0, 1", true, [](Subject s) { return number(s.problem.epilogue.bias); }},
    RuleFieldInfo{"gamma", "gamma", true, [](Subject s) { return real(s.problem.epilogue.gamma); }},
    RuleFieldInfo{"act", "activation: identity, relu, clip ..", false,
                  [](Subject s) { return text(name_of(s.problem.epilogue.activation.kind)); }},
    RuleFieldInfo{"requant", "none, tensor, channel", false, [](Subject s) { return requantization(s.problem); }},
    RuleFieldInfo{"residual", "SCALE,ZERO,Z_SCALE,Z_ZERO behind the requantization", false,
                  [](Subject s) { return written(s.problem, "residual"); }},
    RuleFieldInfo{"zp", "zero points X,W,Y; `given` for those of each execution", false,
                  [](Subject s) {
                    const FieldValue value = written(s.problem, "zp");
                    return value.text.empty() ? text("0,0,0") : value;
                  }},
    RuleFieldInfo{"flops", "multiplications and additions", true, [](Subject s) { return real(flops(s.problem)); }},
    RuleFieldInfo{"bytes", "least bytes moved", true, [](Subject s) { return real(bytes_moved(s.problem)); }},
};

}  // namespace

std::span<const RuleFieldInfo> rule_field_table() { return kFields; }

}  // namespace selection

std::vector<RuleField> rule_fields() {
  std::vector<RuleField> fields;
  for (const selection::RuleFieldInfo& field : selection::rule_field_table()) {
    fields.push_back({field.name, field.meaning});
  }
  return fields;
}

}  // namespace convoy
