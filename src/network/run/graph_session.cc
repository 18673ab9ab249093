#include "network/run/graph_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/hash.h"
#include "device/device.h"
#include "network/run/uploaded.h"

namespace convoy::network {

GraphSession::GraphSession(Prepared prepared, Settings settings)
    : prepared_(std::move(prepared)),
      settings_(std::move(settings)),
      pool_(most_at_once(), [this] { return make_execution(); }) {
  for (const TensorDesc& input : prepared_.inputs) inputs_.push_back(whole(input));
  for (const auto& output : prepared_.outputs) {
    outputs_.push_back(output ? std::optional(whole(*output)) : std::nullopt);
  }
  for (ProgramStep& step : prepared_.lowered.program.steps) prepared_.steps.push_back(std::move(step.info));
  prepared_.lineup = lineup();
  if (!prepared_.dynamic_subgraph) return;
  const auto& rows = prepared_.dynamic_subgraph->rows();
  prepared_.steps.insert(prepared_.steps.end(), rows.begin(), rows.end());
}

Result<std::unique_ptr<Execution>> GraphSession::make_execution() const {
  return Execution::make(prepared_, settings_.team ? settings_.team : make_cpu_team(prepared_.threads));
}

constexpr std::int64_t kMostAtHome = 8;  // runs side by side on a GPU: a few fill it

// More runs than the processor has threads for would only take turns, each with memory of its own.
int GraphSession::most_at_once() const {
  if (settings_.team && !settings_.team_serves_several) return 1;
  std::int64_t most = prepared_.home != 0 ? kMostAtHome : settings_.processors / prepared_.threads;
  if (settings_.device_memory_limit && bytes_of_run() > 0) {
    const auto left = *settings_.device_memory_limit - static_cast<std::int64_t>(weight_bytes_at_home());
    most = std::min(most, left / static_cast<std::int64_t>(bytes_of_run()));
  }
  if (settings_.activation_limit && activation_bytes() > 0) {
    most = std::min(most, *settings_.activation_limit / static_cast<std::int64_t>(activation_bytes()));
  }
  return static_cast<int>(std::max<std::int64_t>(1, most));
}

std::size_t GraphSession::weight_bytes_at_home() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : prepared_.program().slots) {
    if (slot.home == Home::constant && slot.place == prepared_.home) bytes += slot.constant.desc.bytes();
  }
  return static_cast<std::size_t>(bytes);
}

// At home, with a graph.
std::size_t GraphSession::bytes_of_run() const {
  if (prepared_.home == 0) return 0;
  const Footprint& there = prepared_.program().footprints[static_cast<std::size_t>(prepared_.home)];
  const std::size_t graph = prepared_.graphs ? prepared_.program().steps.size() * kGraphBytesOfStep : 0;
  return static_cast<std::size_t>(there.arena_bytes) + there.workspace_bytes + graph;
}

std::size_t GraphSession::device_bytes() const {
  if (prepared_.home == 0) return 0;
  const Footprint& there = prepared_.program().footprints[static_cast<std::size_t>(prepared_.home)];
  const std::lock_guard lock(mutex_);
  const std::size_t runs = static_cast<std::size_t>(pool_.size()) + callers_.size();
  return weight_bytes_at_home() + pool_.graph_bytes() +
         runs * (static_cast<std::size_t>(there.arena_bytes) + there.workspace_bytes);
}

// What runs in `room` bytes: activations, and most workspaces, grow with the batch.
std::string GraphSession::smaller_batch(std::int64_t room) const {
  const TensorDesc* const first = prepared_.inputs.empty() ? nullptr : &prepared_.inputs.front();
  const std::int64_t batch = first != nullptr && first->rank() > 0 ? first->dims.front() : 1;
  const std::int64_t left = room - static_cast<std::int64_t>(weight_bytes_at_home());
  const double fits = static_cast<double>(batch) * static_cast<double>(left) / static_cast<double>(bytes_of_run());
  if (fits < 1 || batch == 1) return "no batch fits";
  return fmt::format("the largest batch that fits is about {}", std::min(static_cast<std::int64_t>(fits), batch - 1));
}

