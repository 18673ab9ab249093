// Networks in the C interface: handles own C++ values, and the C view of what callers ask about.
#include "convoy/network.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "capi/network_arguments.h"
#include "capi/options.h"
#include "convoy/network_precision.h"
#include "convoy/network_tuning.h"
#include "engines/cudnn/ahead.h"
#include "network/graph/onnx/import.h"
#include "network/prepare/session.h"

using namespace convoy;
using namespace convoy::capi;

namespace {

Result<void> own(std::unique_ptr<Network> network, convoy_network** handle) {
  auto made = std::make_unique<convoy_network>();
  made->input_dim_names = dim_names(network->inputs());
  made->output_dim_names = dim_names(network->outputs());
  for (const auto& [key, value] : network->info().metadata) {
    made->metadata_keys.push_back(key.c_str());
    made->metadata_values.push_back(value.c_str());
  }
  made->network = std::move(network);
  *handle = made.release();
  return {};
}

Result<std::vector<onnx_io::GivenInitializer>> read_initializers(const convoy_initializer* given, std::size_t count) {
  if (count > 0) CONVOY_CHECK(present(given, "initializers"));
  std::vector<onnx_io::GivenInitializer> made;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [name, data, bytes] = given[i];
    const std::string what = fmt::format("initializers[{}]", i);
    CONVOY_CHECK(present(name, (what + ".name").c_str()));
    if (bytes < 0) return invalid(fmt::format("{}.bytes={} is negative", what, bytes));
    if (bytes > 0) CONVOY_CHECK(present(data, (what + ".data").c_str()));
    made.push_back({name, {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)}});
  }
  return made;
}

}  // namespace

extern "C" {

int convoy_knows_operator(const char* domain, const char* op) {
  return domain != nullptr && op != nullptr && onnx_io::knows_operator(domain, op);
}

convoy_status convoy_load_device(const char* device) {
  return guarded([&]() -> Result<void> {
    convoy_options options = CONVOY_OPTIONS_INIT;
    options.device = device;
    CONVOY_TRY(const Chooser chooser, read_options(&options));
    if (!chooser.place.request.cuda) return {};
    const std::jthread beside(cudnn::load_ahead);
    cudnn::open_ahead(*chooser.place.request.cuda);
    return {};
  });
}

convoy_status convoy_network_load(const char* path, convoy_network** network) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    *network = nullptr;
    CONVOY_CHECK(present(path, "path"));
    CONVOY_TRY(std::unique_ptr<Network> loaded, Network::load(path));
    return own(std::move(loaded), network);
  });
}

convoy_status convoy_network_parse(const void* onnx, size_t bytes, const char* external_data_folder,
                                   convoy_network** network) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    *network = nullptr;
    CONVOY_CHECK(present(onnx, "onnx"));
    CONVOY_TRY(std::unique_ptr<Network> parsed,
               Network::parse({static_cast<const std::byte*>(onnx), bytes}, "onnx",
                              external_data_folder == nullptr ? "" : external_data_folder));
    return own(std::move(parsed), network);
  });
}

convoy_status convoy_network_parse_with(const void* onnx, size_t bytes, const char* external_data_folder,
                                        const convoy_initializer* initializers, size_t initializer_count,
                                        convoy_network** network) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    *network = nullptr;
    CONVOY_CHECK(present(onnx, "onnx"));
    CONVOY_TRY(const auto given, read_initializers(initializers, initializer_count));
    const std::string name = "onnx";
    CONVOY_TRY(
        std::unique_ptr<Network> parsed,
        network::network_of(onnx_io::import_bytes({static_cast<const std::byte*>(onnx), bytes}, name,
                                                  external_data_folder == nullptr ? "" : external_data_folder, given),
                            name));
    return own(std::move(parsed), network);
  });
}

void convoy_network_destroy(convoy_network* network) { delete network; }

size_t convoy_network_inputs(const convoy_network* network) { return network ? network->network->inputs().size() : 0; }
size_t convoy_network_outputs(const convoy_network* network) {
  return network ? network->network->outputs().size() : 0;
}

