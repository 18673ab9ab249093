#include "convoy/network.h"

#include <atomic>
#include <map>

#include "network/graph/onnx/import.h"
#include "network/prepare/session.h"

namespace convoy {
namespace {

using network::Graph;

class GraphNetwork final : public Network {
 public:
  explicit GraphNetwork(Graph graph) : graph_(std::move(graph)) {}

  const std::string& name() const override { return graph_.name; }
  const std::vector<NetworkValue>& inputs() const override { return graph_.input_info; }
  const std::vector<NetworkValue>& outputs() const override { return graph_.output_info; }
  int node_count() const override { return graph_.file_nodes; }
  const ModelInfo& info() const override { return graph_.info; }

  Result<std::unique_ptr<Session>> prepare(std::span<const TensorDesc> inputs, const NetworkOptions& options,
                                           const SelectionProgress& progress) const override {
    CONVOY_TRY(Graph graph, with_inputs(inputs));
    CONVOY_TRY(std::unique_ptr<Session> session,
               network::prepare_graph(
                   std::move(graph),
                   {.options = options, .progress = progress, .foresee = options.cuda && !foreseen_.exchange(true)}));
    return session;
  }

  Result<std::unique_ptr<SwitchableSession>> prepare_switchable(
      std::span<const TensorDesc> inputs, const NetworkOptions& options,
      std::span<const ConvolutionCandidates> convolutions) const override {
    CONVOY_TRY(Graph graph, with_inputs(inputs));
    return network::prepare_graph(std::move(graph), {.options = options, .candidates = convolutions});
  }

  Result<NetworkPlan> plan(std::span<const TensorDesc> inputs, const NetworkOptions& options,
                           const SelectionProgress& progress) const override {
    CONVOY_TRY(Graph graph, with_inputs(inputs));
    return network::plan_of(std::move(graph), {.options = options, .progress = progress});
  }

  Result<std::vector<NetworkConvolution>> convolutions(std::span<const TensorDesc> inputs,
                                                       const NetworkOptions& options) const override {
    CONVOY_TRY(Graph graph, with_inputs(inputs));
    return network::list_convolutions(std::move(graph), {.options = options});
  }

 private:
  // The graph for these input shapes; the weights are shared.
  Result<Graph> with_inputs(std::span<const TensorDesc> inputs) const {
    CONVOY_CHECK(check_inputs(inputs));
    Graph graph = graph_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      network::Value& value = graph.values[graph.inputs[i]];
      value.known = true;
      value.desc = TensorDesc::packed(inputs[i].type, inputs[i].dims);
    }
    return graph;
  }

  static Error bad(const std::string& text) { return {ErrorCode::invalid_argument, text}; }

  Result<void> check_inputs(std::span<const TensorDesc> inputs) const {
    const auto& declared = graph_.input_info;
    if (inputs.size() != declared.size()) {
      return bad(std::to_string(inputs.size()) + " input shapes given, the network has " +
                 std::to_string(declared.size()) + " inputs");
    }
    struct Symbol {
      std::int64_t size;
      std::string where;
    };
    std::map<std::string, Symbol> symbols;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const NetworkValue& want = declared[i];
      const std::string what = "input '" + want.name + "'";
      CONVOY_CHECK(validate(inputs[i], what));
      if (inputs[i].type != want.type) {
        return bad(what + " is " + std::string(name_of(inputs[i].type)) + ", the model declares " +
                   std::string(name_of(want.type)));
      }
      if (!want.known_rank) continue;
      if (inputs[i].dims.size() != want.dims.size()) {
        return bad(what + " has dims " + to_string(inputs[i].dims) + ", the model declares " +
                   std::to_string(want.dims.size()) + " dims");
      }
      for (std::size_t d = 0; d < want.dims.size(); ++d) {
        const std::int64_t size = inputs[i].dims[d];
        const std::string here = what + ": dims[" + std::to_string(d) + "]=" + std::to_string(size);
        if (want.dims[d] >= 0 && size != want.dims[d]) {
          return bad(here + ", the model declares " + std::to_string(want.dims[d]));
        }
        if (want.dims[d] >= 0 || want.dim_names[d].empty()) continue;
        const Symbol& first = symbols.try_emplace(want.dim_names[d], Symbol{size, here}).first->second;
        if (size == first.size) continue;
        return bad(
            here + " and " + first.where + ", but the model names both '" + want.dim_names[d] +
            "', which makes them one size: give them the same, or, where they are two sizes, give them names of " +
            "their own in the model (dim_param)");
      }
    }
    return {};
  }

  Graph graph_;
  mutable std::atomic<bool> foreseen_ = false;
};

}  // namespace

Result<std::unique_ptr<Network>> network::network_of(Result<Graph> graph, const std::string& name) {
  if (!graph.ok()) return graph.error().within(name);
  return std::unique_ptr<Network>(std::make_unique<GraphNetwork>(std::move(*graph)));
}

Result<std::unique_ptr<Network>> Network::parse(std::span<const std::byte> onnx, const std::string& name,
                                                const std::string& external_data_folder) {
  return network::network_of(onnx_io::import_bytes(onnx, name, external_data_folder), name);
}

Result<std::unique_ptr<Network>> Network::load(const std::string& path) {
  constexpr std::string_view kZoo = "zoo:";
  if (!path.starts_with(kZoo)) return network::network_of(onnx_io::import_file(path), path);
  CONVOY_TRY(const std::string bytes, zoo_model(path.substr(kZoo.size())));
  return parse(std::as_bytes(std::span(bytes)), path);
}

}  // namespace convoy