Result<void> GraphSession::check_device_memory() const {
  if (!settings_.device_memory_limit) return {};
  const auto needed = static_cast<std::int64_t>(weight_bytes_at_home() + bytes_of_run());
  const std::int64_t limit = *settings_.device_memory_limit;
  if (needed <= limit) return {};
  return Error{ErrorCode::unsupported, fmt::format("memory limit: a run takes {} bytes of {}, not {}; {}", needed,
                                                   home().name(), limit, smaller_batch(limit))};
}

Result<void> GraphSession::allocate() {
  CONVOY_CHECK(check_device_memory());
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  auto allocated = allocate_there();
  if (allocated.ok() || prepared_.home == 0 || allocated.error().code != ErrorCode::out_of_memory) return allocated;
  const auto free = home().free_bytes();
  Error error = allocated.error();
  if (free.ok()) error.message += "; " + smaller_batch(*free);
  return error;
}

Result<void> GraphSession::allocate_there() {
  for (std::size_t place = 1; place < prepared_.devices.size(); ++place) {
    const Device& device = *prepared_.devices[place];
    CONVOY_TRY(const std::unique_ptr<Queue> queue, device.make_queue(1));
    for (Slot& slot : prepared_.lowered.program.slots) {
      if (slot.home != Home::constant || slot.place != static_cast<int>(place)) continue;
      CONVOY_TRY(slot.there, uploaded(device, *queue, slot.constant));
      slot.constant.data.reset();
    }
  }
  CONVOY_TRY(const auto first, pool_.take());
  return {};
}

Result<void> GraphSession::check_all_at_home() const {
  const auto refused = [](const std::string& what) {
    return Error{ErrorCode::unsupported,
                 what + " on the processor: tensors on a GPU need a network that runs there whole"};
  };
  if (prepared_.home == 0) return refused("the network is at home");
  if (prepared_.dynamic_subgraph) return refused("nodes whose sizes are known when it runs only are");
  const Program& program = prepared_.program();
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    if (program.steps[s].place == 0)
      return refused("step " + std::to_string(s) + " (" + prepared_.steps[s].nodes + ") is");
  }
  if (!program.copies.empty()) {
    return refused("output '" + prepared_.output_names[static_cast<std::size_t>(program.copies[0].output)] +
                   "' is made");
  }
  return {};
}

Result<void> GraphSession::enqueue(std::span<const void* const> inputs, std::span<void* const> outputs, void* stream) {
  CONVOY_CHECK(check_all_at_home());
  if (inputs.size() != prepared_.inputs.size() || outputs.size() != outputs_.size()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} inputs and {} outputs given, the network has {} and {}", inputs.size(), outputs.size(),
                             prepared_.inputs.size(), outputs_.size())};
  }
  const Device& home = this->home();
  const auto check = [&](const void* pointer, const std::string& field) -> Result<void> {
    if (reinterpret_cast<std::uintptr_t>(pointer) % home.alignment() != 0) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{}: its address is no multiple of {}", field, home.alignment())};
    }
    return home.check_pointer(pointer, field);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (prepared_.inputs[i].bytes() == 0) continue;
    CONVOY_CHECK(check(inputs[i], "input '" + prepared_.input_names[i] + "'"));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs_[k]->bytes() == 0) continue;
    CONVOY_CHECK(check(outputs[k], "output '" + prepared_.output_names[k] + "'"));
  }
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  CudaQueue queue(stream);
  CONVOY_TRY(const bool recorded, home.is_recorded(queue));
  if (recorded) return enqueue_recorded(inputs, outputs, queue);
  CONVOY_TRY(const auto execution, pool_.take([&](const Execution& each) { return each.fit(stream); }));
  CONVOY_CHECK(execution->enqueue(inputs, outputs, queue));
  ran_ = true;
  return {};
}

