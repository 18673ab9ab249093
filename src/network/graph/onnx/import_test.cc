// Models from files: what is read, what is refused and with which words.
#include "network/graph/onnx/decode.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/testing/models.h"

namespace convoy::network {
namespace {

using ::onnx::AttributeProto;
using ::onnx::ModelProto;
using ::onnx::TensorProto;

TEST(Import, ReadsASmallModel) {
  const std::string bytes = small_model().SerializeAsString();
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "small");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ((*network)->inputs().size(), 1u);
  EXPECT_EQ((*network)->inputs()[0].dims, (Dims{2, 2}));
  const HostTensor x = tensor_of(DataType::f32, {2, 2}, {1, 2, 3, 4});
  auto session = (*network)->prepare(std::vector{x.desc}, test_options());
  ASSERT_TRUE(session.ok()) << session.error().message;
  auto y = (*session)->run(std::vector{x});
  ASSERT_TRUE(y.ok()) << y.error().message;
  expect_close((*y)[0], tensor_of(DataType::f32, {2, 2}, {11, 22, 13, 24}));
}

TEST(Import, FilesThatAreNone) {
  EXPECT_EQ(Network::load("no/such/model.onnx").error().code, ErrorCode::not_found);
  EXPECT_EQ(Network::load("/").error().code, ErrorCode::not_found);
  EXPECT_EQ(Network::load("zoo:nothing").error().code, ErrorCode::not_found);
}

TEST(Import, PrepareRefusesWhatTheModelDoesNotDeclare) {
  ModelProto model = small_model();
  auto& dim = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dim.mutable_dim(0)->set_dim_param("N");
  const std::string bytes = model.SerializeAsString();
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "small");
  ASSERT_TRUE(network.ok());
  EXPECT_EQ((*network)->inputs()[0].dims, (Dims{-1, 2}));
  EXPECT_EQ((*network)->inputs()[0].dim_names[0], "N");
  const auto prepare = [&](DataType type, Dims dims) {
    return (*network)->prepare(std::vector{TensorDesc::packed(type, std::move(dims))}, test_options());
  };
  EXPECT_TRUE(prepare(DataType::f32, {5, 2}).ok());
  EXPECT_NE(prepare(DataType::f32, {5, 3}).error().message.find("input 'x': dims[1]=3"), std::string::npos);
  EXPECT_NE(prepare(DataType::f32, {5}).error().message.find("2 dims"), std::string::npos);
  EXPECT_NE(prepare(DataType::u8, {5, 2}).error().message.find("declares f32"), std::string::npos);
  EXPECT_FALSE((*network)->prepare({}, test_options()).ok());
  auto session = prepare(DataType::f32, {5, 2});
  EXPECT_NE((*session)->run(std::vector{spread({4, 2})}).error().message.find("prepared for"), std::string::npos);
  EXPECT_FALSE((*session)->run({}).ok());
}

// The metadata "convoy.size.NAME" proposes a size for the free dims of that name.
TEST(Import, MetadataProposesSizes) {
  ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("H");
  auto& entry = *model.add_metadata_props();
  entry.set_key("convoy.size.H");
  for (const auto& [text, size] : {std::pair<const char*, int>{"7", 7}, {"0", 0}, {"x", 0}, {"-3", 0}, {"", 0}}) {
    entry.set_value(text);
    const std::string bytes = model.SerializeAsString();
    auto network = Network::parse(std::as_bytes(std::span(bytes)), "small");
    ASSERT_EQ(network.ok(), size > 0) << text;
    if (size > 0) {
      EXPECT_EQ((*network)->inputs()[0].dims, (Dims{-1, 2}));
      EXPECT_EQ((*network)->inputs()[0].proposed_dims, (Dims{size, 2}));
      EXPECT_EQ((*network)->info().metadata, (std::map<std::string, std::string>{{"convoy.size.H", text}}));
    } else {
      EXPECT_NE(network.error().message.find("convoy.size.H"), std::string::npos);
    }
  }
}

