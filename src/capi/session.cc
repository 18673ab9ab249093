// Sessions in the C interface: handles own C++ values, and the C view of what callers ask about.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "base/log.h"
#include "capi/network_arguments.h"
#include "convoy/selection_check.h"
#include "core/shared_bytes.h"

using namespace convoy;
using namespace convoy::capi;

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
  mutable RunStatistics statistics;                      // of the run that ended last; fork_mutex guards it
};

namespace {

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

// The network's outputs with the sizes that a session gives them. Where data decides these the model's word is no help.
std::vector<NetworkValue> prepared_outputs(const Network& network, const Session& session) {
  std::vector<NetworkValue> values = network.outputs();
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::optional<TensorDesc>& known = session.outputs()[k];
    values[k].known_rank = known.has_value();
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
    return invalid(fmt::format("buffer_count={}, the network has {} outputs", count, outputs.size()));
  }
  CONVOY_CHECK(present(buffers, "buffers"));
  std::vector<HostTensor> tensors(count);
  for (std::size_t k = 0; k < count; ++k) {
    const auto& [data, bytes] = buffers[k];
    if (data == nullptr) continue;
    const std::int64_t least = outputs[k] ? outputs[k]->bytes() : 0;
    if (bytes < least) {
      return invalid(
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
  auto results = std::make_unique<convoy_results>(convoy_results{std::move(outputs)});
  RunStatistics statistics{.each_step = session.times_steps};
  CONVOY_CHECK(session.session->run_into(tensors, results->outputs, &statistics));
  const std::lock_guard lock(fork_mutex());
  session.statistics = std::move(statistics);
  return results;
}

RunStatistics last_run(const convoy_session& session) {
  const std::lock_guard lock(fork_mutex());
  return session.statistics;
}

}  // namespace

extern "C" {

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
      if (!into[k].data) return invalid(fmt::format("results is null, and so is buffers[{}].data", k));
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
