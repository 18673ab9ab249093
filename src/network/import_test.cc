// Models from files: what is read, what is refused and with which words, and that hostile bytes do no harm.
#include "network/onnx/import.h"

#include <fstream>

#include "network/onnx/tensor_proto.h"
#include "network/testing.h"
#include "network/zoo/builder.h"
#include "onnx.pb.h"

namespace convoy::network {
namespace {

namespace fs = std::filesystem;
using ::onnx::AttributeProto;
using ::onnx::ModelProto;
using ::onnx::TensorProto;

ModelProto empty_model() {
  ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->set_name("g");
  return model;
}

void add_value(::onnx::ValueInfoProto& info, const std::string& name, std::vector<std::int64_t> dims) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(TensorProto::FLOAT);
  for (const auto dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

::onnx::NodeProto& add_node(ModelProto& model, const std::string& op, const std::string& name,
                            const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  auto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.set_name(name);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}

// x -> Add(w) -> y
ModelProto small_model() {
  ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "x", {2, 2});
  add_value(*model.mutable_graph()->add_output(), "y", {2, 2});
  TensorProto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(TensorProto::FLOAT);
  w.add_dims(2);
  w.add_float_data(10);
  w.add_float_data(20);
  add_node(model, "Add", "sum", {"x", "w"}, {"y"});
  return model;
}

Result<Graph> import(const ModelProto& model, const std::string& folder = {}) {
  const std::string bytes = model.SerializeAsString();
  return onnx_io::import_bytes(std::as_bytes(std::span(bytes)), "m", folder);
}

void expect_refused(const ModelProto& model, const std::string& text, const std::string& folder = {}) {
  const auto graph = import(model, folder);
  ASSERT_FALSE(graph.ok()) << text;
  EXPECT_NE(graph.error().message.find(text), std::string::npos) << graph.error().message;
}

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
  for (const DataType type : {DataType::f64, DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3,
                              DataType::f8_e5m2, DataType::s64, DataType::s32, DataType::s16, DataType::s8,
                              DataType::u64, DataType::u32, DataType::u16, DataType::u8, DataType::boolean}) {
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

class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("convoy_external_" + std::to_string(getpid()));
    fs::create_directories(root_ / "model" / "sub");
    write(root_ / "outside.bin");
    write(root_ / "model" / "sub" / "w.bin");
    fs::create_symlink(root_ / "outside.bin", root_ / "model" / "link.bin");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& path) {
    const float values[] = {0, 10, 20, 30};
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values), sizeof(values));
  }

  ModelProto model(const std::string& location, const std::string& offset = "4", const std::string& length = "8") {
    ModelProto m = small_model();
    TensorProto& w = *m.mutable_graph()->mutable_initializer(0);
    w.clear_float_data();
    w.set_data_location(TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
      auto& entry = *w.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return m;
  }
  std::string folder() const { return (root_ / "model").string(); }

  fs::path root_;
};

TEST_F(ExternalData, IsReadFromTheModelsFolder) {
  const auto graph = import(model("sub/w.bin"), folder());
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const int w = graph->nodes[0].inputs[1];
  EXPECT_EQ(graph->constant_of(w)->at(0), 10);
  EXPECT_EQ(graph->constant_of(w)->at(1), 20);
}

TEST_F(ExternalData, StaysInTheModelsFolderAndWithinTheFile) {
  expect_refused(model("../outside.bin"), "leaves the model's folder", folder());
  expect_refused(model("sub/../../outside.bin"), "leaves the model's folder", folder());
  expect_refused(model((root_ / "outside.bin").string()), "absolute path", folder());
  expect_refused(model("link.bin"), "link out of the model's folder", folder());
  expect_refused(model("missing.bin"), "missing.bin", folder());
  expect_refused(model("sub"), "is not a file", folder());
  expect_refused(model("sub/w.bin", "12"), "has 16 bytes; the tensor needs 8 from offset 12", folder());
  expect_refused(model("sub/w.bin", "9223372036854775807"), "from offset", folder());
  expect_refused(model("sub/w.bin", "-4"), "offset='-4'", folder());
  expect_refused(model("sub/w.bin", "4", "4"), "length 4 does not match", folder());
  expect_refused(model("sub/w.bin"), "has no folder");
}

