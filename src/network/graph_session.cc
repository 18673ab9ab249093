#include "network/graph_session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "device/device.h"

namespace convoy::network {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::uintptr_t kAlignment = 64;  // that plans rely on

bool is_aligned(const HostTensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data.get()) % kAlignment == 0;
}

// The images of one part, of a tensor that has those of all.
HostTensor part_of(const HostTensor& whole, const TensorDesc& desc, std::int64_t part) {
  return {desc, std::shared_ptr<std::byte>(whole.data, whole.data.get() + part * desc.bytes())};
}

}  // namespace

GraphSession::GraphSession(Content content)
    : program_(std::move(content.lowered.program)),
      export_slots_(std::move(content.lowered.export_slots)),
      inputs_(std::move(content.inputs)),
      input_names_(std::move(content.input_names)),
      outputs_(std::move(content.outputs)),
      tail_(std::move(content.tail)),
      team_(std::move(content.team)),
      parts_(content.parts),
      part_count_(content.part_count),
      remarks_(std::move(content.remarks)) {
  for (ProgramStep& step : program_.steps) {
    const bool works = step.info.kind != "convert";  // an answer's conversion is small
    calls_team_ |= works && team_->size() > 1 && step.threads == Threads::all && step.place == 0;
    steps_.push_back(std::move(step.info));
  }
  if (tail_) {
    steps_.insert(steps_.end(), tail_->rows().begin(), tail_->rows().end());
  }
  const std::int64_t side_by_side = parts_.a_thread_each ? std::min<std::int64_t>(team_->size(), part_count_) : 1;
  calls_team_ &= !parts_.a_thread_each;
  workers_.resize(static_cast<std::size_t>(side_by_side));
  for (Worker& worker : workers_) worker.team = parts_.a_thread_each ? one_thread_.get() : team_.get();
}

Result<void> GraphSession::allocate(std::span<const Place> places) {
  const auto make = [&](Worker& worker, std::size_t place) -> Result<void> {
    const Footprint& needed = program_.footprints[place];
    Lane& lane = worker.lanes.emplace_back();
    lane.device = places[place].device;
    if (place > 0) {
      CONVOY_TRY(lane.own, lane.device->make_queue(1));
    }
    lane.queue = place == 0 ? worker.team : lane.own.get();
    CONVOY_TRY(lane.arena, lane.device->allocate(
                               static_cast<std::size_t>(std::max<std::int64_t>(needed.arena_bytes, 1)), "activations"));
    CONVOY_TRY(lane.workspace, lane.device->allocate(needed.workspace_bytes, "the workspace"));
    return {};
  };
  for (Worker& worker : workers_) {
    for (std::size_t place = 0; place < places.size(); ++place) CONVOY_CHECK(make(worker, place));
  }
  CONVOY_TRY(const Entered entered, enter());
  for (Slot& slot : program_.slots) {
    if (slot.home != Home::constant || slot.place == 0) continue;
    Lane& lane = workers_.front().lanes[static_cast<std::size_t>(slot.place)];
    const auto bytes = static_cast<std::size_t>(slot.constant.desc.bytes());
    CONVOY_TRY(slot.there, lane.device->allocate(bytes, "weights"));
    CONVOY_CHECK(lane.queue->copy_in(slot.there.data(), slot.constant.data.get(), bytes));
    CONVOY_CHECK(lane.queue->finish());
    slot.constant.data.reset();
  }
  return {};
}

Result<std::vector<HostTensor>> GraphSession::run(std::span<const HostTensor> inputs, RunStatistics* statistics) {
  return run(inputs, statistics, {});
}

Result<RunTrace> GraphSession::trace(std::span<const HostTensor> inputs) {
  std::vector<RecordingTeam> recordings(workers_.size(), RecordingTeam(parts_.a_thread_each ? 1 : team_->size()));
  RunStatistics statistics;
  CONVOY_CHECK(run(inputs, &statistics, recordings));
  RunTrace trace = recordings.front().taken();
  if (!parts_.a_thread_each) return trace;
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
  for (ProgramStep& step : program_.steps) {
    if (step.switchable == static_cast<int>(i)) step.active = candidate;
  }
}

std::vector<ActivationBuffer> GraphSession::activations() const {
  std::vector<ActivationBuffer> buffers;
  for (const Storage& storage : program_.storages) {
    if (storage.place != 0) continue;
    buffers.push_back({storage.offset, storage.life.bytes, storage.life.first, storage.life.last});
  }
  return buffers;
}

int GraphSession::turns() const {
  const auto side_by_side = static_cast<std::int64_t>(workers_.size());
  return static_cast<int>((part_count_ + side_by_side - 1) / side_by_side);
}