TEST(Import, ConstantsInEveryForm) {
  struct Form {
    const char* attribute;
    void (*fill)(AttributeProto&);
    DataType type;
    Dims dims;
    double first;
  };
  const Form forms[] = {
      {"value_float",
       [](AttributeProto& a) { a.set_type(AttributeProto::FLOAT), a.set_f(2.5F); },
       DataType::f32,
       {},
       2.5},
      {"value_floats",
       [](AttributeProto& a) { a.set_type(AttributeProto::FLOATS), a.add_floats(3), a.add_floats(4); },
       DataType::f32,
       {2},
       3},
      {"value_int", [](AttributeProto& a) { a.set_type(AttributeProto::INT), a.set_i(-7); }, DataType::s64, {}, -7},
      {"value_ints", [](AttributeProto& a) { a.set_type(AttributeProto::INTS), a.add_ints(9); }, DataType::s64, {1}, 9},
      {"value",
       [](AttributeProto& a) {
         a.set_type(AttributeProto::TENSOR);
         a.mutable_t()->set_data_type(TensorProto::FLOAT16);
         a.mutable_t()->add_int32_data(0x3C00);
       },
       DataType::f16,
       {},
       1},
  };
  for (const Form& form : forms) {
    SCOPED_TRACE(form.attribute);
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_output(), "y", {});
    auto& attribute = *add_node(model, "Constant", "c", {}, {"y"}).add_attribute();
    attribute.set_name(form.attribute);
    form.fill(attribute);
    const auto graph = import(model);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    const HostTensor* constant = graph->constant_of(graph->outputs[0]);
    ASSERT_NE(constant, nullptr);
    EXPECT_EQ(constant->desc.type, form.type);
    EXPECT_EQ(constant->desc.dims, form.dims);
    EXPECT_EQ(constant->at(0), form.first);
  }
}

TEST(Import, TensorsOfEveryTypeRoundTrip) {
  for (const DataType type :
       {DataType::f64, DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3, DataType::f8_e5m2,
        DataType::s64, DataType::s32, DataType::s16, DataType::s8, DataType::u64, DataType::u32, DataType::u16,
        DataType::u8, DataType::boolean, DataType::f8_e4m3fnuz, DataType::f8_e5m2fnuz, DataType::f8_e8m0}) {
    SCOPED_TRACE(name_of(type));
    const HostTensor tensor = tensor_of(type, {2, 2}, {0, 1, 2, 4});
    auto bytes = onnx_io::serialize_tensor(tensor, "t");
    ASSERT_TRUE(bytes.ok());
    auto back = onnx_io::parse_tensor(std::as_bytes(std::span(*bytes)), "t.pb");
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->name, "t");
    expect_close(back->tensor, tensor, 0, 0);
    // The same elements in the typed field.
    TensorProto proto;
    ASSERT_TRUE(proto.ParseFromString(*bytes));
    proto.clear_raw_data();
    for (std::int64_t i = 0; i < 4; ++i) {
      const double v = tensor.at(i);
      if (type == DataType::f32)
        proto.add_float_data(static_cast<float>(v));
      else if (type == DataType::f64)
        proto.add_double_data(v);
      else if (type == DataType::s64)
        proto.add_int64_data(static_cast<std::int64_t>(v));
      else if (type == DataType::u64 || type == DataType::u32)
        proto.add_uint64_data(static_cast<std::uint64_t>(v));
      else if (is_floating(type) && size_of(type) == 2)
        proto.add_int32_data(tensor.as<std::uint16_t>()[i]);
      else if (is_floating(type))
        proto.add_int32_data(tensor.as<std::uint8_t>()[i]);
      else
        proto.add_int32_data(static_cast<std::int32_t>(v));
    }
    const std::string typed = proto.SerializeAsString();
    auto again = onnx_io::parse_tensor(std::as_bytes(std::span(typed)), "t.pb");
    ASSERT_TRUE(again.ok()) << again.error().message;
    expect_close(again->tensor, tensor, 0, 0);
  }
}