std::vector<std::string> small_files(std::uintmax_t limit) {
  std::vector<std::string> files;
  const fs::path data = data_folder();
  if (data.empty()) return files;
  for (const auto& entry : fs::recursive_directory_iterator(data / "models")) {
    if (entry.path().extension() == ".onnx" && entry.file_size() <= limit) files.push_back(entry.path().string());
  }
  for (const char* name : {"test_basic_conv_with_padding", "test_convtranspose_pads", "test_qlinearconv"}) {
    const fs::path path = data / "conformance" / "onnx" / "node" / name / "model.onnx";
    if (fs::exists(path)) files.push_back(path.string());
  }
  return files;
}

// Whatever comes out, nothing may crash or take much memory. A model that still imports is prepared, too: its sizes
// and attributes may have changed.
void try_model(const std::string& bytes) {
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "hostile");
  if (!network.ok()) {
    EXPECT_FALSE(network.error().message.empty());
    return;
  }
  std::vector<TensorDesc> inputs;
  for (const NetworkValue& input : (*network)->inputs()) {
    Dims dims = input.dims;
    for (auto& dim : dims) dim = dim < 0 ? 1 : dim;
    const auto elements = checked_elements(dims, 8);
    if (!elements.ok() || *elements > (1 << 22)) return;
    inputs.push_back(TensorDesc::packed(input.type, dims));
  }
  auto session = (*network)->prepare(inputs, test_options(1));
  EXPECT_TRUE(session.ok() || !session.error().message.empty());
}

TEST(Hostile, TruncatedFiles) {
  const auto files = small_files(300'000);
  if (files.empty()) GTEST_SKIP() << "skipped: no data";
  for (const std::string& file : files) {
    auto bytes = onnx_io::read_file(file);
    ASSERT_TRUE(bytes.ok());
    const std::size_t step = std::max<std::size_t>(bytes->size() / 200, 1);
    for (std::size_t length = 0; length < bytes->size(); length += step) {
      const std::string cut = bytes->substr(0, length);
      auto network = Network::parse(std::as_bytes(std::span(cut)), "cut");
      EXPECT_TRUE(network.ok() || !network.error().message.empty());
    }
  }
}

TEST(Hostile, FlippedBytes) {
  const auto files = small_files(30'000);
  if (files.empty()) GTEST_SKIP() << "skipped: no data";
  zoo::SeededGenerator random(5);
  for (const std::string& file : files) {
    auto bytes = onnx_io::read_file(file);
    ASSERT_TRUE(bytes.ok());
    for (int round = 0; round < 150; ++round) {
      std::string changed = *bytes;
      for (int flips = 0; flips < 3; ++flips) {
        // Structure sits at the start and the end as much as between the weights.
        const auto size = static_cast<float>(changed.size());
        const float at = round % 2 == 0 ? random.uniform(0, std::min(size, 600.0F)) : random.uniform(0, size);
        changed[std::min(static_cast<std::size_t>(at), changed.size() - 1)] = static_cast<char>(random.uniform(0, 256));
      }
      try_model(changed);
    }
  }
}

TEST(Hostile, AFewBytesThatAskForTerabytes) {
  ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_output(), "y", {});
  TensorProto& shape = *model.mutable_graph()->add_initializer();
  shape.set_name("shape");
  shape.set_data_type(TensorProto::INT64);
  shape.add_dims(2);
  shape.add_int64_data(std::int64_t{1} << 20);
  shape.add_int64_data(std::int64_t{1} << 21);
  add_node(model, "ConstantOfShape", "big", {"shape"}, {"y"});
  const std::string bytes = model.SerializeAsString();
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "bomb");
  ASSERT_TRUE(network.ok()) << network.error().message;
  auto session = (*network)->prepare({}, test_options());
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(session.error().message.find("tensor 'y' of dims 1048576x2097152 would need 8796093022208 bytes"),
            std::string::npos)
      << session.error().message;
}

}  // namespace
}  // namespace convoy::network
