// The layers of ModelBuilder, each as the node or nodes that exporters write for it.
#include <cmath>
#include <numeric>

#include "network/graph/zoo/builder.h"

namespace convoy::zoo {
namespace {

void set_ints(::onnx::NodeProto& node, const char* name, const std::vector<std::int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(::onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

void set_int(::onnx::NodeProto& node, const char* name, std::int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(::onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void set_float(::onnx::NodeProto& node, const char* name, float value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(::onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

void set_string(::onnx::NodeProto& node, const char* name, const char* value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(::onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

// E[f(z)^2] for z of the standard normal distribution. For silu it is 0.356; a little more, since an excess of power
// would grow from layer to layer: E[silu(z)^2]/E[z^2] rises with the variance. So for hard_swish, 0.336.
constexpr double kSiluPower = 0.38, kGeluPower = 0.425, kSigmoidPower = 0.293;
constexpr double kHardSwishPower = 0.36, kHardSigmoidPower = 0.277;
// The mean of squares grows by about this where a pool takes the largest of correlated neighbours.
constexpr double kMaxPoolGain = 2;

}  // namespace

std::vector<std::int64_t> ModelBuilder::everywhere(std::int64_t value, std::size_t times) const {
  return std::vector<std::int64_t>(times * rank_, value);
}

std::string ModelBuilder::he_weights(const std::string& name, const std::vector<std::int64_t>& dims, double fan_in,
                                     double power) {
  const auto a = static_cast<float>(std::sqrt(3 / (power * fan_in)));  // uniform in (-a, a): the variance is a^2/3
  return weights(name, dims, -a, a);
}

Value ModelBuilder::conv_node(const std::string& name, const std::vector<std::string>& inputs, std::int64_t out,
                              const ConvSpec& spec) {
  auto& proto = node("Conv", name, inputs);
  set_ints(proto, "kernel_shape", everywhere(spec.kernel));
  set_ints(proto, "strides", everywhere(spec.stride));
  set_ints(proto, "pads", everywhere(spec.pad, 2));
  set_ints(proto, "dilations", everywhere(1));
  set_int(proto, "group", spec.groups);
  return {proto.output(0), out};
}

Value ModelBuilder::conv(const std::string& name, const Value& x, const ConvSpec& spec) {
  const std::int64_t out = spec.out == 0 ? x.channels : spec.out;
  std::vector<std::int64_t> dims = everywhere(spec.kernel);
  std::int64_t fan_in = x.channels / spec.groups;
  dims.insert(dims.begin(), {out, fan_in});
  for (std::size_t i = 0; i < rank_; ++i) fan_in *= spec.kernel;
  std::vector<std::string> inputs = {x.name, he_weights(name + ".weight", dims, static_cast<double>(fan_in), x.power)};
  if (spec.bias) inputs.push_back(weights(name + ".bias", {out}, -0.1F, 0.1F));
  return conv_node(name, inputs, out, spec);
}

Value ModelBuilder::conv_transpose(const std::string& name, const Value& x, std::int64_t out,
                                   std::int64_t kernel_and_stride) {
  std::vector<std::int64_t> dims = everywhere(kernel_and_stride);
  dims.insert(dims.begin(), {x.channels, out});
  // The filters do not overlap: every output is a sum over the channels only.
  auto& proto = node("ConvTranspose", name,
                     {x.name, he_weights(name + ".weight", dims, static_cast<double>(x.channels), x.power),
                      weights(name + ".bias", {out}, -0.1F, 0.1F)});
  set_ints(proto, "kernel_shape", everywhere(kernel_and_stride));
  set_ints(proto, "strides", everywhere(kernel_and_stride));
  return {proto.output(0), out};
}

Value ModelBuilder::batch_norm(const std::string& name, const Value& x, float scale) {
  const std::vector<std::int64_t> dims = {x.channels};
  auto& proto = node(
      "BatchNormalization", name,
      {x.name, weights(name + ".weight", dims, 0.8F * scale, 1.2F * scale), weights(name + ".bias", dims, -0.1F, 0.1F),
       weights(name + ".running_mean", dims, -0.1F, 0.1F), weights(name + ".running_var", dims, 0.8F, 1.2F)});
  set_float(proto, "epsilon", epsilon_);
  return {proto.output(0), x.channels, x.power * scale * scale};
}

Value ModelBuilder::layer_norm(const std::string& name, const Value& x) {
  const std::vector<std::int64_t> dims = {x.channels};
  auto& proto = node("LayerNormalization", name,
                     {x.name, weights(name + ".weight", dims, 0.8F, 1.2F), weights(name + ".bias", dims, -0.1F, 0.1F)});
  set_int(proto, "axis", -1);
  set_float(proto, "epsilon", 1e-6F);
  return {proto.output(0), x.channels};
}

// As exporters write it before opset 18: the groups as instances, then a scale and a bias a channel.
Value ModelBuilder::group_norm(const std::string& name, const Value& x, std::int64_t groups) {
  const auto instances = [&](const std::string& of, float value) {
    const std::vector<float> values(static_cast<std::size_t>(groups), value);
    tensor(of, ::onnx::TensorProto::FLOAT, {groups}).set_raw_data(values.data(), values.size() * sizeof(float));
    return of;
  };
  const Value rows = reshape(name + ".groups", x, {0, groups, -1});
  auto& proto = node("InstanceNormalization", name + ".normal",
                     {rows.name, instances(name + ".ones", 1), instances(name + ".zeros", 0)});
  set_float(proto, "epsilon", epsilon_);
  const Value size = apply("Shape", name + ".size", {x});
  std::vector<std::int64_t> dims = everywhere(1);
  dims.insert(dims.begin(), x.channels);
  const Value normal = apply("Reshape", name + ".channels", {{proto.output(0), x.channels}, size});
  const Value scaled = apply("Mul", name + ".scaled", {normal, {weights(name + ".weight", dims, 0.8F, 1.2F)}});
  return apply("Add", name, {scaled, {weights(name + ".bias", dims, -0.1F, 0.1F)}});
}

Value ModelBuilder::linear_of_last(const std::string& name, const Value& x, std::int64_t out) {
  const Value product = {
      node("MatMul", name + ".product",
           {x.name, he_weights(name + ".weight", {x.channels, out}, static_cast<double>(x.channels), x.power)})
          .output(0),
      out};
  return apply("Add", name, {product, {weights(name + ".bias", {out}, -0.1F, 0.1F)}});
}

Value ModelBuilder::linear(const std::string& name, const Value& x, std::int64_t out) {
  auto& proto = node("Gemm", name,
                     {x.name, he_weights(name + ".weight", {out, x.channels}, static_cast<double>(x.channels), x.power),
                      weights(name + ".bias", {out}, -0.1F, 0.1F)});
  set_int(proto, "transB", 1);
  return {proto.output(0), out};
}

Value ModelBuilder::unary(const std::string& op, const std::string& name, const Value& x) {
  Value y = x;
  y.name = node(op, name, {x.name}).output(0);
  return y;
}

Value ModelBuilder::activation(const std::string& name, const Value& x, Activation kind) {
  Value y = x;
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::relu:
    case Activation::relu6:
      y.name = kind == Activation::relu
                   ? node("Relu", name, {x.name}).output(0)
                   : node("Clip", name, {x.name, scalar(name + ".min", 0.0F).name, scalar(name + ".max", 6.0F).name})
                         .output(0);
      if (!x.positive) y.power /= 2;
      y.positive = true;
      return y;
    case Activation::silu:
      y.name = node("Mul", name, {x.name, node("Sigmoid", name + ".sigmoid", {x.name}).output(0)}).output(0);
      y.power *= kSiluPower;
      return y;
    case Activation::gelu: {  // x * (1 + erf(x/sqrt 2)) / 2, as opsets before 20 must write it
      const std::string scaled =
          node("Div", name + ".div", {x.name, scalar(name + ".sqrt2", 1.41421356F).name}).output(0);
      const std::string erf = node("Erf", name + ".erf", {scaled}).output(0);
      const std::string one = node("Add", name + ".add", {erf, scalar(name + ".one", 1.0F).name}).output(0);
      const std::string twice = node("Mul", name + ".mul", {x.name, one}).output(0);
      y.name = node("Mul", name, {twice, scalar(name + ".half", 0.5F).name}).output(0);
      y.power *= kGeluPower;
      return y;
    }
    case Activation::sigmoid:
      y.name = node("Sigmoid", name, {x.name}).output(0);
      y.power = kSigmoidPower;
      return y;
    case Activation::hard_swish:
      y.name = node("HardSwish", name, {x.name}).output(0);
      y.power *= kHardSwishPower;
      return y;
    case Activation::hard_sigmoid: {
      auto& proto = node("HardSigmoid", name, {x.name});
      set_float(proto, "alpha", 1.0F / 6);
      set_float(proto, "beta", 0.5F);
      y.name = proto.output(0);
      y.power = kHardSigmoidPower;
      return y;
    }
  }
  return y;
}

Value ModelBuilder::add(const std::string& name, const Value& a, const Value& b) {
  return {node("Add", name, {a.name, b.name}).output(0), a.channels, a.power + b.power, a.positive || b.positive};
}

Value ModelBuilder::gate(const std::string& name, const Value& x, const Value& gate) {
  return {node("Mul", name, {x.name, gate.name}).output(0), x.channels, x.power * gate.power, x.positive};
}

Value ModelBuilder::layer_scale(const std::string& name, const Value& x, float scale) {
  std::vector<std::int64_t> dims = everywhere(1);
  dims.insert(dims.begin(), x.channels);
  const std::string weight = weights(name + ".weight", dims, 0.8F * scale, 1.2F * scale);
  return {node("Mul", name, {x.name, weight}).output(0), x.channels, x.power * scale * scale};
}

Value ModelBuilder::dropout(const std::string& name, const Value& x) { return unary("Dropout", name, x); }

Value ModelBuilder::pool(const std::string& op, const std::string& name, const Value& x, const PoolSpec& spec) {
  Value y = unary(op, name, x);
  auto& proto = *model_.mutable_graph()->mutable_node()->rbegin();
  set_ints(proto, "kernel_shape", everywhere(spec.kernel));
  set_ints(proto, "strides", everywhere(spec.stride));
  set_ints(proto, "pads", everywhere(spec.pad, 2));
  set_int(proto, "ceil_mode", spec.ceil_mode ? 1 : 0);
  return y;
}

Value ModelBuilder::max_pool(const std::string& name, const Value& x, const PoolSpec& spec) {
  Value y = pool("MaxPool", name, x, spec);
  y.power *= kMaxPoolGain;
  return y;
}

Value ModelBuilder::average_pool(const std::string& name, const Value& x, const PoolSpec& spec) {
  return pool("AveragePool", name, x, spec);
}

Value ModelBuilder::global_average_pool(const std::string& name, const Value& x) {
  return unary("GlobalAveragePool", name, x);
}

Value ModelBuilder::concat(const std::string& name, const std::vector<Value>& parts, std::int64_t axis) {
  std::vector<std::string> names;
  double sum = 0;
  std::int64_t channels = 0;
  bool positive = true;
  for (const Value& part : parts) {
    names.push_back(part.name);
    sum += part.power * static_cast<double>(part.channels);
    channels += part.channels;
    positive = positive && part.positive;
  }
  auto& proto = node("Concat", name, names);
  set_int(proto, "axis", axis);
  return {proto.output(0), axis == 1 ? channels : parts[0].channels, sum / static_cast<double>(channels), positive};
}

std::vector<Value> ModelBuilder::split(const std::string& name, const Value& x,
                                       const std::vector<std::int64_t>& channels) {
  auto& proto = node("Split", name, {x.name, indices(name + ".sizes", channels).name});
  set_int(proto, "axis", 1);
  std::vector<Value> parts;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    if (i > 0) proto.add_output(name + "_out" + std::to_string(i + 1));
    parts.push_back({proto.output(static_cast<int>(i)), channels[i], x.power, x.positive});
  }
  return parts;
}

Value ModelBuilder::crop(const std::string& name, const Value& x, std::int64_t margin) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < rank_; ++i) axes.push_back(static_cast<std::int64_t>(2 + i));
  Value y = x;
  y.name = node("Slice", name,
                {x.name, indices(name + ".starts", everywhere(margin)).name,
                 indices(name + ".ends", everywhere(-margin)).name, indices(name + ".axes", axes).name})
               .output(0);
  return y;
}

Value ModelBuilder::enlarge(const std::string& name, const Value& x, const std::vector<float>& factors) {
  std::vector<float> values = factors;
  values.insert(values.begin(), {1, 1});
  tensor(name + ".scales", ::onnx::TensorProto::FLOAT, {static_cast<std::int64_t>(values.size())})
      .set_raw_data(values.data(), values.size() * sizeof(float));
  auto& proto = node("Resize", name, {x.name, "", name + ".scales"});
  set_string(proto, "mode", "nearest");
  set_string(proto, "coordinate_transformation_mode", "asymmetric");
  set_string(proto, "nearest_mode", "floor");
  Value y = x;
  y.name = proto.output(0);
  return y;
}

Value ModelBuilder::pad_by_edge(const std::string& name, const Value& x, const std::vector<std::int64_t>& before,
                                const std::vector<std::int64_t>& behind) {
  std::vector<std::int64_t> pads = {0, 0};
  pads.insert(pads.end(), before.begin(), before.end());
  pads.insert(pads.end(), {0, 0});
  pads.insert(pads.end(), behind.begin(), behind.end());
  auto& proto = node("Pad", name, {x.name, indices(name + ".pads", pads).name});
  set_string(proto, "mode", "edge");
  Value y = x;
  y.name = proto.output(0);
  return y;
}

Value ModelBuilder::flatten(const std::string& name, const Value& x) {
  Value y = unary("Flatten", name, x);
  set_int(*model_.mutable_graph()->mutable_node()->rbegin(), "axis", 1);
  return y;
}

Value ModelBuilder::reshape(const std::string& name, const Value& x, const std::vector<std::int64_t>& shape) {
  Value y = x;
  y.name = node("Reshape", name, {x.name, indices(name + ".shape", shape).name}).output(0);
  return y;
}

Value ModelBuilder::transpose(const std::string& name, const Value& x, const std::vector<std::int64_t>& permutation) {
  Value y = unary("Transpose", name, x);
  set_ints(*model_.mutable_graph()->mutable_node()->rbegin(), "perm", permutation);
  return y;
}

Value ModelBuilder::apply(const std::string& op, const std::string& name, const std::vector<Value>& inputs,
                          const Attributes& attributes) {
  std::vector<std::string> names;
  for (const Value& input : inputs) names.push_back(input.name);
  auto& proto = node(op, name, names);
  for (const auto& [attribute, value] : attributes) set_int(proto, attribute, value);
  return {proto.output(0), inputs[0].channels};
}

Value ModelBuilder::expectation(const std::string& name, const Value& x) {
  std::vector<float> values(static_cast<std::size_t>(x.channels));
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<std::int64_t> dims = everywhere(1);
  dims.insert(dims.begin(), {1, x.channels});
  tensor(name + ".weight", ::onnx::TensorProto::FLOAT, dims).set_raw_data(values.data(), values.size() * sizeof(float));
  return conv_node(name, {x.name, name + ".weight"}, 1, {});
}

}  // namespace convoy::zoo
