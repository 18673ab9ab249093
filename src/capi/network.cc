// Networks in the C interface: handles own C++ values, and the C view of what callers ask about.
#include "convoy/network.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "capi/caller_team.h"
#include "capi/options.h"
#include "convoy/network_tuning.h"
#include "convoy/selection_check.h"
#include "convoy/tuning_database.h"
#include "core/shared_bytes.h"
#include "network/graph/onnx/import.h"
#include "network/prepare/session.h"

using namespace convoy;
using namespace convoy::capi;

struct convoy_network {
  std::unique_ptr<Network> network;
  // The names of each value's free sizes, as C has them.
  std::vector<std::vector<const char*>> input_dim_names, output_dim_names;
  std::vector<const char*> metadata_keys, metadata_values;
};

struct convoy_results {
  std::vector<HostTensor> outputs;
};

struct convoy_session {
  std::unique_ptr<TuningDatabase> database;  // which a session may ask again, where sizes depend on values
  std::unique_ptr<Session> session;
  std::vector<TensorDesc> inputs;
  std::vector<NetworkValue> outputs;
  std::vector<std::vector<const char*>> output_dim_names;
  std::vector<std::string> problems, reasons, warnings;  // of each step
  std::string rule_warnings;                             // lines
  std::string parts;                                     // of the batch
  std::string device;                                    // its home
  bool times_steps = true;                               // at each run: on a GPU that waits after each
  std::unique_ptr<convoy_results> results;               // of the last convoy_session_run
  mutable std::mutex mutex;                              // guards `statistics`
  mutable RunStatistics statistics;                      // of the run that ended last
};

namespace {

std::vector<std::vector<const char*>> dim_names(const std::vector<NetworkValue>& values) {
  std::vector<std::vector<const char*>> all;
  for (const NetworkValue& value : values) {
    auto& names = all.emplace_back();
    for (const std::string& name : value.dim_names) names.push_back(name.c_str());
    names.resize(value.dims.size(), "");
  }
  return all;
}

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

Result<void> describe(const std::vector<NetworkValue>& values, const std::vector<std::vector<const char*>>& dim_names,
                      std::size_t index, const char* what, convoy_value* value) {
  CONVOY_CHECK(present(value, "value"));
  CONVOY_CHECK(in_range(index, values.size(), what));
  const NetworkValue& from = values[index];
  convoy_value filled = CONVOY_VALUE_INIT;
  filled.name = from.name.c_str();
  filled.type = name_of(from.type).data();
  filled.rank = from.known_rank ? static_cast<std::int32_t>(from.dims.size()) : -1;
  filled.dims = from.dims.data();
  filled.dim_names = dim_names[index].data();
  filled.proposed_dims = from.proposed_dims.empty() ? from.dims.data() : from.proposed_dims.data();
  return write_struct(value, filled, "convoy_value");
}

Result<void> describe(std::span<const HostTensor> outputs, std::size_t index, const char* what, convoy_output* output) {
  CONVOY_CHECK(present(output, "output"));
  CONVOY_CHECK(in_range(index, outputs.size(), what));
  const HostTensor& from = outputs[index];
  convoy_output filled = CONVOY_OUTPUT_INIT;
  filled.type = name_of(from.desc.type).data();
  filled.rank = from.desc.rank();
  filled.dims = from.desc.dims.data();
  filled.data = from.data.get();
  filled.bytes = from.desc.bytes();
  return write_struct(output, filled, "convoy_output");
}

// What a network is prepared for where the caller says nothing.
Result<TensorDesc> proposed(const NetworkValue& input) {
  const Dims& dims = input.proposed_dims.empty() ? input.dims : input.proposed_dims;
  if (!input.known_rank) {
    return argument_error(fmt::format("shapes is null, and input '{}' has no sizes in the model", input.name));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] >= 0) continue;
    return argument_error(fmt::format("shapes is null, and dims[{}] of input '{}' is free", i, input.name));
  }
  return TensorDesc::packed(input.type, dims);
}