// Two or four elements a byte, the first in the lowest bits, in raw_data and in int32_data.
TEST(Import, PackedTensorsRoundTrip) {
  const struct {
    DataType type;
    std::vector<double> values;
    std::string bytes;
  } packed[] = {
      {DataType::s4, {-8, 7, -1, 3, 2}, "\x78\x3f\x02"},       {DataType::u4, {15, 1, 0, 9, 8}, "\x1f\x90\x08"},
      {DataType::s2, {-2, 1, 0, -1, 1}, "\xc6\x01"},           {DataType::u2, {3, 0, 2, 1, 3}, "\x63\x03"},
      {DataType::f4_e2m1, {6, -0.5, 1, 0, 3}, "\x97\x02\x05"},
  };
  for (const auto& [type, values, bytes] : packed) {
    SCOPED_TRACE(name_of(type));
    const HostTensor tensor = tensor_of(type, {5}, values);
    const auto written = onnx_io::serialize_tensor(tensor, "t");
    ASSERT_TRUE(written.ok());
    TensorProto proto;
    ASSERT_TRUE(proto.ParseFromString(*written));
    EXPECT_EQ(proto.raw_data(), bytes);
    const std::string raw = proto.SerializeAsString();
    auto back = onnx_io::parse_tensor(std::as_bytes(std::span(raw)), "t.pb");
    ASSERT_TRUE(back.ok()) << back.error().message;
    expect_close(back->tensor, tensor, 0, 0);
    proto.clear_raw_data();
    for (const char byte : bytes) proto.add_int32_data(static_cast<unsigned char>(byte));
    const std::string typed = proto.SerializeAsString();
    back = onnx_io::parse_tensor(std::as_bytes(std::span(typed)), "t.pb");
    ASSERT_TRUE(back.ok()) << back.error().message;
    expect_close(back->tensor, tensor, 0, 0);
    proto.add_int32_data(0);
    const std::string more = proto.SerializeAsString();
    back = onnx_io::parse_tensor(std::as_bytes(std::span(more)), "t.pb");
    ASSERT_FALSE(back.ok());
    EXPECT_NE(back.error().message.find("dims 5 need"), std::string::npos) << back.error().message;
  }
}

TEST(Import, SizesAreCheckedAgainstTheBytes) {
  ModelProto model = small_model();
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, std::int64_t{1} << 40);
  expect_refused(model, "initializer 'w': dims 1099511627776 need 1099511627776 elements, the data has 2");
  model.mutable_graph()->mutable_initializer(0)->add_dims(std::int64_t{1} << 40);
  expect_refused(model, "initializer 'w'");
  model = small_model();
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, -2);
  expect_refused(model, "initializer 'w': dims[0]=-2 is negative");
  model = small_model();
  model.mutable_graph()->mutable_initializer(0)->set_raw_data("123");
  expect_refused(model, "need 8 bytes, raw_data has 3");
  model = small_model();
  model.mutable_graph()->mutable_initializer(0)->set_data_type(99);
  expect_refused(model, "data_type=99");
  model.mutable_graph()->mutable_initializer(0)->set_data_type(TensorProto::STRING);
  expect_refused(model, "element type STRING is not supported");
}

TEST(Import, BrokenGraphsAreNamed) {
  ModelProto model = small_model();
  model.mutable_graph()->mutable_node(0)->set_input(1, "nowhere");
  expect_refused(model, "node 'sum' (Add): input 1 'nowhere' is no graph input, initializer or node output");
  model = small_model();
  model.mutable_graph()->mutable_output(0)->set_name("z");
  expect_refused(model, "graph output 'z' is no");
  model = small_model();
  add_node(model, "Add", "again", {"x", "w"}, {"y"});
  expect_refused(model, "node 'again', output: the name 'y' is taken");
  model = small_model();
  *model.mutable_graph()->add_initializer() = model.graph().initializer(0);
  expect_refused(model, "initializer 'w': the name 'w' is taken");
  model = small_model();
  add_value(*model.mutable_graph()->add_input(), "x", {1});
  expect_refused(model, "graph input 'x' is declared twice");
  model = small_model();
  model.mutable_graph()->mutable_node(0)->set_input(0, "b");
  add_node(model, "Neg", "second", {"y"}, {"b"});
  expect_refused(model, "is part of a cycle");
  model = small_model();
  model.clear_opset_import();
  expect_refused(model, "imports no opset");
  model = small_model();
  model.clear_graph();
  expect_refused(model, "no graph");
  model = small_model();
  auto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name("body");
  attribute.set_type(AttributeProto::GRAPH);
  expect_refused(model, "attribute 'body' is of kind GRAPH");
}

