// The trained models of the test data against their reference outputs.
#include "network/graph/onnx/tensor_proto.h"
#include "network/testing/graphs.h"

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

}  // namespace
}  // namespace convoy::network
