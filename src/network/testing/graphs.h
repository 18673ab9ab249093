// For tests of networks: graphs built by hand, sessions run, data found.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "network/assign/layout_rules.h"
#include "network/graph/graph.h"
#include "network/prepare/session.h"

namespace convoy::network {

// The folder of the test data, or an empty path.
std::filesystem::path data_folder();

NetworkOptions test_options(int threads = 2);

// Values spread over [low, high] in a scrambled, reproducible order.
HostTensor spread(Dims dims, double low = -1, double high = 1, DataType type = DataType::f32);
HostTensor tensor_of(DataType type, Dims dims, const std::vector<double>& values);

// Builds graphs node by node; values are named by what they are.
class GraphBuilder {
 public:
  int input(const std::string& name, Dims dims, DataType type = DataType::f32);
  int constant(HostTensor tensor);
  int node(const std::string& op, std::vector<int> inputs, std::map<std::string, ops::Attribute> attributes = {},
           int opset = 13);
  // A convolution in f32 that keeps its input's size.
  int conv(int x, std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel);
  void output(int value);

  Graph graph;
};

// After all passes but those skipped.
Graph with_passes(Graph graph, const CpuFeatures& cpu, const std::vector<std::string>& skip = {});
// A network of the zoo for so many images of its published size, before any pass.
Graph plain_zoo_graph(const std::string& name, std::int64_t images);
// At batch 1, after all passes.
Graph zoo_graph(const std::string& name, const CpuFeatures& cpu);

// Prepares and runs; expects success.
std::vector<HostTensor> run_graph(const Graph& graph, const std::vector<HostTensor>& inputs,
                                  std::vector<std::string> skip_passes = {}, std::vector<NetworkStep>* steps = nullptr);
// The same with up to `fusions` of each node's last ones undone, as a plan says it.
std::vector<HostTensor> run_unfused(const Graph& graph, const std::vector<HostTensor>& inputs, int fusions);
// An input for each graph input, of values in [low, high].
std::vector<HostTensor> inputs_for(const Graph& graph, double low = -2, double high = 2);

// Same type and dims, and values within absolute + relative * largest finite magnitude of the expected.
void expect_close(const HostTensor& actual, const HostTensor& expected, double relative = 1e-5, double absolute = 1e-7);

// What node_types() gives where nothing is to be narrowed.
std::vector<NodeTypes> f32_of(const Graph& graph);

// Names of all passes, to switch everything off but what a graph cannot run without.
std::vector<std::string> all_but_order();

}  // namespace convoy::network