Result<std::vector<TensorDesc>> read_shapes(const Network& network, const convoy_shape* shapes, std::size_t count) {
  const std::vector<NetworkValue>& inputs = network.inputs();
  if (shapes != nullptr && count != inputs.size()) {
    return argument_error(fmt::format("shape_count={}, the network has {} inputs", count, inputs.size()));
  }
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (shapes == nullptr) {
      CONVOY_TRY(TensorDesc desc, proposed(inputs[i]));
      descs.push_back(std::move(desc));
      continue;
    }
    constexpr std::int32_t kMostDims = 64;
    if (shapes[i].rank < 0 || shapes[i].rank > kMostDims) {
      return argument_error(fmt::format("shapes[{}].rank={} is not in 0..{}", i, shapes[i].rank, kMostDims));
    }
    if (shapes[i].dims == nullptr && shapes[i].rank > 0)
      return argument_error(fmt::format("shapes[{}].dims is null", i));
    Dims dims(shapes[i].dims, shapes[i].dims + shapes[i].rank);
    descs.push_back(TensorDesc::packed(inputs[i].type, std::move(dims)));
  }
  return descs;
}

bool restricts_engines(const convoy_options& given) {
  return given.engines != nullptr || given.rules != nullptr || given.fallback != 0 || given.deterministic_only != 0 ||
         given.workspace_limit >= 0;
}

// What plans are to be small in, and their limits.
Result<void> read_goals(const convoy_options& given, std::string_view how, NetworkOptions& made) {
  MemoryGoal& goal = made.memory;
  const auto objective = parse_network_objective(given.objective != nullptr ? given.objective : "time");
  if (!objective.ok()) return argument_error(objective.error().message);
  made.selection.objective = objective->objective;
  goal.least = objective->least_memory;
  goal.weight = objective->memory;
  const auto read_limit = [](std::string_view name, std::int64_t bytes) -> Result<std::optional<std::int64_t>> {
    if (bytes < -1) return argument_error(fmt::format("{}={} is neither a number of bytes nor -1", name, bytes));
    return bytes >= 0 ? std::optional(bytes) : std::nullopt;
  };
  CONVOY_TRY(goal.activation_limit, read_limit("activation_limit", given.activation_limit));
  CONVOY_TRY(goal.weight_limit, read_limit("weight_limit", given.weight_limit));
  const std::string_view field = goal.activation_limit ? "activation_limit"
                                 : goal.weight_limit   ? "weight_limit"
                                                       : "objective";
  const bool asked = goal.asked() || made.selection.objective.energy > 0;
  if (asked && given.plan != nullptr) return argument_error(fmt::format("{}: plan says the layouts already", field));
  if (asked && how != "global") {
    return argument_error(fmt::format("{} is for how='global': '{}' goes by time, and by no limit", field, how));
  }
  return {};
}

enum class Use { prepare, tune };

Result<NetworkOptions> read_network_options(const convoy_options* options, Use use,
                                            std::unique_ptr<TuningDatabase>& database) {
  CONVOY_TRY(const convoy_options given, whole(options));
  CONVOY_TRY(const Chooser chooser, read_options(&given));
  const bool on_gpu = chooser.place.request.kind() == DeviceKind::cuda;
  if (on_gpu && given.target_sms != 0) {
    return Error{ErrorCode::unsupported,
                 fmt::format("target_sms={}: networks use all of a GPU's multiprocessors", given.target_sms)};
  }
  if (!on_gpu && (given.no_graph != 0 || given.synchronous != 0 || given.device_memory_limit != -1)) {
    const std::string_view field = given.no_graph != 0      ? "no_graph"
                                   : given.synchronous != 0 ? "synchronous"
                                                            : "device_memory_limit";
    return argument_error(fmt::format("{} is for networks on a GPU: device is cpu", field));
  }
  // Of the processor, for what runs there with copies.
  const int threads = given.threads == 0 ? cpu_features().logical_cpus : given.threads;
  NetworkOptions made{.threads = threads,
                      .cpu = chooser.place.request.cpu,
                      .selection = chooser.options,
                      .math = chooser.math,
                      .team = caller_team(given, threads),
                      .team_serves_several = true,
                      .cuda = chooser.place.request.cuda,
                      .graphs = given.no_graph == 0,
                      .synchronous = given.synchronous != 0};
  if (given.device_memory_limit < -1) {
    return argument_error(
        fmt::format("device_memory_limit={} is neither a number of bytes nor -1", given.device_memory_limit));
  }
  if (given.device_memory_limit >= 0) made.device_memory_limit = given.device_memory_limit;
  const std::string_view how = given.how != nullptr ? given.how : "tuned";
  const bool measures = use == Use::tune || made.selection.budget_seconds > 0;
  if (how != "tuned") made.how = how;
  if (how == "tuned" && !restricts_engines(given) && (use == Use::tune || !measures)) {
    made.kept_plans = kept_plans_folder(chooser.database);
  }
  CONVOY_CHECK(read_goals(given, how, made));
  if (given.plan != nullptr) {
    auto plan = parse_plan(given.plan);
    if (!plan.ok()) return plan.error().within("plan");
    made.plan = std::move(*plan);
  }
  made.lenient_plan = given.lenient_plan != 0;
  if (given.precision != nullptr) {
    const auto type = parse_data_type(given.precision);
    if (!type.ok()) return argument_error(fmt::format("precision='{}' is not one of f32, bf16, f16", given.precision));
    made.precision = *type;
  }
  if (given.batch_parts != nullptr) {
    const auto parts = parse_batch_parts(given.batch_parts);
    if (!parts.ok()) return argument_error("batch_parts: " + parts.error().message);
    made.parts = *parts;
  }
  if (use == Use::tune) {
    if (how != "tuned") return argument_error(fmt::format("how='{}': tuning finds how", how));
    if (given.plan != nullptr) return argument_error("plan: tuning makes one");
    if (chooser.database.empty()) return argument_error("database is null: what is measured is kept there");
  }
  made.selection.mode = measures ? SelectionMode::measured : SelectionMode::heuristic;
  if (chooser.database.empty()) return made;
  using Access = TuningDatabase::Access;
  auto opened = TuningDatabase::open(chooser.database, measures ? Access::write : Access::read);
  // A file that is not there yet knows nothing.
  if (!opened.ok() && (measures || opened.error().code != ErrorCode::not_found)) return opened.error();
  if (opened.ok()) database = std::move(*opened);
  made.selection.store = database.get();
  return made;
}

