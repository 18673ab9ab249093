// The test data against their reference outputs: trained models, and ONNX's cases of what only moves values.
#include <map>

#include "network/graph/infer.h"
#include "network/graph/onnx/import.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/testing/graphs.h"
#include "ops/testing/operators.h"

namespace convoy::network {
namespace {

namespace fs = std::filesystem;

std::vector<HostTensor> read_tensors(const fs::path& folder, const std::string& kind) {
  std::vector<HostTensor> tensors;
  for (int i = 0; fs::exists(folder / (kind + "_" + std::to_string(i) + ".pb")); ++i) {
    auto tensor = onnx_io::read_tensor_file((folder / (kind + "_" + std::to_string(i) + ".pb")).string());
    EXPECT_TRUE(tensor.ok()) << (tensor.ok() ? "" : tensor.error().message);
    if (tensor.ok()) tensors.push_back(tensor->tensor);
  }
  return tensors;
}

class Models : public testing::TestWithParam<std::string> {};

TEST_P(Models, GiveTheirReferenceOutputs) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  const fs::path folder = data / "models" / GetParam();
  auto network = Network::load((folder / "model.onnx").string());
  ASSERT_TRUE(network.ok()) << network.error().message;
  for (int set = 0; fs::exists(folder / ("test_data_set_" + std::to_string(set))); ++set) {
    const fs::path cases = folder / ("test_data_set_" + std::to_string(set));
    const std::vector<HostTensor> inputs = read_tensors(cases, "input");
    const std::vector<HostTensor> expected = read_tensors(cases, "output");
    std::vector<TensorDesc> descs;
    for (const HostTensor& input : inputs) descs.push_back(input.desc);
    auto session = (*network)->prepare(descs, test_options());
    ASSERT_TRUE(session.ok()) << session.error().message;
    auto outputs = (*session)->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    ASSERT_EQ(outputs->size(), expected.size());
    // Of the largest magnitude; ONNX's own tolerance is looser: 1e-5 of it and 1e-3 of the element. The references are
    // f32 themselves: with double accumulation throughout, selfie-segmentation is 2.5e-5 away from its own.
    for (std::size_t i = 0; i < expected.size(); ++i) expect_close((*outputs)[i], expected[i], 3e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models,
                         testing::Values("mnist-8", "super-resolution-10", "squeezenet1.1-7", "fastestdet",
                                         "ultraface-RFB-320", "ppocr-mobile-v2-cls", "waifu2x-upconv7-scale2x",
                                         "selfie-segmentation-landscape", "cifar10-imageclassifier", "meshnet_gwm_5ch"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

// The nodes of ONNX's cases that have an index map, copied by it.
TEST(IndexMaps, GiveWhatOnnxExpects) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  std::map<std::string, int> copied;  // cases by operator
  for (const auto& entry : fs::directory_iterator(data / "conformance/onnx/node")) {
    const fs::path set = entry.path() / "test_data_set_0";
    const auto graph = onnx_io::import_file((entry.path() / "model.onnx").string());
    if (!graph.ok() || graph->nodes.size() != 1 || graph->nodes[0].conv) continue;
    const Node& node = graph->nodes[0];
    const std::vector<HostTensor> given = read_tensors(set, "input"), expected = read_tensors(set, "output");
    std::vector<HostTensor> inputs;
    for (const int value : node.inputs) {
      const auto found = std::ranges::find(graph->inputs, value);
      const HostTensor* const constant = graph->constant_of(value);
      inputs.push_back(found != graph->inputs.end() ? given.at(static_cast<std::size_t>(found - graph->inputs.begin()))
                       : constant != nullptr        ? *constant
                                                    : HostTensor());
    }
    const auto made = ops::by_map(node.desc, inputs);
    if (!made) continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++copied[node.desc.op];
    ASSERT_EQ(made->size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expect_close((*made)[i], expected[i], 0, 0);
  }
  for (const char* const op : {"Concat", "DepthToSpace", "Dropout", "Expand", "Identity", "Pad", "Reshape", "Resize",
                               "Slice", "Split", "Transpose", "Unsqueeze"}) {
    EXPECT_GT(copied[op], 0) << op;
  }
}

}  // namespace
}  // namespace convoy::network