convoy_status convoy_network_input(const convoy_network* network, size_t index, convoy_value* value) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    return describe(network->network->inputs(), network->input_dim_names, index, "inputs", value);
  });
}

convoy_status convoy_network_output(const convoy_network* network, size_t index, convoy_value* value) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    return describe(network->network->outputs(), network->output_dim_names, index, "outputs", value);
  });
}

convoy_status convoy_network_info(const convoy_network* network, convoy_model_info* info) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    CONVOY_CHECK(present(info, "info"));
    const ModelInfo& told = network->network->info();
    convoy_model_info filled = CONVOY_MODEL_INFO_INIT;
    filled.producer_name = told.producer_name.c_str();
    filled.producer_version = told.producer_version.c_str();
    filled.domain = told.domain.c_str();
    filled.description = told.description.c_str();
    filled.graph_name = told.graph_name.c_str();
    filled.graph_description = told.graph_description.c_str();
    filled.version = told.version;
    filled.metadata = network->metadata_keys.size();
    filled.metadata_keys = network->metadata_keys.data();
    filled.metadata_values = network->metadata_values.data();
    return write_struct(info, filled, "convoy_model_info");
  });
}

convoy_status convoy_network_plan(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                  const convoy_options* options, convoy_text_callback callback, void* user) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    if (callback == nullptr) return invalid("callback is null");
    CONVOY_TRY(const std::vector<TensorDesc> inputs, read_shapes(*network->network, shapes, shape_count));
    std::unique_ptr<TuningDatabase> database;
    CONVOY_TRY(const NetworkOptions given, read_network_options(options, Use::prepare, database));
    CONVOY_TRY(const NetworkPlan plan, network->network->plan(inputs, given));
    const std::string text = print(plan);
    callback(user, text.c_str(), text.size());
    return {};
  });
}

convoy_status convoy_network_plan_within(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                         const void* const* inputs, size_t input_count, double max_error,
                                         const convoy_options* options, convoy_text_callback callback, void* user) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    if (callback == nullptr) return invalid("callback is null");
    CONVOY_TRY(const std::vector<TensorDesc> descs, read_shapes(*network->network, shapes, shape_count));
    CONVOY_TRY(const NetworkInputs tensors, read_inputs(descs, inputs, input_count));
    std::unique_ptr<TuningDatabase> database;
    CONVOY_TRY(const NetworkOptions given, read_network_options(options, Use::prepare, database));
    CONVOY_TRY(const PrecisionChoice choice, choose_precision(*network->network, {&tensors, 1}, given, max_error));
    const std::string text = print(choice.plan);
    callback(user, text.c_str(), text.size());
    return {};
  });
}

convoy_status convoy_network_tune(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                  const void* const* inputs, size_t input_count, const convoy_options* options,
                                  int32_t again, convoy_progress_callback progress, void* user) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    CONVOY_TRY(const std::vector<TensorDesc> descs, read_shapes(*network->network, shapes, shape_count));
    CONVOY_TRY(const std::vector<HostTensor> tensors, read_inputs(descs, inputs, input_count));
    std::unique_ptr<TuningDatabase> database;
    CONVOY_TRY(NetworkOptions given, read_network_options(options, Use::tune, database));
    std::atomic<bool> stop = false;
    given.selection.stop = &stop;
    NetworkTuningProgress told;
    if (progress != nullptr) {
      told = [&](double fraction, std::string_view what) {
        if (progress(user, fraction, std::string(what).c_str()) != 0) stop = true;
      };
    }
    CONVOY_TRY(const auto convolutions, network->network->convolutions(descs, given));
    CONVOY_TRY(const WholeTuning tuned,
               tune_network(*network->network, convolutions, tensors, given, told, again != 0));
    for (const std::string& remark : tuned.tuning.remarks) log(LogLevel::info, "tune", {{"remark", remark}});
    return {};
  });
}

}  // extern "C"
