#include "network/testing/graphs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "network/assign/plan.h"
#include "network/graph/onnx/import.h"
#include "network/graph/pass.h"

namespace convoy::network {

namespace fs = std::filesystem;

fs::path data_folder() {
  if (const char* folder = std::getenv("CONVOY_DATA")) return folder;
  const fs::path beside = fs::path(CONVOY_SOURCE_DIR) / ".." / "shared" / "data";
  std::error_code code;
  return fs::is_directory(beside, code) ? beside : fs::path();
}

NetworkOptions test_options(int threads) {
  NetworkOptions options;
  options.parts = BatchParts{};  // what is looked at is the whole batch, but for tests of parts
  options.threads = threads;
  options.cpu = cpu_features();
  return options;
}

HostTensor tensor_of(DataType type, Dims dims, const std::vector<double>& values) {
  auto tensor = HostTensor::allocate(TensorDesc::packed(type, std::move(dims)));
  EXPECT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->desc.elements(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_from_double(type, tensor->data.get(), static_cast<std::int64_t>(i), values[i]);
  }
  return *tensor;
}

HostTensor spread(Dims dims, double low, double high, DataType type) {
  auto tensor = HostTensor::allocate(TensorDesc::packed(type, std::move(dims)));
  EXPECT_TRUE(tensor.ok());
  for (std::int64_t i = 0; i < tensor->desc.elements(); ++i) {
    const double unit = static_cast<double>(i * 7919 % 1009) / 1008;
    store_from_double(type, tensor->data.get(), i, low + (high - low) * unit);
  }
  return *tensor;
}

int GraphBuilder::input(const std::string& name, Dims dims, DataType type) {
  const int id = graph.add_value(name);
  graph.values[id].known = true;
  graph.values[id].desc = TensorDesc::packed(type, std::move(dims));
  graph.inputs.push_back(id);
  return id;
}

int GraphBuilder::constant(HostTensor tensor) {
  return graph.add_constant("constant" + std::to_string(graph.values.size()), std::move(tensor));
}

int GraphBuilder::node(const std::string& op, std::vector<int> inputs, std::map<std::string, ops::Attribute> attributes,
                       int opset) {
  Node node;
  node.desc.op = op;
  node.desc.name = op + "_" + std::to_string(graph.nodes.size());
  node.desc.opset = opset;
  node.desc.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  const int id = graph.add_value(node.desc.name + ".out");
  node.outputs = {id};
  node.sources = {node.desc.name};
  graph.nodes.push_back(std::move(node));
  return id;
}

int GraphBuilder::conv(int x, std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel) {
  return node("Conv", {x, constant(spread({out_channels, in_channels, kernel, kernel}, -0.1, 0.1))},
              {{"pads", std::vector<std::int64_t>(4, kernel / 2)}});
}

void GraphBuilder::output(int value) { graph.outputs.push_back(value); }

Graph with_passes(Graph graph, const CpuFeatures& cpu, const std::vector<std::string>& skip) {
  const auto team = make_cpu_team(1);
  const auto log = run_passes(graph, PassContext{*team, cpu}, skip);
  EXPECT_TRUE(log.ok()) << log.error().message;
  return graph;
}

Graph plain_zoo_graph(const std::string& name, std::int64_t images) {
  const auto bytes = zoo_model(name);
  auto imported = onnx_io::import_bytes(std::as_bytes(std::span(*bytes)), name, "");
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  for (std::size_t i = 0; i < imported->inputs.size(); ++i) {
    Value& value = imported->values[imported->inputs[i]];
    Dims dims = imported->input_info[i].proposed_dims;
    dims.front() = images;
    std::ranges::replace(dims, -1, 1);
    value.known = true;
    value.desc = TensorDesc::packed(imported->input_info[i].type, dims);
  }
  return std::move(*imported);
}

Graph zoo_graph(const std::string& name, const CpuFeatures& cpu) { return with_passes(plain_zoo_graph(name, 1), cpu); }

std::vector<HostTensor> run_graph(const Graph& graph, const std::vector<HostTensor>& inputs,
                                  std::vector<std::string> skip_passes, std::vector<NetworkStep>* steps) {
  PrepareSettings settings{.options = test_options()};
  settings.options.skip_passes = std::move(skip_passes);
  auto session = prepare_graph(graph, settings);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  if (!session.ok()) return {};
  if (steps) *steps = (*session)->steps();
  auto outputs = (*session)->run(inputs);
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
  return outputs.ok() ? *outputs : std::vector<HostTensor>();
}

std::vector<HostTensor> run_unfused(const Graph& graph, const std::vector<HostTensor>& inputs, int fusions) {
  NetworkOptions options = test_options();
  Graph planned = with_passes(graph, options.cpu);
  Chooser chooser(options, {}, {});
  std::vector<std::string> remarks;
  auto forms = forms_by("greedy", planned, chooser, remarks);
  for (std::size_t n = 0; n < planned.nodes.size(); ++n) {
    forms->unfused[n] = std::min(fusions, static_cast<int>(parts_of(planned.nodes[n]).size()) - 1);
  }
  const std::vector<NodeFormats> formats = take_form(planned, *forms);
  const auto assignment = assign(planned, formats, chooser);
  EXPECT_TRUE(assignment.ok()) << (assignment.ok() ? "" : assignment.error().message);
  if (!assignment.ok()) return {};
  options.plan = plan_of(planned, *assignment, header_of(planned, options), chooser);
  auto session = prepare_graph(graph, {.options = options});
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message) << "\n" << print(*options.plan);
  auto outputs = session.ok() ? (*session)->run(inputs) : std::vector<HostTensor>();
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>();
}

std::vector<HostTensor> inputs_for(const Graph& graph, double low, double high) {
  std::vector<HostTensor> inputs;
  for (int id : graph.inputs) {
    inputs.push_back(spread(graph.values[id].desc.dims, low, high, graph.values[id].desc.type));
  }
  return inputs;
}

void expect_close(const HostTensor& actual, const HostTensor& expected, double relative, double absolute) {
  ASSERT_EQ(actual.desc.type, expected.desc.type);
  ASSERT_EQ(actual.desc.dims, expected.desc.dims);
  double largest = 0;
  for (std::int64_t i = 0; i < expected.desc.elements(); ++i) {
    const double magnitude = std::abs(expected.at(i));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  const double tolerance = absolute + relative * largest;
  for (std::int64_t i = 0; i < expected.desc.elements(); ++i) {
    const double a = actual.at(i);
    const double b = expected.at(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::abs(a - b), tolerance) << "element " << i << ": " << a << " instead of " << b;
  }
}

std::vector<NodeTypes> f32_of(const Graph& graph) {
  return std::vector<NodeTypes>(graph.nodes.size(), NodeTypes{{DataType::f32}});
}

std::vector<std::string> all_but_order() {
  std::vector<std::string> names;
  for (const Pass& pass : passes()) {
    if (!pass.required) names.emplace_back(pass.name);
  }
  return names;
}

}  // namespace convoy::network