// It is the session's whatever comes of it: the caller's record may have a part of it.
Result<void> GraphSession::enqueue_recorded(std::span<const void* const> inputs, std::span<void* const> outputs,
                                            CudaQueue& queue) {
  CallersRun run;
  Result<void> done;
  auto joined = home().join_recording([&]() -> Result<void> {
    CONVOY_TRY(auto made, make_execution());
    // Else what is made at a first use would be, while the caller records.
    if (!ran_) CONVOY_CHECK(warm_up(*made));
    run.execution = std::move(made);
    done = run.execution->enqueue_recorded(inputs, outputs, queue);
    return {};
  });
  if (!joined.ok()) return joined.error();
  run.kept = *std::move(joined);
  const std::lock_guard lock(mutex_);
  callers_.push_back(std::move(run));
  return done;
}

// A run of its own, on zeros.
Result<void> GraphSession::warm_up(Execution& execution) {
  const auto zeros = [](const TensorDesc& desc) -> Result<HostTensor> {
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(desc));
    std::memset(tensor.data.get(), 0, static_cast<std::size_t>(desc.bytes()));
    return tensor;
  };
  std::vector<HostTensor> inputs, outputs;
  for (const TensorDesc& desc : prepared_.inputs) {
    CONVOY_TRY(inputs.emplace_back(), zeros(desc));
  }
  for (const auto& desc : outputs_) {
    CONVOY_TRY(outputs.emplace_back(), zeros(*desc));
  }
  CONVOY_CHECK(execution.run(inputs, outputs, nullptr, {}));
  ran_ = true;
  return {};
}

Result<std::vector<HostTensor>> GraphSession::run(std::span<const HostTensor> inputs, RunStatistics* statistics) {
  std::vector<HostTensor> outputs(outputs_.size());
  CONVOY_CHECK(run(inputs, outputs, statistics, nullptr));
  return outputs;
}

Result<void> GraphSession::run_into(std::span<const HostTensor> inputs, std::span<HostTensor> outputs,
                                    RunStatistics* statistics) {
  CONVOY_CHECK(check_outputs(outputs));
  return run(inputs, outputs, statistics, nullptr);
}

Result<RunTrace> GraphSession::trace(std::span<const HostTensor> inputs) {
  const bool a_thread_each = prepared_.parts.a_thread_each;
  std::vector<RecordingTeam> recordings;
  RunStatistics statistics;
  std::vector<HostTensor> outputs(outputs_.size());
  CONVOY_CHECK(run(inputs, outputs, &statistics, &recordings));
  RunTrace trace = recordings.front().taken();
  if (!a_thread_each) return trace;
  trace.threads.clear();
  for (std::size_t w = 0; w < recordings.size(); ++w) {
    for (RunTrace::Span span : w == 0 ? trace.steps : recordings[w].taken().steps) {
      span.thread = static_cast<int>(w);
      trace.threads.push_back(span);
    }
  }
  return trace;
}

std::uint64_t GraphSession::lineup() const {
  Hash hash;
  for (const ProgramStep& step : prepared_.program().steps) hash.add(step.active);
  return hash.value();
}

void GraphSession::use(std::size_t i, std::size_t candidate) {
  for (ProgramStep& step : prepared_.lowered.program.steps) {
    if (step.switchable == static_cast<int>(i)) step.active = candidate;
  }
  prepared_.lineup = lineup();
}

std::vector<ActivationBuffer> GraphSession::activations() const {
  std::vector<ActivationBuffer> buffers;
  for (const Storage& storage : prepared_.program().storages) {
    if (storage.place != 0) continue;
    buffers.push_back({storage.offset, storage.life.bytes, storage.life.first, storage.life.last});
  }
  return buffers;
}

int GraphSession::turns() const {
  const std::int64_t side_by_side = prepared_.side_by_side();
  return static_cast<int>((prepared_.part_count + side_by_side - 1) / side_by_side);
}

std::size_t GraphSession::activation_bytes() const {
  std::int64_t bytes = 0;
  for (const Footprint& place : prepared_.program().footprints) bytes += place.arena_bytes;
  return static_cast<std::size_t>(bytes) * static_cast<std::size_t>(prepared_.side_by_side());
}