std::size_t GraphSession::activation_bytes() const {
  std::int64_t bytes = 0;
  for (const Footprint& place : program_.footprints) bytes += place.arena_bytes;
  return static_cast<std::size_t>(bytes) * workers_.size();
}

std::size_t GraphSession::workspace_bytes() const {
  std::size_t bytes = 0;
  for (const Footprint& place : program_.footprints) bytes += place.workspace_bytes;
  return bytes * workers_.size();
}

Result<std::vector<HostTensor>> GraphSession::run(std::span<const HostTensor> inputs, RunStatistics* statistics,
                                                  std::span<RecordingTeam> recordings) {
  const auto start = Clock::now();
  CONVOY_CHECK(check_inputs(inputs));
  std::vector<HostTensor> outputs(outputs_.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs_[k]) {
      CONVOY_TRY(outputs[k], HostTensor::allocate(whole(*outputs_[k])));
    }
  }
  CONVOY_TRY(const Entered entered, enter());
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    workers_[w].step_seconds.assign(steps_.size(), 0);
    workers_[w].recording = recordings.empty() ? nullptr : &recordings[w];
  }
  const bool timed = statistics != nullptr;
  // Awake and each on a processor of its own: oneDNN calls the same threads, but sees to neither.
  if (calls_team_) team_->run([](int) {});
  if (parts_.a_thread_each) {
    // Who is late finds the parts taken that others could begin in the meantime.
    std::atomic<std::int64_t> next = 0;
    std::vector<Result<void>> done(workers_.size());
    team_->run([&](int thread) {
      const auto w = static_cast<std::size_t>(thread);
      if (w >= workers_.size()) return;
      for (std::int64_t part = next++; part < part_count_ && done[w].ok(); part = next++) {
        done[w] = run_part(workers_[w], part, inputs, outputs, timed);
      }
    });
    for (const Result<void>& each : done) CONVOY_CHECK(each);
  } else {
    for (std::int64_t part = 0; part < part_count_; ++part) {
      CONVOY_CHECK(run_part(workers_.front(), part, inputs, outputs, timed));
    }
  }
  if (statistics) {
    statistics->step_seconds.assign(steps_.size(), 0);
    for (const Worker& worker : workers_) {
      for (std::size_t s = 0; s < steps_.size(); ++s) {
        statistics->step_seconds[s] += worker.step_seconds[s] / static_cast<double>(part_count_);
      }
    }
    statistics->seconds = seconds_since(start);
  }
  return outputs;
}

Result<void> GraphSession::run_part(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                                    std::span<HostTensor> outputs, bool timed) {
  CONVOY_CHECK(bind(worker, part, inputs, outputs));
  CONVOY_CHECK(run_steps(worker, timed));
  if (tail_) CONVOY_CHECK(run_tail(worker, outputs, timed));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs_[k]) continue;
    const HostTensor there = part_of(outputs[k], *outputs_[k], part);
    const HostTensor& made = worker.outputs[k];
    if (made.data != there.data) {
      std::memcpy(there.data.get(), made.data.get(), static_cast<std::size_t>(made.desc.bytes()));
    }
  }
  worker.inputs.clear();
  worker.outputs.clear();
  return {};
}

Result<void> GraphSession::run_steps(Worker& worker, bool timed) {
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t s = 0; s < program_.steps.size(); ++s) {
    const ProgramStep& step = program_.steps[s];
    const auto step_start = Clock::now();
    in.clear();
    out.clear();
    for (int slot : step.inputs) in.push_back(slot == kAbsent ? nullptr : data_of(worker, slot));
    for (int slot : step.outputs) out.push_back(slot == kAbsent ? nullptr : data_of(worker, slot));
    const Lane& lane = worker.lanes[static_cast<std::size_t>(step.place)];
    ThreadTeam& team = step.threads == Threads::one ? *one_thread_ : *worker.team;
    if (worker.recording) worker.recording->begin_step(static_cast<int>(s), team);
    Queue& on_processor = worker.recording ? static_cast<Queue&>(*worker.recording) : team;
    Queue& queue = step.place == 0 ? on_processor : *lane.queue;
    auto done = step.running().execute(in, out, {queue, lane.workspace.data(), lane.workspace.bytes()});
    if (done.ok() && timed) done = lane.queue->finish();  // so that its time is the step's
    if (!done.ok()) return done.error().within("step " + std::to_string(s) + " (" + steps_[s].nodes + ")");
    if (timed) worker.step_seconds[s] += seconds_since(step_start);
    if (worker.recording) worker.recording->end_step();
  }
  for (const OutputCopy& copy : program_.copies) {
    const HostTensor& output = worker.outputs[static_cast<std::size_t>(copy.output)];
    std::memcpy(output.data.get(), data_of(worker, copy.slot), static_cast<std::size_t>(output.desc.bytes()));
  }
  return {};
}

