// Every candidate on every convolution of models, judged on the data that a run of the model brings there: trained
// weights and biases, activations of its recorded inputs, layouts and epilogues as the network has them. Right ones
// must be found right, and faults of 4 tolerances planted in their outputs found wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "convoy/network.h"
#include "network/graph/onnx/import.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/prepare/session.h"
#include "select/measure/problem_data.h"
#include "verdicts/observer.h"

namespace {

using namespace convoy;
using namespace convoy::testing;
namespace fs = std::filesystem;

struct Flags {
  std::vector<std::string> models;
  std::string data = CONVOY_TEST_DATA;
  std::string json;
  int threads = 2;
  int faults = 1;
  int least_faults = 0;
  bool all_knobs = false;
  std::int64_t seed = 1;
};

Result<network::Graph> import(const std::string& model) {
  if (!model.starts_with("zoo:")) return onnx_io::import_file((fs::path(model) / "model.onnx").string());
  CONVOY_TRY(const std::string bytes, zoo_model(model.substr(4)));
  return onnx_io::import_bytes(std::as_bytes(std::span(bytes)), model, {});
}

// The recorded inputs of a folder's model, and random ones of a proposed size for the zoo's.
Result<HostTensor> input_of(const std::string& model, const NetworkValue& declared, int i, std::int64_t seed) {
  const fs::path file = fs::path(model) / "test_data_set_0" / fmt::format("input_{}.pb", i);
  if (fs::exists(file)) {
    CONVOY_TRY(auto read, onnx_io::read_tensor_file(file.string()));
    return read.tensor;
  }
  Dims dims = declared.proposed_dims;
  for (std::int64_t& dim : dims) dim = std::max<std::int64_t>(dim, 1);
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(declared.type, dims)));
  selection::fill_random(tensor.desc, tensor.data.get(), static_cast<std::uint64_t>(seed + i));
  return tensor;
}

Result<void> observe(const std::string& model, const Flags& flags, const ObserverOptions& options,
                     Observations& observations) {
  CONVOY_TRY(network::Graph graph, import(model));
  CONVOY_TRY(const auto loaded,
             Network::load(model.starts_with("zoo:") ? model : (fs::path(model) / "model.onnx").string()));
  std::vector<HostTensor> inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    network::Value& value = graph.values[graph.inputs[i]];
    CONVOY_TRY(HostTensor input, input_of(model, loaded->inputs()[i], static_cast<int>(i), flags.seed));
    value.desc = input.desc;
    value.known = true;
    inputs.push_back(std::move(input));
  }
  const std::unique_ptr<Engine> observer = make_observer(options, observations);
  const std::vector<const Engine*> engines = {observer.get()};
  network::PrepareSettings settings;
  settings.options.threads = flags.threads;
  settings.options.cpu = cpu_features();
  settings.engines = engines;
  CONVOY_TRY(const auto session, network::prepare_graph(std::move(graph), settings));
  CONVOY_CHECK(session->run(inputs));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app(
      "Every candidate on every convolution of models, with real data: right ones pass, planted faults do not");
  app.add_option("models", flags.models, "of the data, or zoo:NAME; none: all of the data")->type_name("NAME");
  app.add_option("--data", flags.data, "folder whose models/NAME has model.onnx and test_data_set_0");
  app.add_option("--faults", flags.faults, "planted in each candidate's output");
  app.add_option("--least-faults", flags.least_faults, "fail where fewer were planted in all");
  app.add_flag("--all-knobs", flags.all_knobs, "every candidate of every engine");
  app.add_option("--threads", flags.threads);
  app.add_option("--seed", flags.seed, "of random inputs");
  app.add_option("--json", flags.json, "file for the summary");
  if (const char* data = std::getenv("CONVOY_DATA")) flags.data = data;
  CLI11_PARSE(app, argc, argv);
  const fs::path folder = fs::path(flags.data) / "models";
  if (flags.models.empty() && fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) flags.models.push_back(entry.path().filename().string());
    std::sort(flags.models.begin(), flags.models.end());
  }

  nlohmann::json models;
  std::int64_t planted = 0, bad = 0;
  for (const std::string& name : flags.models) {
    const std::string model = name.starts_with("zoo:") ? name : (folder / name).string();
    if (!name.starts_with("zoo:") && !fs::exists(fs::path(model) / "model.onnx")) continue;
    Observations seen;
    const auto done = observe(model, flags, {.all_knobs = flags.all_knobs, .faults = flags.faults}, seen);
    if (!done.ok()) seen.failed.push_back(done.error().message);
    std::int64_t right = 0;
    double most = 0;
    nlohmann::json engines;
    for (const auto& [engine, verdicts] : seen.engines) {
      right += verdicts.right;
      most = std::max(most, verdicts.max_error);
      engines[engine] = {{"right", verdicts.right}, {"max_error", verdicts.max_error}, {"worst", verdicts.worst}};
    }
    std::printf(
        "%s: %lld convolutions (%lld sampled), %lld right (at most %.3g tolerances), %zu wrong, %zu failed; %lld of "
        "%lld faults caught, %lld of %lld aside\n",
        name.c_str(), static_cast<long long>(seen.convolutions), static_cast<long long>(seen.sampled),
        static_cast<long long>(right), most, seen.wrong.size(), seen.failed.size(), static_cast<long long>(seen.caught),
        static_cast<long long>(seen.planted), static_cast<long long>(seen.caught_aside),
        static_cast<long long>(seen.planted_aside));
    for (const auto* list : {&seen.wrong, &seen.failed, &seen.missed}) {
      for (const std::string& line : *list) std::printf("  %s\n", line.c_str());
      bad += static_cast<std::int64_t>(list->size());
    }
    std::fflush(stdout);
    planted += seen.planted;
    models[name] = {{"convolutions", seen.convolutions},
                    {"sampled", seen.sampled},
                    {"right", right},
                    {"wrong", seen.wrong},
                    {"failed", seen.failed},
                    {"faults_planted", seen.planted},
                    {"faults_caught", seen.caught},
                    {"faults_missed", seen.missed},
                    {"faults_planted_aside", seen.planted_aside},
                    {"faults_caught_aside", seen.caught_aside},
                    {"faults_without_room", seen.no_room},
                    {"engines", engines}};
  }
  if (models.empty()) {
    std::printf("skipped: no data in %s\n", folder.string().c_str());
    return 77;
  }
  if (planted < flags.least_faults) {
    std::printf("only %lld faults were planted\n", static_cast<long long>(planted));
    ++bad;
  }
  if (!flags.json.empty()) {
    std::ofstream(flags.json) << nlohmann::json{{"threads", flags.threads},
                                                {"all_knobs", flags.all_knobs},
                                                {"isa", name_of(cpu_features().isa)},
                                                {"models", models}}
                                     .dump(1)
                              << '\n';
  }
  return bad == 0 ? 0 : 1;
}