TEST(Import, AllUnknownOperatorsAtOnce) {
  ModelProto model = small_model();
  add_node(model, "Frobnicate", "f1", {"x"}, {"a"});
  add_node(model, "Frobnicate", "f2", {"x"}, {"b"});
  add_node(model, "Warp", "", {"x"}, {"c"}).set_domain("com.example");
  const auto graph = import(model);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, ErrorCode::unsupported);
  EXPECT_EQ(graph.error().message,
            "operators not supported:\n  Frobnicate (2 nodes): f1, f2\n  com.example.Warp (1 node): Warp_3");
}

// "xx" is a message with a field that is none of ONNX's.
TEST(Import, BytesThatSayNothingAreNoModel) {
  const auto graph = onnx_io::import_bytes(std::as_bytes(std::span("xx", 2)), "name", "");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "not an ONNX model, or truncated (2 bytes)");
}

// docs/onnx.md lists them.
TEST(Import, WhatStaysRefusedSaysTheWayAround) {
  for (const auto& [op, way] :
       {std::pair{"StringConcat", "before the network"}, {"LinearAttention", "write its steps out"}}) {
    ModelProto model = small_model();
    add_node(model, op, "node", {"x"}, {"a"});
    expect_refused(model, std::string(op) + " (1 node): node; ");
    expect_refused(model, way);
  }
  ModelProto model = small_model();
  auto& list = *model.mutable_graph()->add_input();
  list.set_name("list");
  list.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  expect_refused(model, "graph input 'list': only tensors are supported as inputs and outputs; export the model");
}

// "?" says that nobody knows, each time: it names no size. A name that comes twice is one size.
TEST(Import, NamesOfSizes) {
  for (const char* text : {"?", "*", "-1", "None", "unknown", "n"}) {
    ModelProto model = small_model();
    for (auto* info : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)}) {
      for (auto& dim : *info->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
        dim.set_dim_param(text);
      }
    }
    const std::string bytes = model.SerializeAsString();
    const auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
    ASSERT_TRUE(network.ok()) << network.error().message;
    const std::vector<TensorDesc> one = {TensorDesc::packed(DataType::f32, {2, 2})};
    const std::vector<TensorDesc> two = {TensorDesc::packed(DataType::f32, {3, 2})};
    EXPECT_TRUE((*network)->prepare(one, {}).ok()) << text;
    const auto session = (*network)->prepare(two, {});
    const bool named = std::string(text) == "n";
    EXPECT_EQ((*network)->inputs()[0].dim_names[0], named ? "n" : "");
    ASSERT_EQ(session.ok(), !named) << text;
    if (session.ok()) continue;
    EXPECT_EQ(
        session.error().message,
        "input 'x': dims[1]=2 and input 'x': dims[0]=3, but the model names both 'n', which makes them one size: "
        "give them the same, or, where they are two sizes, give them names of their own in the model (dim_param)");
  }
}

TEST(Import, ConstantsThatAreNone) {
  for (const char* name : {"sparse_value", "value_string", "value_strings"}) {
    ModelProto model = empty_model();
    add_value(*model.mutable_graph()->add_output(), "y", {});
    auto& attribute = *add_node(model, "Constant", "c", {}, {"y"}).add_attribute();
    attribute.set_name(name);
    attribute.set_type(std::string(name) == "value_strings" ? AttributeProto::STRINGS : AttributeProto::STRING);
    expect_refused(model, "node 'c' (Constant): attribute '" + std::string(name) + "' is not supported");
    if (std::string(name) == "sparse_value") {
      attribute.set_type(AttributeProto::SPARSE_TENSOR);
      expect_refused(model, "attribute 'sparse_value' is of kind SPARSE_TENSOR");
    }
    attribute.set_name("nothing");
    attribute.set_type(AttributeProto::INT);
    expect_refused(model, "attribute 'nothing' is of the wrong kind");
  }
  ModelProto model = small_model();
  model.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("s");
  expect_refused(model, "sparse initializer 's' is not supported");
}