Result<void> GraphSession::run_tail(Worker& worker, std::span<HostTensor> outputs, bool timed) {
  const auto first = static_cast<std::ptrdiff_t>(program_.steps.size());
  if (worker.recording) worker.recording->begin_step(static_cast<int>(first), *team_);
  std::vector<HostTensor> exports;
  for (int slot : export_slots_) {
    auto* data = static_cast<std::byte*>(data_of(worker, slot));
    const TensorDesc& desc = program_.slots[slot].desc;
    exports.push_back({TensorDesc::packed(desc.type, desc.dims),
                       std::shared_ptr<std::byte>(worker.lanes.front().arena.share(), data)});
  }
  const auto seconds =
      timed ? std::span(worker.step_seconds).subspan(static_cast<std::size_t>(first)) : std::span<double>();
  CONVOY_TRY(std::vector<HostTensor> made, tail_->run(exports, *worker.team, seconds));
  const auto which = tail_->outputs();
  for (std::size_t i = 0; i < which.size(); ++i) outputs[which[i]] = std::move(made[i]);
  if (worker.recording) worker.recording->end_step();
  return {};
}

Result<GraphSession::Entered> GraphSession::enter() const {
  Entered entered;
  const std::vector<Lane>& lanes = workers_.front().lanes;
  for (std::size_t place = 1; place < lanes.size(); ++place) {
    CONVOY_TRY(auto scope, lanes[place].device->enter());
    entered.push_back(std::move(scope));
  }
  return entered;
}

Result<void> GraphSession::check_inputs(std::span<const HostTensor> inputs) const {
  if (inputs.size() != inputs_.size()) {
    return Error{ErrorCode::invalid_argument,
                 std::to_string(inputs.size()) + " inputs given, the network has " + std::to_string(inputs_.size())};
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor& input = inputs[i];
    const TensorDesc wanted = whole(inputs_[i]);
    if (input.desc.type != wanted.type || input.desc.dims != wanted.dims) {
      return Error{ErrorCode::invalid_argument, "input '" + input_names_[i] + "' is " +
                                                    std::string(name_of(input.desc.type)) + " " +
                                                    to_string(input.desc.dims) + ", the session was prepared for " +
                                                    std::string(name_of(wanted.type)) + " " + to_string(wanted.dims)};
    }
    if (!input.data || !input.desc.is_packed(Layout::nchw)) {
      return Error{ErrorCode::invalid_argument, "input '" + input_names_[i] + "' is not packed nchw"};
    }
  }
  return {};
}

// Memory from elsewhere, and parts of it, may begin anywhere: then a copy is read, or written.
Result<void> GraphSession::bind(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                                std::span<const HostTensor> outputs) const {
  worker.inputs.clear();
  worker.outputs.assign(outputs.size(), {});
  worker.spare.resize(outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HostTensor bound = part_of(inputs[i], inputs_[i], part);
    if (!is_aligned(bound)) {
      CONVOY_TRY(bound, converted(bound, inputs_[i]));
    }
    worker.inputs.push_back(std::move(bound));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs_[k]) continue;
    worker.outputs[k] = part_of(outputs[k], *outputs_[k], part);
    if (is_aligned(worker.outputs[k])) continue;
    if (!worker.spare[k].data) {
      CONVOY_TRY(worker.spare[k], HostTensor::allocate(*outputs_[k]));
    }
    worker.outputs[k] = worker.spare[k];
  }
  return {};
}

TensorDesc GraphSession::whole(TensorDesc part) const {
  if (part_count_ == 1) return part;
  Dims dims = part.dims;
  dims.front() *= part_count_;
  return TensorDesc::packed(part.type, std::move(dims));
}

void* GraphSession::data_of(Worker& worker, int index) {
  Slot& slot = program_.slots[index];
  switch (slot.home) {
    case Home::arena: {
      const Storage& storage = program_.storages[slot.index];
      const Lane& lane = worker.lanes[static_cast<std::size_t>(storage.place)];
      return static_cast<std::byte*>(lane.arena.data()) + storage.offset + slot.offset;
    }
    case Home::input:
      return worker.inputs[slot.index].data.get();
    case Home::output:
      return worker.outputs[slot.index].data.get();
    case Home::constant:
      return slot.place == 0 ? static_cast<void*>(slot.constant.data.get()) : slot.there.data();
  }
  return nullptr;
}

}  // namespace convoy::network
