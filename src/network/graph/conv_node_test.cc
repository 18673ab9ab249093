// Convolution nodes: the problem they make, the errors they give, and ONNX's own cases for them.
#include "network/graph/conv_node.h"

#include <cmath>

#include "network/graph/infer.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/testing/graphs.h"

namespace convoy::network {
namespace {

namespace fs = std::filesystem;
using ops::Attribute;
using Ints = std::vector<std::int64_t>;

Result<ConvNode> problem_of(const std::string& op, Dims x, Dims w, std::map<std::string, Attribute> attributes,
                            int extra = 0) {
  GraphBuilder b;
  std::vector<int> inputs = {b.input("x", std::move(x)), b.input("w", std::move(w))};
  for (int i = 0; i < extra; ++i) inputs.push_back(b.input("bias", {7}));
  b.node(op, inputs, std::move(attributes));
  return conv_problem(b.graph.nodes[0], inputs_of(b.graph, b.graph.nodes[0]));
}

std::string problem_text(const std::string& op, Dims x, Dims w, std::map<std::string, Attribute> attributes) {
  const auto made = problem_of(op, std::move(x), std::move(w), std::move(attributes));
  return made.ok() ? print(made->problem) : "error: " + made.error().message;
}

TEST(ConvNode, ExplicitAndAutomaticPadding) {
  const Dims x = {1, 4, 9, 10};
  const Dims w = {6, 2, 3, 4};
  const Attribute strides = Ints{2, 3};
  const auto dims = [&](std::map<std::string, Attribute> attributes) {
    attributes["group"] = std::int64_t{2};
    attributes["strides"] = strides;
    const auto made = problem_of("Conv", x, w, std::move(attributes));
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    const ConvProblem& p = made->problem;
    return std::vector<Dims>{p.y.dims, p.pre_padding, p.post_padding};
  };
  EXPECT_EQ(dims({}), (std::vector<Dims>{{1, 6, 4, 3}, {0, 0}, {0, 0}}));
  EXPECT_EQ(dims({{"pads", Ints{1, 0, 2, 3}}}), (std::vector<Dims>{{1, 6, 5, 4}, {1, 0}, {2, 3}}));
  EXPECT_EQ(dims({{"auto_pad", std::string("SAME_UPPER")}}), (std::vector<Dims>{{1, 6, 5, 4}, {1, 1}, {1, 2}}));
  EXPECT_EQ(dims({{"auto_pad", std::string("SAME_LOWER")}}), (std::vector<Dims>{{1, 6, 5, 4}, {1, 2}, {1, 1}}));
  EXPECT_EQ(dims({{"auto_pad", std::string("VALID")}}), (std::vector<Dims>{{1, 6, 4, 3}, {0, 0}, {0, 0}}));
}

TEST(ConvNode, TransposedIsDgrad) {
  const auto made = problem_of("ConvTranspose", {1, 4, 3, 3}, {4, 2, 3, 3},
                               {{"strides", Ints{2, 2}}, {"output_padding", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->problem.pass, convoy::Pass::dgrad);
  EXPECT_EQ(made->problem.x.dims, (Dims{1, 2, 6, 6}));
  EXPECT_EQ(made->problem.y.dims, (Dims{1, 4, 3, 3}));
  // output_shape decides the padding, and may be given with N and C.
  for (const Ints& shape : {Ints{6, 7}, Ints{1, 2, 6, 7}}) {
    const auto shaped =
        problem_of("ConvTranspose", {1, 4, 3, 3}, {4, 2, 3, 3}, {{"strides", Ints{2, 2}}, {"output_shape", shape}});
    ASSERT_TRUE(shaped.ok()) << shaped.error().message;
    EXPECT_EQ(shaped->problem.x.dims, (Dims{1, 2, 6, 7}));
  }
}

TEST(ConvNode, ErrorsNameNodeAndField) {
  const Dims x = {1, 4, 9, 9};
  const Dims w = {6, 4, 3, 3};
  const struct {
    Dims x, w;
    std::map<std::string, Attribute> attributes;
    const char* text;
  } cases[] = {
      {x, w, {{"strides", Ints{1, 0}}}, "node 'Conv_0' (Conv): attribute 'strides'[1]=0"},
      {x, w, {{"strides", Ints{1}}}, "attribute 'strides' has 1 values, the input needs 2"},
      {x, w, {{"strides", std::int64_t{1}}}, "attribute 'strides' is given as an integer"},
      {x, w, {{"strides", Ints{std::int64_t{1} << 62, 1}}}, "attribute 'strides'[0]"},
      {x, w, {{"dilations", Ints{1 << 30, 1}}}, "attribute 'dilations'[0]"},
      {x, w, {{"dilations", Ints{9, 1}}}, "output dim 2"},
      {x, w, {{"pads", Ints{0, -1, 0, 0}}}, "attribute 'pads'[1]=-1"},
      {x, w, {{"kernel_shape", Ints{5, 5}}}, "attribute 'kernel_shape'=5x5 does not match the weights' 6x4x3x3"},
      {x, w, {{"group", std::int64_t{0}}}, "attribute 'group'=0"},
      {x, w, {{"group", std::int64_t{2}}}, "has 4 channels, weights of dims 6x4x3x3 with group=2 need 8"},
      {x, {6, 1, 3, 3}, {{"group", std::int64_t{4}}}, "'group'=4 does not divide the 6 output channels"},
      {x, w, {{"auto_pad", std::string("FULL")}}, "attribute 'auto_pad'='FULL'"},
      {{1, 4}, w, {}, "has no spatial dims"},
      {x, {6, 4, 3}, {}, "weights of dims 6x4x3 do not match"},
      {{1, 4, 2, 9}, w, {}, "output dim 2"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto made = problem_of("Conv", c.x, c.w, c.attributes);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message.find(c.text), std::string::npos) << made.error().message;
  }
  EXPECT_NE(problem_of("Conv", x, w, {}, 1).error().message.find("bias of dims 7"), std::string::npos);
  EXPECT_NE(problem_of("Conv", x, w, {}, 2).error().message.find("4 inputs"), std::string::npos);
  EXPECT_NE(problem_text("ConvTranspose", {1, 4, std::int64_t{1} << 38, 3}, {4, 2, 3, 3},
                         {{"strides", Ints{(std::int64_t{1} << 31) - 1, 1}}, {"output_padding", Ints{1 << 30, 0}}})
                .find("error: "),
            std::string::npos);
  EXPECT_NE(problem_text("ConvTranspose", {1, 4, 3, 3}, {4, 2, 3, 3}, {{"output_padding", Ints{1, 0}}})
                .find("not less than the stride of 1"),
            std::string::npos);
}

struct Loose {
  double relative, absolute;
};

// ONNX's tolerances for single-node tests: rtol 1e-3, atol 1e-7; reduced floats and quantized results are looser.
Loose tolerance_for(DataType type) {
  if (type == DataType::f16 || type == DataType::bf16) return {1e-2, 1e-3};
  return is_integer(type) ? Loose{0, 1} : Loose{1e-3, 1e-6};
}

void run_case(const fs::path& folder) {
  SCOPED_TRACE(folder.filename().string());
  auto network = Network::load((folder / "model.onnx").string());
  ASSERT_TRUE(network.ok()) << network.error().message;
  const fs::path set = folder / "test_data_set_0";
  std::vector<HostTensor> inputs, expected;
  for (auto* list : {&inputs, &expected}) {
    const std::string kind = list == &inputs ? "input_" : "output_";
    for (int i = 0; fs::exists(set / (kind + std::to_string(i) + ".pb")); ++i) {
      auto tensor = onnx_io::read_tensor_file((set / (kind + std::to_string(i) + ".pb")).string());
      ASSERT_TRUE(tensor.ok()) << tensor.error().message;
      list->push_back(tensor->tensor);
    }
  }
  std::vector<TensorDesc> descs;
  for (const HostTensor& input : inputs) descs.push_back(input.desc);
  auto session = (*network)->prepare(descs, test_options());
  ASSERT_TRUE(session.ok()) << session.error().message;
  // Twice: the second run finds what the first left behind (arena, a dynamic subgraph prepared before).
  for (int round = 0; round < 2; ++round) {
    auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    ASSERT_EQ(outputs->size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Loose loose = tolerance_for(expected[i].desc.type);
      expect_close((*outputs)[i], expected[i], loose.relative, loose.absolute);
    }
  }
}

TEST(ConvNode, OnnxNodeCases) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(data / "conformance" / "onnx" / "node")) {
    const std::string name = entry.path().filename().string();
    for (const char* prefix : {"test_basic_conv_", "test_conv_with", "test_convtranspose", "test_convinteger",
                               "test_basic_convinteger", "test_qlinearconv"}) {
      if (!name.starts_with(prefix)) continue;
      run_case(entry.path());
      ++cases;
      break;
    }
  }
  EXPECT_GE(cases, 10);
}

TEST(ConvNode, GraphsAroundConvolutions) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(data / "conformance" / "ort_conv_graphs")) {
    run_case(entry.path());
    ++cases;
  }
  EXPECT_GE(cases, 26);
}

}  // namespace
}  // namespace convoy::network
