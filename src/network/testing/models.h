// For tests of the importer: models written with the protobuf's own classes.
#pragma once

#include "network/graph/onnx/import.h"
#include "network/testing/graphs.h"
#include "onnx.pb.h"

namespace convoy::network {

inline ::onnx::ModelProto empty_model() {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->set_name("g");
  return model;
}

inline void add_value(::onnx::ValueInfoProto& info, const std::string& name, std::vector<std::int64_t> dims) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(::onnx::TensorProto::FLOAT);
  for (const auto dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

inline ::onnx::NodeProto& add_node(::onnx::ModelProto& model, const std::string& op, const std::string& name,
                                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  auto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}

// x -> Add(w) -> y
inline ::onnx::ModelProto small_model() {
  ::onnx::ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "x", {2, 2});
  add_value(*model.mutable_graph()->add_output(), "y", {2, 2});
  ::onnx::TensorProto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(::onnx::TensorProto::FLOAT);
  w.add_dims(2);
  w.add_float_data(10);
  w.add_float_data(20);
  add_node(model, "Add", "sum", {"x", "w"}, {"y"});
  return model;
}

inline Result<Graph> import(const ::onnx::ModelProto& model, const std::string& folder = {}) {
  const std::string bytes = model.SerializeAsString();
  return onnx_io::import_bytes(std::as_bytes(std::span(bytes)), "m", folder);
}

inline void expect_refused(const ::onnx::ModelProto& model, const std::string& text, const std::string& folder = {}) {
  const auto graph = import(model, folder);
  ASSERT_FALSE(graph.ok()) << text;
  EXPECT_NE(graph.error().message.find(text), std::string::npos) << graph.error().message;
}

}  // namespace convoy::network