Result<std::vector<onnx_io::GivenInitializer>> read_initializers(const convoy_initializer* given, std::size_t count) {
  if (count > 0) CONVOY_CHECK(present(given, "initializers"));
  std::vector<onnx_io::GivenInitializer> made;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [name, data, bytes] = given[i];
    const std::string what = fmt::format("initializers[{}]", i);
    CONVOY_CHECK(present(name, (what + ".name").c_str()));
    if (bytes < 0) return argument_error(fmt::format("{}.bytes={} is negative", what, bytes));
    if (bytes > 0) CONVOY_CHECK(present(data, (what + ".data").c_str()));
    made.push_back({name, {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)}});
  }
  return made;
}

Result<std::vector<HostTensor>> read_inputs(std::span<const TensorDesc> descs, const void* const* inputs,
                                            std::size_t count) {
  if (count != descs.size()) {
    return argument_error(fmt::format("input_count={}, the network has {} inputs", count, descs.size()));
  }
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    CONVOY_CHECK(present(inputs, "inputs"));
    if (descs[i].elements() > 0) CONVOY_CHECK(present(inputs[i], fmt::format("inputs[{}]", i).c_str()));
    // Only read; of an empty one not even that.
    alignas(64) static std::byte nothing[64];
    void* data = inputs[i] != nullptr ? const_cast<void*>(inputs[i]) : nothing;
    tensors.push_back({descs[i], borrowed(data)});
  }
  return tensors;
}

// Rules that did nothing: misspelt ones, mostly.
Result<std::vector<std::string>> idle_rules(const std::vector<SelectionRule>& rules, const Session& session) {
  std::vector<ConvolutionNode> convolutions;
  for (const NetworkStep& step : session.steps()) {
    if (step.kind == "conv") convolutions.push_back({step.problem, step.nodes});
  }
  CONVOY_TRY(const std::vector<RuleUse> uses, rule_uses(rules, convolutions));
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (uses[i].decided > 0) continue;
    idle.push_back(fmt::format(
        "rule '{} -> {}' {}", rules[i].pattern, print(rules[i].candidate),
        uses[i].matched == 0 ? "matched no convolution" : "decided nothing, since rules before it match the same"));
  }
  return idle;
}

// The network's outputs with the sizes that a session gives them.
std::vector<NetworkValue> prepared_outputs(const Network& network, const Session& session) {
  std::vector<NetworkValue> values = network.outputs();
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::optional<TensorDesc>& known = session.outputs()[k];
    if (known) values[k] = {.name = values[k].name, .type = known->type, .dims = known->dims};
  }
  return values;
}

// Outputs that get memory.
std::vector<HostTensor> nowhere(const convoy_session& session) {
  return std::vector<HostTensor>(session.outputs.size());
}

