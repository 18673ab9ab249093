#include "network/run/execution.h"

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

Result<Entered> enter(std::span<const Device* const> devices) {
  Entered entered;
  for (std::size_t place = 1; place < devices.size(); ++place) {
    CONVOY_TRY(auto scope, devices[place]->enter());
    entered.push_back(std::move(scope));
  }
  return entered;
}

Result<std::unique_ptr<Execution>> Execution::make(const Prepared& prepared, std::shared_ptr<ThreadTeam> team) {
  std::unique_ptr<Execution> made(new Execution(prepared, std::move(team)));
  CONVOY_CHECK(made->allocate());
  return made;
}

Execution::Execution(const Prepared& prepared, std::shared_ptr<ThreadTeam> team)
    : prepared_(prepared), team_(std::move(team)) {
  for (std::size_t s = 0; s < prepared.program().steps.size(); ++s) {
    const ProgramStep& step = prepared.program().steps[s];
    const bool works = prepared.steps[s].kind != "convert";  // an answer's conversion is small
    calls_team_ |= works && team_->size() > 1 && step.threads == Threads::all && step.place == 0;
  }
  calls_team_ &= !prepared.parts.a_thread_each;
  workers_.resize(static_cast<std::size_t>(prepared.side_by_side()));
  for (Worker& worker : workers_) worker.team = prepared.parts.a_thread_each ? one_thread_.get() : team_.get();
}

Result<void> Execution::allocate() {
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  const auto make = [&](Worker& worker, std::size_t place) -> Result<void> {
    const Footprint& needed = prepared_.program().footprints[place];
    const Device& device = *prepared_.devices[place];
    Lane& lane = worker.lanes.emplace_back();
    if (place > 0) {
      CONVOY_TRY(lane.own, device.make_queue(1));
    }
    lane.queue = place == 0 ? worker.team : lane.own.get();
    const std::int64_t arena_bytes = std::max<std::int64_t>(needed.arena_bytes, 1);
    CONVOY_TRY(lane.arena, device.allocate(static_cast<std::size_t>(arena_bytes), "activations"));
    CONVOY_TRY(lane.workspace, device.allocate(needed.workspace_bytes, "the workspace"));
    return {};
  };
  for (Worker& worker : workers_) {
    for (std::size_t place = 0; place < prepared_.devices.size(); ++place) CONVOY_CHECK(make(worker, place));
  }
  return {};
}

Result<void> Execution::run(std::span<const HostTensor> inputs, std::span<HostTensor> outputs,
                            RunStatistics* statistics, std::span<RecordingTeam> recordings) {
  const auto start = Clock::now();
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    workers_[w].step_seconds.assign(prepared_.steps.size(), 0);
    workers_[w].recording = recordings.empty() ? nullptr : &recordings[w];
  }
  const bool timed = statistics != nullptr;
  // Awake and each on a processor of its own: oneDNN calls the same threads, but sees to neither.
  if (calls_team_) team_->run([](int) {});
  if (prepared_.parts.a_thread_each) {
    // Who is late finds the parts taken that others could begin in the meantime.
    std::atomic<std::int64_t> next = 0;
    std::vector<Result<void>> done(workers_.size());
    team_->run([&](int thread) {
      const auto w = static_cast<std::size_t>(thread);
      if (w >= workers_.size()) return;
      for (std::int64_t part = next++; part < prepared_.part_count && done[w].ok(); part = next++) {
        done[w] = run_part(workers_[w], part, inputs, outputs, timed);
      }
    });
    for (const Result<void>& each : done) CONVOY_CHECK(each);
  } else {
    for (std::int64_t part = 0; part < prepared_.part_count; ++part) {
      CONVOY_CHECK(run_part(workers_.front(), part, inputs, outputs, timed));
    }
  }
  if (statistics) {
    statistics->step_seconds.assign(prepared_.steps.size(), 0);
    for (const Worker& worker : workers_) {
      for (std::size_t s = 0; s < prepared_.steps.size(); ++s) {
        statistics->step_seconds[s] += worker.step_seconds[s] / static_cast<double>(prepared_.part_count);
      }
    }
    statistics->seconds = seconds_since(start);
  }
  return {};
}

