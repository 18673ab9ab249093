#include "network/graph/zoo/builder.h"

#include <algorithm>
#include <array>

namespace convoy::zoo {
namespace {

void set_name_and_type(::onnx::ValueInfoProto& info, const std::string& name) {
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(::onnx::TensorProto::FLOAT);
}

::onnx::TensorShapeProto& shape_of(::onnx::ValueInfoProto& info) {
  return *info.mutable_type()->mutable_tensor_type()->mutable_shape();
}

}  // namespace

ModelBuilder::ModelBuilder(const std::string& graph_name, std::uint64_t seed, float epsilon)
    : generator_(seed), epsilon_(epsilon) {
  model_.set_ir_version(8);
  model_.set_producer_name("convoy");
  auto& opset = *model_.add_opset_import();
  opset.set_domain("");
  opset.set_version(17);
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

::onnx::TensorProto& ModelBuilder::tensor(const std::string& name, ::onnx::TensorProto::DataType type,
                                          const std::vector<std::int64_t>& dims) {
  auto& tensor = *model_.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

std::string ModelBuilder::weights(const std::string& name, const std::vector<std::int64_t>& dims, float low,
                                  float high) {
  std::size_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
  // In blocks that stay in cache: the largest tensors have 400 MB.
  std::string& bytes = *tensor(name, ::onnx::TensorProto::FLOAT, dims).mutable_raw_data();
  bytes.reserve(count * sizeof(float));
  std::array<float, 4096> block;
  for (std::size_t done = 0; done < count;) {
    const std::size_t size = std::min(block.size(), count - done);
    for (std::size_t i = 0; i < size; ++i) block[i] = generator_.uniform(low, high);
    bytes.append(reinterpret_cast<const char*>(block.data()), size * sizeof(float));
    done += size;
  }
  return name;
}

Value ModelBuilder::scalar(const std::string& name, float value) {
  tensor(name, ::onnx::TensorProto::FLOAT, {}).set_raw_data(&value, sizeof(value));
  return {name};
}

Value ModelBuilder::scalar(const std::string& name, std::int64_t value) {
  tensor(name, ::onnx::TensorProto::INT64, {}).set_raw_data(&value, sizeof(value));
  return {name};
}

Value ModelBuilder::indices(const std::string& name, const std::vector<std::int64_t>& values) {
  tensor(name, ::onnx::TensorProto::INT64, {static_cast<std::int64_t>(values.size())})
      .set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
  return {name};
}

Value ModelBuilder::input(std::int64_t channels, const std::vector<std::int64_t>& sizes) {
  auto& info = *model_.mutable_graph()->add_input();
  set_name_and_type(info, "input");
  rank_ = sizes.size();
  shape_of(info).add_dim()->set_dim_param("N");
  shape_of(info).add_dim()->set_dim_value(channels);
  for (std::size_t i = 0; i < rank_; ++i) {
    const std::string name(1, "DHW"[3 - rank_ + i]);
    shape_of(info).add_dim()->set_dim_param(name);
    auto& metadata = *model_.add_metadata_props();
    metadata.set_key("convoy.size." + name);
    metadata.set_value(std::to_string(sizes[i]));
  }
  return {"input", channels};
}

void ModelBuilder::output(const Value& value, const std::vector<std::string>& free_dims) {
  auto& info = *model_.mutable_graph()->add_output();
  set_name_and_type(info, value.name);
  shape_of(info).add_dim()->set_dim_param("N");
  shape_of(info).add_dim()->set_dim_value(value.channels);
  for (const std::string& name : free_dims) shape_of(info).add_dim()->set_dim_param(name);
}

void ModelBuilder::output_positions(const Value& value) {
  auto& info = *model_.mutable_graph()->add_output();
  set_name_and_type(info, value.name);
  shape_of(info).add_dim()->set_dim_param("N");
  shape_of(info).add_dim()->set_dim_param("positions");
  shape_of(info).add_dim()->set_dim_value(value.channels);
}

std::string ModelBuilder::serialized() const { return model_.SerializeAsString(); }

Value conv_bn(ModelBuilder& b, const std::string& name, const Value& x, const ConvSpec& spec, Activation activation,
              float scale) {
  return b.activation(name + ".act", b.batch_norm(name + ".bn", b.conv(name + ".conv", x, spec), scale), activation);
}

Value conv_act(ModelBuilder& b, const std::string& name, const Value& x, ConvSpec spec, Activation activation) {
  spec.bias = true;
  return b.activation(name + ".act", b.conv(name + ".conv", x, spec), activation);
}

std::string classified(ModelBuilder& b, const Value& x, bool dropout) {
  Value features = b.flatten("flatten", b.global_average_pool("avgpool", x));
  if (dropout) features = b.dropout("dropout", features);
  b.output(b.linear("classifier", features, 1000));
  return b.serialized();
}

}  // namespace convoy::zoo
