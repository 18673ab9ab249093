// ONNX's own cases of single nodes by generated kernels on the processor, beside the outputs that come with them.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "network/graph/graph.h"
#include "network/graph/onnx/import.h"
#include "network/graph/onnx/tensor_proto.h"
#include "ops/generated/testing/cases.h"

namespace convoy::ops {
namespace {

namespace fs = std::filesystem;

fs::path data_folder() {
  if (const char* folder = std::getenv("CONVOY_DATA")) return folder;
  return fs::path(CONVOY_SOURCE_DIR) / ".." / "shared" / "data";
}

std::vector<HostTensor> tensors_of(const fs::path& set, const char* kind) {
  std::vector<HostTensor> tensors;
  for (int i = 0; fs::exists(set / fmt::format("{}_{}.pb", kind, i)); ++i) {
    auto tensor = onnx_io::read_tensor_file(set / fmt::format("{}_{}.pb", kind, i));
    if (!tensor.ok()) return {};
    tensors.push_back(std::move(tensor->tensor));
  }
  return tensors;
}

// The case of a folder, where it is one node of an operator that has a rule, with all inputs as they come in the file.
void add_case(const fs::path& folder, const std::set<std::string>& described, GeneratedCases& cases) {
  const auto graph = onnx_io::import_file(folder / "model.onnx");
  if (!graph.ok() || graph->nodes.size() != 1) return;
  const network::Node& node = graph->nodes[0];
  if (!node.desc.domain.empty() || !described.contains(node.desc.op) || !node.bodies.empty()) return;
  std::vector<HostTensor> given = tensors_of(folder / "test_data_set_0", "input"), inputs;
  for (const int value : node.inputs) {
    const auto found = std::ranges::find(graph->inputs, value);
    if (value < 0) {
      inputs.emplace_back();
    } else if (const HostTensor* constant = graph->constant_of(value)) {
      inputs.push_back(*constant);
    } else if (const auto i = static_cast<std::size_t>(found - graph->inputs.begin()); i < given.size()) {
      inputs.push_back(given[i]);
    } else {
      return;
    }
  }
  const std::vector<HostTensor> expected = tensors_of(folder / "test_data_set_0", "output");
  if (expected.size() != node.outputs.size() || graph->outputs != node.outputs) return;
  SCOPED_TRACE(folder.filename().string());
  cases.add(node.desc, inputs, Layout::nchw, {1e-4, 1e-3}, expected);
}

TEST(GeneratedConformance, GivesWhatOnnxExpects) {
  const fs::path root = data_folder() / "conformance/onnx/node";
  if (!fs::exists(root)) GTEST_SKIP() << "skipped: no data";
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
  std::ranges::sort(folders);
  const auto names = described_operators();
  const std::set<std::string> described(names.begin(), names.end());
  GeneratedCases cases;
  for (const fs::path& folder : folders) add_case(folder, described, cases);
  for (const auto& [why, count] : cases.refusals()) std::printf("refused %d: %s\n", count, why.c_str());
  EXPECT_GT(cases.count(), 250);
  cases.run();
}

}  // namespace
}  // namespace convoy::ops