Result<std::vector<HostTensor>> read_buffers(const convoy_session& session, const convoy_buffer* buffers,
                                             std::size_t count) {
  const std::vector<std::optional<TensorDesc>>& outputs = session.session->outputs();
  if (count != outputs.size()) {
    return argument_error(fmt::format("buffer_count={}, the network has {} outputs", count, outputs.size()));
  }
  CONVOY_CHECK(present(buffers, "buffers"));
  std::vector<HostTensor> tensors(count);
  for (std::size_t k = 0; k < count; ++k) {
    const auto& [data, bytes] = buffers[k];
    if (data == nullptr) continue;
    const std::int64_t least = outputs[k] ? outputs[k]->bytes() : 0;
    if (bytes < least) {
      return argument_error(
          fmt::format("buffers[{}].bytes={}: output '{}' takes {}", k, bytes, session.outputs[k].name, least));
    }
    tensors[k].desc = outputs[k] ? *outputs[k] : TensorDesc::packed(DataType::u8, {bytes});
    tensors[k].data = borrowed(data);
  }
  return tensors;
}

Result<std::unique_ptr<convoy_results>> run(const convoy_session& session, const void* const* inputs, std::size_t count,
                                            std::vector<HostTensor> outputs) {
  CONVOY_TRY(const std::vector<HostTensor> tensors, read_inputs(session.inputs, inputs, count));
  auto results = std::make_unique<convoy_results>(std::move(outputs));
  RunStatistics statistics{.each_step = session.times_steps};
  CONVOY_CHECK(session.session->run_into(tensors, results->outputs, &statistics));
  const std::lock_guard lock(session.mutex);
  session.statistics = std::move(statistics);
  return results;
}

RunStatistics last_run(const convoy_session& session) {
  const std::lock_guard lock(session.mutex);
  return session.statistics;
}

std::string lines(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, "\n")); }

}  // namespace

extern "C" {

int convoy_knows_operator(const char* domain, const char* op) {
  return domain != nullptr && op != nullptr && onnx_io::knows_operator(domain, op);
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

convoy_status convoy_session_create(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                    const convoy_options* options, convoy_session** session) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    *session = nullptr;
    CONVOY_CHECK(present(network, "network"));
    auto made = std::make_unique<convoy_session>();
    CONVOY_TRY(made->inputs, read_shapes(*network->network, shapes, shape_count));
    CONVOY_TRY(const NetworkOptions given, read_network_options(options, Use::prepare, made->database));
    CONVOY_TRY(made->session, network->network->prepare(made->inputs, given));
    made->outputs = prepared_outputs(*network->network, *made->session);
    made->output_dim_names = dim_names(made->outputs);
    made->parts = print(made->session->parts());
    made->device = given.cuda ? fmt::format("cuda:{}", given.cuda->ordinal) : "cpu";
    made->times_steps = !given.cuda || given.synchronous;
    for (const NetworkStep& step : made->session->steps()) {
      made->problems.push_back(step.kind == "conv" ? print(step.problem) : "");
      made->reasons.push_back(step.selection.reason());
      made->warnings.push_back(lines(step.selection.warnings));
    }
    CONVOY_TRY(std::vector<std::string> idle, idle_rules(given.selection.rules, *made->session));
    for (const std::string& remark : made->session->remarks()) idle.push_back("plan: " + remark);
    for (const std::string& warning : idle) log(LogLevel::warning, "rules", {{"warning", warning}});
    made->rule_warnings = lines(idle);
    *session = made.release();
    return {};
  });
}

void convoy_session_destroy(convoy_session* session) { delete session; }

convoy_status convoy_network_plan(const convoy_network* network, const convoy_shape* shapes, size_t shape_count,
                                  const convoy_options* options, convoy_text_callback callback, void* user) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(network, "network"));
    if (callback == nullptr) return argument_error("callback is null");
    CONVOY_TRY(const std::vector<TensorDesc> inputs, read_shapes(*network->network, shapes, shape_count));
    std::unique_ptr<TuningDatabase> database;
    CONVOY_TRY(const NetworkOptions given, read_network_options(options, Use::prepare, database));
    CONVOY_TRY(const NetworkPlan plan, network->network->plan(inputs, given));
    const std::string text = print(plan);
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

convoy_status convoy_session_execute(const convoy_session* session, const void* const* inputs, size_t input_count,
                                     convoy_results** results) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(results, "results"));
    *results = nullptr;
    CONVOY_CHECK(present(session, "session"));
    CONVOY_TRY(std::unique_ptr<convoy_results> made, run(*session, inputs, input_count, nowhere(*session)));
    *results = made.release();
    return {};
  });
}

