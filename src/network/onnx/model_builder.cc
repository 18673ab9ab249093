#include "network/onnx/model_builder.h"

#include <cmath>

namespace convoy::onnx_io {
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

void set_type(::onnx::ValueInfoProto& info, const std::string& name, const std::vector<std::int64_t>& dims) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(::onnx::TensorProto::FLOAT);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const std::int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

float SeededGenerator::uniform(float low, float high) {
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  const float unit = static_cast<float>(z >> 40) * 0x1p-24F;  // exact
  return low + (high - low) * unit;
}

ModelBuilder::ModelBuilder(const std::string& graph_name, std::uint64_t seed) : generator_(seed) {
  model_.set_ir_version(8);
  model_.set_producer_name("convoy");
  auto& opset = *model_.add_opset_import();
  opset.set_domain("");
  opset.set_version(13);
  model_.mutable_graph()->set_name(graph_name);
}

::onnx::NodeProto& ModelBuilder::node(const std::string& op, const std::string& name,
                                      const std::vector<std::string>& inputs) {
  auto& node = *model_.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(name + "_out");
  return node;
}

std::string ModelBuilder::constant(const std::string& name, const std::vector<std::int64_t>& dims, float low,
                                   float high) {
  auto& tensor = *model_.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(::onnx::TensorProto::FLOAT);
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= dim;
  }
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = generator_.uniform(low, high);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return name;
}

std::string ModelBuilder::scalar(const std::string& name, float value) {
  auto& tensor = *model_.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(::onnx::TensorProto::FLOAT);
  tensor.set_raw_data(&value, sizeof(value));
  return name;
}

std::string ModelBuilder::input(const std::string& name, const std::vector<std::int64_t>& dims) {
  set_type(*model_.mutable_graph()->add_input(), name, dims);
  return name;
}

std::string ModelBuilder::conv(const std::string& name, const std::string& x, const ConvSpec& spec) {
  const std::int64_t in_group = spec.in / spec.groups;
  // He et al., "Delving deep into rectifiers", 2015: variance gain/fan_in; a uniform distribution on (-a, a) has a^2/3.
  const auto fan_in = static_cast<double>(in_group * spec.kernel * spec.kernel);
  const auto a = static_cast<float>(std::sqrt(3 * spec.gain / fan_in));
  std::vector<std::string> inputs = {x,
                                     constant(name + ".weight", {spec.out, in_group, spec.kernel, spec.kernel}, -a, a)};
  if (spec.bias) inputs.push_back(constant(name + ".bias", {spec.out}, -0.1F, 0.1F));
  auto& proto = node("Conv", name, inputs);
  set_ints(proto, "kernel_shape", {spec.kernel, spec.kernel});
  set_ints(proto, "strides", {spec.stride, spec.stride});
  set_ints(proto, "pads", {spec.pad, spec.pad, spec.pad, spec.pad});
  set_int(proto, "group", spec.groups);
  return proto.output(0);
}

std::string ModelBuilder::batch_norm(const std::string& name, const std::string& x, std::int64_t channels,
                                     float scale) {
  return node("BatchNormalization", name,
              {x, constant(name + ".weight", {channels}, 0.8F * scale, 1.2F * scale),
               constant(name + ".bias", {channels}, -0.1F, 0.1F),
               constant(name + ".running_mean", {channels}, -0.1F, 0.1F),
               constant(name + ".running_var", {channels}, 0.8F, 1.2F)})
      .output(0);
}

std::string ModelBuilder::relu(const std::string& name, const std::string& x) {
  return node("Relu", name, {x}).output(0);
}

std::string ModelBuilder::relu6(const std::string& name, const std::string& x) {
  return node("Clip", name, {x, scalar(name + ".min", 0), scalar(name + ".max", 6)}).output(0);
}

std::string ModelBuilder::add(const std::string& name, const std::string& a, const std::string& b) {
  return node("Add", name, {a, b}).output(0);
}

std::string ModelBuilder::max_pool(const std::string& name, const std::string& x, std::int64_t kernel,
                                   std::int64_t stride, std::int64_t pad, bool ceil_mode) {
  auto& proto = node("MaxPool", name, {x});
  set_ints(proto, "kernel_shape", {kernel, kernel});
  set_ints(proto, "strides", {stride, stride});
  set_ints(proto, "pads", {pad, pad, pad, pad});
  set_int(proto, "ceil_mode", ceil_mode ? 1 : 0);
  return proto.output(0);
}

std::string ModelBuilder::global_average_pool(const std::string& name, const std::string& x) {
  return node("GlobalAveragePool", name, {x}).output(0);
}

std::string ModelBuilder::concat(const std::string& name, const std::vector<std::string>& parts) {
  auto& proto = node("Concat", name, parts);
  set_int(proto, "axis", 1);
  return proto.output(0);
}

std::string ModelBuilder::dropout(const std::string& name, const std::string& x) {
  return node("Dropout", name, {x}).output(0);
}

std::string ModelBuilder::flatten(const std::string& name, const std::string& x) {
  auto& proto = node("Flatten", name, {x});
  set_int(proto, "axis", 1);
  return proto.output(0);
}

std::string ModelBuilder::linear(const std::string& name, const std::string& x, std::int64_t in, std::int64_t out) {
  const auto a = static_cast<float>(std::sqrt(3.0 / static_cast<double>(in)));
  auto& proto = node("Gemm", name,
                     {x, constant(name + ".weight", {out, in}, -a, a), constant(name + ".bias", {out}, -0.1F, 0.1F)});
  set_int(proto, "transB", 1);
  return proto.output(0);
}

void ModelBuilder::output(const std::string& value, const std::vector<std::int64_t>& dims) {
  set_type(*model_.mutable_graph()->add_output(), value, dims);
}

std::string ModelBuilder::serialized() const { return model_.SerializeAsString(); }

}  // namespace convoy::onnx_io