// Models of IR version 3 declare every weight as an input; a caller gives the others only.
// A model that does not import ONNX Runtime's domain runs there, too.
TEST(Import, DomainsThatHaveOneOpsetNeedNotBeImported) {
  ModelProto model = small_model();
  model.mutable_graph()->mutable_node(0)->set_output(0, "h");
  add_node(model, "Gelu", "gelu", {"h"}, {"y"});
  model.mutable_graph()->mutable_node(1)->set_domain("com.microsoft");
  const std::string bytes = model.SerializeAsString();
  const auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
  EXPECT_TRUE(network.ok()) << network.error().message;
}

TEST(Import, InputsWithInitializersAreWeights) {
  ModelProto model = small_model();
  add_value(*model.mutable_graph()->add_input(), "w", {2});
  const auto graph = import(model);
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  ASSERT_EQ(graph->input_info.size(), 1u);
  EXPECT_EQ(graph->input_info[0].name, "x");
  EXPECT_NE(graph->constant_of(graph->nodes[0].inputs[1]), nullptr);
}

// Weights, activations and answers in half precision; the weights are an initializer, and a Constant node.
TEST(Import, HalfPrecisionModels) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    SCOPED_TRACE(name_of(type));
    const HostTensor weights = spread({3, 2, 3, 3}, -1, 1, type), bias = spread({3}, -1, 1, type);
    ModelProto model = empty_model();
    model.mutable_opset_import(0)->set_version(22);  // where Conv takes bf16
    for (const char* name : {"x", "y"}) {
      auto& info = name[0] == 'x' ? *model.mutable_graph()->add_input() : *model.mutable_graph()->add_output();
      add_value(info, name, {1, name[0] == 'x' ? 2 : 3, 4, 4});
      info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_io::onnx_type_of(type));
    }
    ASSERT_TRUE(model.mutable_graph()->add_initializer()->ParseFromString(*onnx_io::serialize_tensor(weights, "w")));
    auto& constant = *add_node(model, "Constant", "c", {}, {"b"}).add_attribute();
    constant.set_name("value");
    constant.set_type(AttributeProto::TENSOR);
    ASSERT_TRUE(constant.mutable_t()->ParseFromString(*onnx_io::serialize_tensor(bias, "")));
    auto& pads = *add_node(model, "Conv", "conv", {"x", "w", "b"}, {"r"}).add_attribute();
    pads.set_name("pads");
    pads.set_type(AttributeProto::INTS);
    for (int i = 0; i < 4; ++i) pads.add_ints(1);
    add_node(model, "Relu", "relu", {"r"}, {"y"});
    const std::string bytes = model.SerializeAsString();
    auto network = Network::parse(std::as_bytes(std::span(bytes)), "half");
    ASSERT_TRUE(network.ok()) << network.error().message;
    const HostTensor x = spread({1, 2, 4, 4}, -1, 1, type);
    auto session = (*network)->prepare(std::vector{x.desc}, test_options());
    ASSERT_TRUE(session.ok()) << session.error().message;
    auto y = (*session)->run(std::vector{x});
    ASSERT_TRUE(y.ok()) << y.error().message;
    std::vector<double> expected;
    for (int k = 0; k < 3; ++k) {
      for (int h = 0; h < 4; ++h) {
        for (int w = 0; w < 4; ++w) {
          double sum = bias.at(k);
          for (int i = 0; i < 18; ++i) {
            const int c = i / 9, ih = h + i / 3 % 3 - 1, iw = w + i % 3 - 1;
            if (ih >= 0 && ih < 4 && iw >= 0 && iw < 4) sum += x.at((c * 4 + ih) * 4 + iw) * weights.at(k * 18 + i);
          }
          expected.push_back(std::max(sum, 0.0));
        }
      }
    }
    expect_close((*y)[0], tensor_of(type, {1, 3, 4, 4}, expected), type == DataType::f16 ? 2e-3 : 2e-2);
  }
}

TEST(Import, OpsetsFromTheFutureAreRefused) {
  ModelProto model = small_model();
  model.mutable_opset_import(0)->set_version(28);
  EXPECT_TRUE(import(model).ok());
  model.mutable_opset_import(0)->set_version(29);
  expect_refused(model, "the model is of opset 29, operators are known up to 28; it uses Add");
  model.mutable_opset_import(0)->set_version(0);
  expect_refused(model, "version=0");
}

}  // namespace
}  // namespace convoy::network
