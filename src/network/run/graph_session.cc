#include "network/run/graph_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/device.h"

namespace convoy::network {

GraphSession::GraphSession(Prepared prepared, Settings settings)
    : prepared_(std::move(prepared)), settings_(std::move(settings)), pool_(most_at_once(), [this] {
        return Execution::make(prepared_, settings_.team ? settings_.team : make_cpu_team(prepared_.threads));
      }) {
  for (const auto& output : prepared_.outputs) {
    outputs_.push_back(output ? std::optional(whole(*output)) : std::nullopt);
  }
  for (ProgramStep& step : prepared_.lowered.program.steps) prepared_.steps.push_back(std::move(step.info));
  if (!prepared_.tail) return;
  const auto& rows = prepared_.tail->rows();
  prepared_.steps.insert(prepared_.steps.end(), rows.begin(), rows.end());
}

// More runs than the processor has threads for would only take turns, each with memory of its own.
int GraphSession::most_at_once() const {
  if (settings_.team && !settings_.team_serves_several) return 1;
  std::int64_t most = settings_.processors / prepared_.threads;
  if (settings_.activation_limit && activation_bytes() > 0) {
    most = std::min(most, *settings_.activation_limit / static_cast<std::int64_t>(activation_bytes()));
  }
  return static_cast<int>(std::max<std::int64_t>(1, most));
}

Result<void> GraphSession::allocate() {
  CONVOY_TRY(const auto first, pool_.take());
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  for (std::size_t place = 1; place < prepared_.devices.size(); ++place) {
    const Device& device = *prepared_.devices[place];
    CONVOY_TRY(const std::unique_ptr<Queue> queue, device.make_queue(1));
    std::vector<HostTensor> under_way;
    for (Slot& slot : prepared_.lowered.program.slots) {
      if (slot.home != Home::constant || slot.place != static_cast<int>(place)) continue;
      const auto bytes = static_cast<std::size_t>(slot.constant.desc.bytes());
      CONVOY_TRY(slot.there, device.allocate(bytes, "weights"));
      if (bytes > 0) CONVOY_CHECK(queue->copy_in(slot.there.data(), slot.constant.data.get(), bytes));
      under_way.push_back(slot.constant);
      slot.constant.data.reset();
    }
    CONVOY_CHECK(queue->finish());
  }
  return {};
}

Result<void> GraphSession::check_all_at_home() const {
  const auto refused = [](const std::string& what) {
    return Error{ErrorCode::unsupported,
                 what + " on the processor: tensors on a GPU need a network that runs there whole"};
  };
  if (prepared_.home == 0) return refused("the network is at home");
  if (prepared_.tail) return refused("nodes whose sizes are known when it runs only are");
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
  const Device& home = *prepared_.devices[static_cast<std::size_t>(prepared_.home)];
  const auto check = [&](const void* pointer, const std::string& field) -> Result<void> {
    if (reinterpret_cast<std::uintptr_t>(pointer) % home.alignment() != 0) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{}: its address is no multiple of {}", field, home.alignment())};
    }
    return home.check_pointer(pointer, field);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CONVOY_CHECK(check(inputs[i], "input '" + prepared_.input_names[i] + "'"));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    CONVOY_CHECK(check(outputs[k], "output '" + prepared_.output_names[k] + "'"));
  }
  CONVOY_TRY(const auto execution, pool_.take());
  CudaQueue queue(stream);
  return execution->enqueue(inputs, outputs, queue);
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

void GraphSession::use(std::size_t i, std::size_t candidate) {
  for (ProgramStep& step : prepared_.lowered.program.steps) {
    if (step.switchable == static_cast<int>(i)) step.active = candidate;
  }
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
    if (!outputs_[k]) continue;  // the tail's come with memory
    made[k] = outputs[k];
    if (!made[k].data) {
      CONVOY_TRY(made[k], HostTensor::allocate(*outputs_[k]));
    }
  }
  CONVOY_TRY(const auto execution, pool_.take());
  std::span<RecordingTeam> teams;
  if (recordings) {  // from here on: not while the run waits
    const int threads = prepared_.parts.a_thread_each ? 1 : prepared_.threads;
    recordings->assign(static_cast<std::size_t>(prepared_.side_by_side()), RecordingTeam(threads));
    teams = *recordings;
  }
  CONVOY_CHECK(execution->run(inputs, made, statistics, teams));
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
    if (!outputs[k].data || !outputs_[k]) continue;
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
  if (inputs.size() != prepared_.inputs.size()) {
    return Error{ErrorCode::invalid_argument, std::to_string(inputs.size()) + " inputs given, the network has " +
                                                  std::to_string(prepared_.inputs.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor& input = inputs[i];
    const TensorDesc wanted = whole(prepared_.inputs[i]);
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