std::size_t GraphSession::workspace_bytes() const {
  std::size_t bytes = 0;
  for (const Footprint& place : prepared_.program().footprints) bytes += place.workspace_bytes;
  return bytes * static_cast<std::size_t>(prepared_.side_by_side());
}

Result<void> GraphSession::run(std::span<const HostTensor> inputs, std::span<HostTensor> outputs,
                               RunStatistics* statistics, std::vector<RecordingTeam>* recordings) {
  CONVOY_CHECK(check_inputs(inputs));
  std::vector<HostTensor> made(outputs.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs_[k]) continue;  // the dynamic subgraph's come with memory
    made[k] = outputs[k];
    if (!made[k].data) {
      CONVOY_TRY(made[k], HostTensor::allocate(*outputs_[k]));
    }
  }
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  CONVOY_TRY(const auto execution, pool_.take([](const Execution& each) { return each.fit({}); }));
  std::span<RecordingTeam> teams;
  if (recordings) {  // from here on: not while the run waits
    const int threads = prepared_.parts.a_thread_each ? 1 : prepared_.threads;
    recordings->assign(static_cast<std::size_t>(prepared_.side_by_side()), RecordingTeam(threads));
    teams = *recordings;
  }
  CONVOY_CHECK(execution->run(inputs, made, statistics, teams));
  ran_ = true;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs_[k] || !outputs[k].data) {
      outputs[k] = std::move(made[k]);
      continue;
    }
    const std::int64_t needed = made[k].desc.bytes(), there = outputs[k].desc.bytes();
    if (there < needed) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("output '{}' is {} {}, {} bytes, its memory has {}", prepared_.output_names[k],
                               name_of(made[k].desc.type), to_string(made[k].desc.dims), needed, there)};
    }
    std::memcpy(outputs[k].data.get(), made[k].data.get(), static_cast<std::size_t>(needed));
    outputs[k].desc = std::move(made[k].desc);
  }
  return {};
}

Result<void> GraphSession::check_outputs(std::span<const HostTensor> outputs) const {
  if (outputs.size() != outputs_.size()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} outputs given, the network has {}", outputs.size(), outputs_.size())};
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const TensorDesc& desc = outputs[k].desc;
    if (!outputs[k].data || !outputs_[k] || desc == *outputs_[k]) continue;
    if (desc.type != outputs_[k]->type || desc.dims != outputs_[k]->dims || !desc.is_packed(Layout::nchw)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("output '{}': its memory is for {} {}, it is {} {}, packed nchw",
                               prepared_.output_names[k], name_of(desc.type), to_string(desc.dims),
                               name_of(outputs_[k]->type), to_string(outputs_[k]->dims))};
    }
  }
  return {};
}

Result<void> GraphSession::check_inputs(std::span<const HostTensor> inputs) const {
  if (inputs.size() != inputs_.size()) {
    return Error{ErrorCode::invalid_argument,
                 std::to_string(inputs.size()) + " inputs given, the network has " + std::to_string(inputs_.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor& input = inputs[i];
    const TensorDesc& wanted = inputs_[i];
    if (input.data && input.desc == wanted) continue;
    if (input.desc.type != wanted.type || input.desc.dims != wanted.dims) {
      return Error{ErrorCode::invalid_argument, "input '" + prepared_.input_names[i] + "' is " +
                                                    std::string(name_of(input.desc.type)) + " " +
                                                    to_string(input.desc.dims) + ", the session was prepared for " +
                                                    std::string(name_of(wanted.type)) + " " + to_string(wanted.dims)};
    }
    if (!input.data || !input.desc.is_packed(Layout::nchw)) {
      return Error{ErrorCode::invalid_argument, "input '" + prepared_.input_names[i] + "' is not packed nchw"};
    }
  }
  return {};
}

TensorDesc GraphSession::whole(TensorDesc part) const {
  if (prepared_.part_count == 1) return part;
  Dims dims = part.dims;
  dims.front() *= prepared_.part_count;
  return TensorDesc::packed(part.type, std::move(dims));
}

}  // namespace convoy::network
