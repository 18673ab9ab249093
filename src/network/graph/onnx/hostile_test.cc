// Models that lie: external data elsewhere, bytes cut and flipped, indices out of range, sizes beyond any machine.
#include <fstream>

#include "network/graph/onnx/decode.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/graph/zoo/builder.h"
#include "network/testing/models.h"

namespace convoy::network {
namespace {

namespace fs = std::filesystem;
using ::onnx::AttributeProto;
using ::onnx::ModelProto;
using ::onnx::TensorProto;

class ExternalData : public ::testing::Test {
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
  expect_refused(model("sub/w.bin"), "which folder it lies");
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

// x -> op(...) -> y, where some inputs are initializers.
struct OpModel {
  ModelProto model = empty_model();

  OpModel(const std::string& op, int opset, const std::vector<std::string>& inputs) {
    model.mutable_opset_import(0)->set_version(opset);
    model.mutable_graph()->add_output()->set_name("y");
    add_node(model, op, "n", inputs, {"y"});
  }
  void input(const std::string& name, DataType type, const Dims& dims) {
    add_value(*model.mutable_graph()->add_input(), name, dims);
    auto& last = *model.mutable_graph()->mutable_input(model.graph().input_size() - 1);
    last.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_io::onnx_type_of(type));
    tensors.push_back(TensorDesc::packed(type, dims));
  }
  void constant(const std::string& name, const HostTensor& tensor) {
    const auto bytes = onnx_io::serialize_tensor(tensor, name);
    ASSERT_TRUE(model.mutable_graph()->add_initializer()->ParseFromString(*bytes));
  }
  std::vector<TensorDesc> tensors;
};

// The error of loading, preparing or running.
std::string error_of(const OpModel& made, const std::vector<HostTensor>& inputs) {
  const std::string bytes = made.model.SerializeAsString();
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
  if (!network.ok()) return "load: " + network.error().message;
  auto session = (*network)->prepare(made.tensors, test_options(1));
  if (!session.ok()) return "prepare: " + session.error().message;
  auto outputs = (*session)->run(inputs);
  return outputs.ok() ? std::string() : "run: " + outputs.error().message;
}

// Indices in the file and indices that arrive when it runs: the node is named, nothing is read or written elsewhere.
TEST(Hostile, IndicesOutOfRange) {
  struct Case {
    const char* op;
    int opset;
    Dims data, indices, updates;  // no updates: the operator takes none
    std::vector<double> values;
    const char* words;
  };
  const Case cases[] = {
      {"Gather", 13, {3, 2}, {2}, {}, {0, 3}, "has 3 at 1, outside [-3, 3)"},
      {"Gather", 13, {3, 2}, {1}, {}, {-9e15}, "outside [-3, 3)"},
      {"GatherElements", 13, {3, 2}, {1, 2}, {}, {-4, 0}, "has -4 at 0, outside [-3, 3)"},
      {"GatherND", 13, {3, 2}, {1, 2}, {}, {2, 2}, "has 2 at 1, outside [-2, 2)"},
      {"ScatterElements", 16, {3, 2}, {1, 2}, {1, 2}, {0, 9e15}, "outside [-3, 3)"},
      {"ScatterND", 16, {3, 2}, {1, 1}, {1, 2}, {3}, "has 3 at 0, outside [-3, 3)"},
  };
  for (const Case& c : cases) {
    const HostTensor indices = tensor_of(DataType::s64, c.indices, c.values);
    const HostTensor data = spread(c.data);
    for (const bool constant : {true, false}) {
      SCOPED_TRACE(std::string(c.op) + (constant ? ", in the file" : ", at run time"));
      std::vector<std::string> names{"x", "i"};
      if (!c.updates.empty()) names.push_back("u");
      OpModel made(c.op, c.opset, names);
      made.input("x", DataType::f32, c.data);
      std::vector<HostTensor> inputs;
      inputs.push_back(data);
      if (constant) {
        made.constant("i", indices);
      } else {
        made.input("i", DataType::s64, c.indices);
        inputs.push_back(indices);
      }
      if (!c.updates.empty()) made.constant("u", spread(c.updates));
      const std::string error = error_of(made, inputs);
      EXPECT_NE(error.find(c.words), std::string::npos) << error;
      EXPECT_NE(error.find(constant ? "n" : "run: "), std::string::npos) << error;
    }
    // All constant: folding meets it.
    OpModel folded(c.op, c.opset,
                   c.updates.empty() ? std::vector<std::string>{"x", "i"} : std::vector<std::string>{"x", "i", "u"});
    folded.constant("x", data);
    folded.constant("i", indices);
    if (!c.updates.empty()) folded.constant("u", spread(c.updates));
    const std::string error = error_of(folded, {});
    EXPECT_EQ(error.find("prepare: node 'n' (" + std::string(c.op) + ")"), 0u) << error;
    EXPECT_NE(error.find(c.words), std::string::npos) << error;
  }
}

// Sizes that an operator multiplies, from the file and at run time.
TEST(Hostile, SizesBeyondAnyMachine) {
  struct Case {
    const char* op;
    int opset;
    std::vector<double> sizes;
    const char* words;
  };
  constexpr double kTera = 1099511627776.0;
  const Case cases[] = {
      {"ConstantOfShape", 13, {kTera, 64}, "bytes, the machine has"},
      {"ConstantOfShape", 13, {kTera, kTera}, "overflow"},
      {"Expand", 13, {kTera, 1, 2}, "bytes, the machine has"},
      {"Expand", 13, {kTera, kTera, 2}, "overflow"},
      {"Tile", 13, {kTera, 1}, "dims [1099511627776x2] are above 134217728"},
      {"Tile", 13, {kTera, kTera * 1024}, "overflow a 64-bit size"},
      {"Pad", 13, {kTera, 0, 0, 0}, "dims [1099511627777x2] are above 134217728"},
      {"Pad", 13, {9e18, 0, 9e18, 0}, "pads"},
      {"Resize", 13, {kTera, 2}, "dims [1099511627776x2] are above 134217728"},
      {"Resize", 13, {-1, 2}, "sizes[0]=-1"},
      {"Reshape", 13, {kTera, kTera}, "Reshape"},
      {"Range", 13, {kTera * kTera}, "bytes, the machine has"},
  };
  for (const Case& c : cases) {
    const std::string op = c.op;
    for (const bool constant : {true, false}) {
      SCOPED_TRACE(op + (constant ? ", in the file" : ", at run time"));
      const HostTensor sizes =
          tensor_of(DataType::s64, op == "Range" ? Dims{} : Dims{static_cast<std::int64_t>(c.sizes.size())},
                    op == "Range" ? std::vector<double>{9e15} : c.sizes);
      OpModel made(op, c.opset,
                   op == "ConstantOfShape" ? std::vector<std::string>{"s"}
                   : op == "Resize"        ? std::vector<std::string>{"x", "", "", "s"}
                   : op == "Range"         ? std::vector<std::string>{"zero", "s", "one"}
                                           : std::vector<std::string>{"x", "s"});
      std::vector<HostTensor> inputs;
      if (op == "Range") {
        made.constant("zero", tensor_of(DataType::s64, {}, {0}));
        made.constant("one", tensor_of(DataType::s64, {}, {1}));
      } else if (op != "ConstantOfShape") {
        made.input("x", DataType::f32, {1, 2});
        inputs.push_back(spread({1, 2}));
      }
      if (constant) {
        made.constant("s", sizes);
      } else {
        made.input("s", DataType::s64, sizes.desc.dims);
        inputs.push_back(sizes);
      }
      const std::string error = error_of(made, inputs);
      EXPECT_NE(error.find(c.words), std::string::npos) << error;
      EXPECT_EQ(error.find(constant ? "prepare: " : "run: "), 0u) << error;
    }
  }
}

// Found by fuzzing: removing the Identity left its other outputs, which a node at run time read, without a maker.
TEST(Hostile, OutputsThatAnOperatorDoesNotHave) {
  for (const char* op : {"Identity", "Dropout", "Relu"}) {
    SCOPED_TRACE(op);
    ModelProto model = small_model();
    add_node(model, op, "n", {"x"}, {"a", "b", "c"});
    add_node(model, "Transpose", "t", {"c"}, {"d"});
    model.mutable_graph()->add_output()->set_name("d");
    const std::string bytes = model.SerializeAsString();
    auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
    ASSERT_TRUE(network.ok()) << network.error().message;
    auto session = (*network)->prepare(std::vector{spread({2, 2}).desc}, test_options());
    ASSERT_FALSE(session.ok());
    EXPECT_NE(session.error().message.find("node 'n'"), std::string::npos) << session.error().message;
  }
}

// Passes read what a node's first output is.
TEST(Hostile, NodesWithoutANamedOutput) {
  ModelProto model = small_model();
  add_node(model, "MatMul", "n", {"x", "x"}, {""});
  const std::string bytes = model.SerializeAsString();
  const auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
  ASSERT_FALSE(network.ok());
  EXPECT_NE(network.error().message.find("node 'n' (MatMul): no outputs"), std::string::npos)
      << network.error().message;
}

TEST(Hostile, InputsOfOverflowingShape) {
  ModelProto model = small_model();
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_value(std::int64_t{1} << 40);
  shape.mutable_dim(1)->set_dim_value(std::int64_t{1} << 40);
  const std::string bytes = model.SerializeAsString();
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
  ASSERT_TRUE(network.ok()) << network.error().message;
  const Dims dims{std::int64_t{1} << 40, std::int64_t{1} << 40};
  auto session = (*network)->prepare(std::vector{TensorDesc::packed(DataType::f32, dims)}, test_options());
  ASSERT_FALSE(session.ok());
  EXPECT_NE(session.error().message.find("input 'x'"), std::string::npos) << session.error().message;
}

}  // namespace
}  // namespace convoy::network