convoy_status convoy_session_execute_into(const convoy_session* session, const void* const* inputs, size_t input_count,
                                          const convoy_buffer* buffers, size_t buffer_count, convoy_results** results) {
  return guarded([&]() -> Result<void> {
    if (results != nullptr) *results = nullptr;
    CONVOY_CHECK(present(session, "session"));
    CONVOY_TRY(std::vector<HostTensor> into, read_buffers(*session, buffers, buffer_count));
    for (std::size_t k = 0; k < into.size() && results == nullptr; ++k) {
      if (!into[k].data) return argument_error(fmt::format("results is null, and so is buffers[{}].data", k));
    }
    CONVOY_TRY(std::unique_ptr<convoy_results> made, run(*session, inputs, input_count, std::move(into)));
    if (results != nullptr) *results = made.release();
    return {};
  });
}

convoy_status convoy_session_enqueue(const convoy_session* session, const void* const* inputs, size_t input_count,
                                     void* const* outputs, size_t output_count, void* stream) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    if (input_count > 0) CONVOY_CHECK(present(inputs, "inputs"));
    if (output_count > 0) CONVOY_CHECK(present(outputs, "outputs"));
    return session->session->enqueue({inputs, input_count}, {outputs, output_count}, stream);
  });
}

convoy_status convoy_session_output_value(const convoy_session* session, size_t index, convoy_value* value) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    return describe(session->outputs, session->output_dim_names, index, "outputs", value);
  });
}

void convoy_results_destroy(convoy_results* results) { delete results; }

convoy_status convoy_session_run(convoy_session* session, const void* const* inputs, size_t input_count) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    session->results.reset();
    CONVOY_TRY(session->results, run(*session, inputs, input_count, nowhere(*session)));
    return {};
  });
}

convoy_status convoy_results_output(const convoy_results* results, size_t index, convoy_output* output) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(results, "results"));
    return describe(results->outputs, index, "outputs", output);
  });
}

convoy_status convoy_session_output(const convoy_session* session, size_t index, convoy_output* output) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    const std::span<const HostTensor> none;
    return describe(session->results ? session->results->outputs : none, index, "outputs of the last run", output);
  });
}

convoy_status convoy_session_describe(const convoy_session* session, convoy_session_info* info) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    CONVOY_CHECK(present(info, "info"));
    convoy_session_info filled = CONVOY_SESSION_INFO_INIT;
    filled.steps = session->session->steps().size();
    const RunStatistics last = last_run(*session);
    filled.seconds = last.seconds;
    filled.device = session->device.c_str();
    filled.device_seconds = last.device_seconds.value_or(0);
    filled.device_bytes = static_cast<std::int64_t>(session->session->device_bytes());
    filled.activation_bytes = static_cast<std::int64_t>(session->session->activation_bytes());
    filled.weight_bytes = static_cast<std::int64_t>(session->session->weight_bytes());
    filled.workspace_bytes = static_cast<std::int64_t>(session->session->workspace_bytes());
    filled.warnings = session->rule_warnings.empty() ? nullptr : session->rule_warnings.c_str();
    filled.batch_parts = session->parts.c_str();
    filled.runs_at_once = session->session->runs_at_once();
    return write_struct(info, filled, "convoy_session_info");
  });
}

convoy_status convoy_session_step(const convoy_session* session, size_t index, convoy_step* step) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(session, "session"));
    CONVOY_CHECK(present(step, "step"));
    const std::vector<NetworkStep>& steps = session->session->steps();
    CONVOY_CHECK(in_range(index, steps.size(), "steps"));
    const NetworkStep& from = steps[index];
    const bool convolution = from.kind == "conv";
    const std::vector<double> seconds = last_run(*session).step_seconds;
    convoy_step filled = CONVOY_STEP_INIT;
    filled.kind = from.kind.c_str();
    filled.nodes = from.nodes.c_str();
    filled.engine = from.implementation.c_str();
    filled.problem = convolution ? session->problems[index].c_str() : nullptr;
    filled.reason = convolution ? session->reasons[index].c_str() : nullptr;
    filled.warnings = session->warnings[index].empty() ? nullptr : session->warnings[index].c_str();
    filled.output_shape = from.output_shape.c_str();
    filled.seconds = index < seconds.size() ? seconds[index] : 0;
    filled.threads = from.threads;
    filled.device = from.device.c_str();
    return write_struct(step, filled, "convoy_step");
  });
}

}  // extern "C"