Result<void> Execution::run_part(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                                 std::span<HostTensor> outputs, bool timed) {
  CONVOY_CHECK(bind(worker, part, inputs, outputs));
  CONVOY_CHECK(run_steps(worker, timed));
  if (prepared_.tail) CONVOY_CHECK(run_tail(worker, outputs, timed));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!prepared_.outputs[k]) continue;
    const HostTensor there = part_of(outputs[k], *prepared_.outputs[k], part);
    const HostTensor& made = worker.outputs[k];
    if (made.data != there.data) {
      std::memcpy(there.data.get(), made.data.get(), static_cast<std::size_t>(made.desc.bytes()));
    }
  }
  worker.inputs.clear();
  worker.outputs.clear();
  return {};
}

Result<void> Execution::run_steps(Worker& worker, bool timed) {
  const Program& program = prepared_.program();
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
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
    if (!done.ok()) return done.error().within("step " + std::to_string(s) + " (" + prepared_.steps[s].nodes + ")");
    if (timed) worker.step_seconds[s] += seconds_since(step_start);
    if (worker.recording) worker.recording->end_step();
  }
  for (const OutputCopy& copy : program.copies) {
    const HostTensor& output = worker.outputs[static_cast<std::size_t>(copy.output)];
    std::memcpy(output.data.get(), data_of(worker, copy.slot), static_cast<std::size_t>(output.desc.bytes()));
  }
  return {};
}

Result<void> Execution::run_tail(Worker& worker, std::span<HostTensor> outputs, bool timed) {
  const Program& program = prepared_.program();
  const std::size_t first = program.steps.size();
  if (worker.recording) worker.recording->begin_step(static_cast<int>(first), *team_);
  std::vector<HostTensor> exports;
  for (int slot : prepared_.lowered.export_slots) {
    auto* data = static_cast<std::byte*>(data_of(worker, slot));
    const TensorDesc& desc = program.slots[slot].desc;
    exports.push_back({TensorDesc::packed(desc.type, desc.dims),
                       std::shared_ptr<std::byte>(worker.lanes.front().arena.share(), data)});
  }
  const auto seconds = timed ? std::span(worker.step_seconds).subspan(first) : std::span<double>();
  CONVOY_TRY(std::vector<HostTensor> made, prepared_.tail->run(exports, *worker.team, seconds));
  const auto which = prepared_.tail->outputs();
  for (std::size_t i = 0; i < which.size(); ++i) outputs[which[i]] = std::move(made[i]);
  if (worker.recording) worker.recording->end_step();
  return {};
}

// Memory from elsewhere, and parts of it, may begin anywhere: then a copy is read, or written.
Result<void> Execution::bind(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                             std::span<const HostTensor> outputs) const {
  worker.inputs.clear();
  worker.outputs.assign(outputs.size(), {});
  worker.spare.resize(outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HostTensor bound = part_of(inputs[i], prepared_.inputs[i], part);
    if (!is_aligned(bound)) {
      CONVOY_TRY(bound, converted(bound, prepared_.inputs[i]));
    }
    worker.inputs.push_back(std::move(bound));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!prepared_.outputs[k]) continue;
    worker.outputs[k] = part_of(outputs[k], *prepared_.outputs[k], part);
    if (is_aligned(worker.outputs[k])) continue;
    if (!worker.spare[k].data) {
      CONVOY_TRY(worker.spare[k], HostTensor::allocate(*prepared_.outputs[k]));
    }
    worker.outputs[k] = worker.spare[k];
  }
  return {};
}

void* Execution::data_of(const Worker& worker, int index) const {
  const Slot& slot = prepared_.program().slots[index];
  switch (slot.home) {
    case Home::arena: {
      const Storage& storage = prepared_.program().storages[slot.index];
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
