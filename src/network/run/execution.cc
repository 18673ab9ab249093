#include "network/run/execution.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "device/cuda/named_range.h"
#include "device/device.h"

namespace convoy::network {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::uintptr_t kAlignment = 64;  // that plans rely on

bool is_aligned(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data) % kAlignment == 0; }

// The images of one part, of a tensor that has those of all.
std::byte* part_of(const HostTensor& whole, const TensorDesc& desc, std::int64_t part) {
  return part == 0 ? whole.data.get() : whole.data.get() + part * desc.bytes();
}

// Other threads take microseconds to begin. Where the steps are a GPU's they sleep, and to wake all of a large host
// takes a millisecond.
constexpr std::int64_t kWorthSharing = 256 << 10, kWorthWaking = 8 << 20;

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes, ThreadTeam& team, bool awake) {
  if (bytes < (awake ? kWorthSharing : kWorthWaking)) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  parallel_ranges(team, bytes, [&](std::int64_t begin, std::int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
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

// Work that was enqueued reads what goes with it.
Execution::~Execution() {
  const auto entered = enter(prepared_.devices);
  for (Worker& worker : workers_) {
    if (entered.ok()) static_cast<void>(finish_enqueued(worker));
  }
}

Execution::Execution(const Prepared& prepared, std::shared_ptr<ThreadTeam> team)
    : prepared_(prepared), team_(std::move(team)) {
  for (std::size_t s = 0; s < prepared.program().steps.size(); ++s) {
    const ProgramStep& step = prepared.program().steps[s];
    const bool works = prepared.steps[s].kind != "convert";  // an answer's conversion is small
    calls_team_ |= works && team_->size() > 1 && step.threads == Threads::all && step.place == 0;
  }
  calls_team_ &= !prepared.parts.a_thread_each;
  stretches_ = stretches(false);
  all_steps_ = stretches(true);
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
    const auto arena_bytes = static_cast<std::size_t>(std::max<std::int64_t>(needed.arena_bytes, 1));
    const bool crosses = place == 0 && prepared_.home != 0;
    CONVOY_TRY(lane.arena, crosses ? prepared_.devices[static_cast<std::size_t>(prepared_.home)]->allocate_host(
                                         arena_bytes, "activations")
                                   : device.allocate(arena_bytes, "activations"));
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
  const cuda::NamedRange range([] { return "run"; });
  CONVOY_TRY(const Entered entered, enter(prepared_.devices));
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    workers_[w].step_seconds.assign(prepared_.steps.size(), 0);
    workers_[w].recording = recordings.empty() ? nullptr : &recordings[w];
  }
  const bool timed = statistics != nullptr && (statistics->each_step || prepared_.home == 0);
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
    statistics->step_seconds.assign(timed ? prepared_.steps.size() : 0, 0);
    for (const Worker& worker : workers_) {
      for (std::size_t s = 0; s < statistics->step_seconds.size(); ++s) {
        statistics->step_seconds[s] += worker.step_seconds[s] / static_cast<double>(prepared_.part_count);
      }
    }
    if (prepared_.home != 0 && workers_.front().end != nullptr) {
      statistics->device_seconds = workers_.front().device_seconds;
    }
    statistics->seconds = seconds_since(start);
  }
  return {};
}

Result<void> Execution::run_part(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                                 std::span<HostTensor> outputs, bool timed) {
  CONVOY_CHECK(bind(worker, part, inputs, outputs));
  auto done = run_steps(worker, timed);
  // What is still under way reads the processor's memory.
  if (auto finished = finish(worker); done.ok()) done = std::move(finished);
  if (!done.ok()) return done;
  if (worker.begin && worker.end) {
    CONVOY_TRY(worker.device_seconds, worker.end->since(*worker.begin));
  }
  if (prepared_.dynamic_subgraph) CONVOY_CHECK(run_dynamic_subgraph(worker, outputs, timed));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!prepared_.outputs[k]) continue;
    std::byte* const there = part_of(outputs[k], *prepared_.outputs[k], part);
    if (worker.outputs[k] == there) continue;
    copy_bytes(there, worker.outputs[k], prepared_.outputs[k]->bytes(), *worker.team, prepared_.home == 0);
  }
  worker.inputs.clear();
  worker.outputs.clear();
  return {};
}

// Steps in a row that need nothing of the processor. Of tensors at home it is all of them: copies of inputs fall away,
// those of outputs are made there.
std::vector<Execution::Stretch> Execution::stretches(bool bound) const {
  std::vector<Stretch> found;
  const auto& steps = prepared_.program().steps;
  for (std::size_t s = 0; prepared_.home != 0 && s < steps.size(); ++s) {
    if (steps[s].place != prepared_.home || (steps[s].crosses && !bound)) continue;
    if (!found.empty() && found.back().end == s) {
      ++found.back().end;
    } else {
      found.push_back({s, s + 1});
    }
  }
  return found;
}

Queue& Execution::home_queue(const Worker& worker) const {
  return worker.bound.here() ? *worker.bound.queue : *worker.lanes[static_cast<std::size_t>(prepared_.home)].queue;
}

Result<void> Execution::finish(Worker& worker) const {
  for (std::size_t place = 1; place < worker.lanes.size(); ++place) CONVOY_CHECK(worker.lanes[place].queue->finish());
  return {};
}

// What was enqueued on streams of the caller's.
Result<void> Execution::finish_enqueued(Worker& worker) const {
  if (worker.end == nullptr) return {};
  CONVOY_TRY(const bool reached, worker.end->reached());
  if (reached) return {};
  Queue& own = *worker.lanes[static_cast<std::size_t>(prepared_.home)].queue;
  CONVOY_CHECK(worker.end->hold(own));
  return own.finish();
}

Result<void> Execution::set_mark(Worker& worker, std::unique_ptr<Mark>& mark) const {
  if (mark == nullptr) {
    CONVOY_TRY(mark, prepared_.devices[static_cast<std::size_t>(prepared_.home)]->make_mark());
  }
  return mark == nullptr ? Result<void>() : mark->set(home_queue(worker));
}

// Null: this run is the first with these pointers, or of this lineup where it is timed, and goes step by step, so that
// whatever is made at a first use is there when a run is recorded.
Result<Execution::Recorded*> Execution::recorded(Worker& worker, bool timed) {
  const bool first = worker.ran.insert(prepared_.lineup).second;
  Recorded own{.lineup = prepared_.lineup, .timed = timed};
  own.pointers.assign(worker.bound.inputs.begin(), worker.bound.inputs.end());
  own.pointers.insert(own.pointers.end(), worker.bound.outputs.begin(), worker.bound.outputs.end());
  const auto same = std::ranges::find_if(worker.recorded, [&](const Recorded& each) { return each.is_for(own); });
  if (same != worker.recorded.end()) {
    same->used = worker.runs;
    return &*same;
  }
  if (worker.recorded.size() >= prepared_.most_recorded) {
    // A graph's library handles go to others with it, so it must not be under way.
    CONVOY_CHECK(finish_enqueued(worker));
    const auto least = std::ranges::min_element(worker.recorded, {}, &Recorded::used);
    const std::vector<Stretch>& own = least->pointers.empty() ? stretches_ : all_steps_;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (least->stretches[i] != nullptr) graph_bytes_ -= bytes_of_graph(own[i]);
    }
    worker.recorded.erase(least);
  }
  own.used = worker.runs;
  own.stretches.resize((worker.bound.here() ? all_steps_ : stretches_).size());
  Recorded& made = worker.recorded.emplace_back(std::move(own));
  return timed && !first ? &made : static_cast<Recorded*>(nullptr);
}

// One after the other, or as they were recorded. With marks at each where it is timed.
Result<void> Execution::run_stretch(Worker& worker, const Stretch& stretch, std::unique_ptr<Recording>* recording,
                                    bool timed) {
  const auto run_all = [&]() -> Result<void> {
    Queue& queue = home_queue(worker);
    const auto mark = [&](std::size_t s) -> Result<void> {
      if (!timed) return {};
      return recording != nullptr ? worker.marks[s]->set_in_recording(queue) : worker.marks[s]->set(queue);
    };
    for (std::size_t s = stretch.first; s < stretch.end; ++s) {
      CONVOY_CHECK(mark(s));
      CONVOY_CHECK(run_step(worker, s, false));
    }
    return mark(stretch.end);
  };
  if (recording == nullptr) return run_all();
  if (*recording == nullptr) {
    const auto start = Clock::now();
    const cuda::NamedRange range([] { return "record"; });
    const auto home = static_cast<std::size_t>(prepared_.home);
    // In a queue of its own: CUDA captures neither the default stream nor what its owner captures.
    Queue& own = *worker.lanes[home].queue;
    Queue* const given = std::exchange(worker.bound.queue, worker.bound.here() ? &own : nullptr);
    auto made = prepared_.devices[home]->record(own, run_all);
    worker.bound.queue = given;
    const std::string what = "steps " + std::to_string(stretch.first) + " to " + std::to_string(stretch.end - 1);
    if (!made.ok()) return made.error().within("recording " + what + " (without graphs they run one by one)");
    *recording = std::move(*made);
    if (*recording == nullptr) {
      recording = nullptr;
      return run_all();
    }
    graph_bytes_ += bytes_of_graph(stretch);
    log(LogLevel::info, "record",
        {{"steps", what},
         {"pointers", worker.bound.here() ? "given" : "own"},
         {"timed", timed ? "yes" : "no"},
         {"seconds", std::to_string(seconds_since(start))}});
  }
  const cuda::NamedRange range([] { return "launch"; });
  return (*recording)->enqueue(home_queue(worker));
}

// False: the device has none.
Result<bool> Execution::make_marks(Worker& worker) const {
  const Device& home = *prepared_.devices[static_cast<std::size_t>(prepared_.home)];
  const std::size_t needed = prepared_.program().steps.size() + 1;
  while (worker.marks.size() < needed) {
    CONVOY_TRY(auto mark, home.make_mark());
    if (mark == nullptr) return false;
    worker.marks.push_back(std::move(mark));
  }
  return true;
}

// What the steps of a stretch took, which is waited for, so that what follows it is timed alone.
Result<void> Execution::read_marks(Worker& worker, const Stretch& stretch) const {
  CONVOY_CHECK(home_queue(worker).finish());
  const double end = worker.recording != nullptr ? worker.recording->now() : 0;
  for (std::size_t s = stretch.first; s < stretch.end; ++s) {
    CONVOY_TRY(const double seconds, worker.marks[s + 1]->since(*worker.marks[s]));
    worker.step_seconds[s] += seconds;
    if (worker.recording == nullptr) continue;
    CONVOY_TRY(const double behind, worker.marks[stretch.end]->since(*worker.marks[s + 1]));
    worker.recording->add_step(static_cast<int>(s), end - behind - seconds, end - behind);
  }
  return {};
}

Result<void> Execution::run_steps(Worker& worker, bool timed) {
  const Program& program = prepared_.program();
  const std::vector<Stretch>& own = worker.bound.here() ? all_steps_ : stretches_;
  bool marks = timed && !own.empty() && !prepared_.synchronous;  // else each step is waited for
  if (marks) {
    CONVOY_TRY(marks, make_marks(worker));
  }
  const bool records = prepared_.graphs && !prepared_.synchronous && (!timed || marks) && !worker.bound.recorded;
  ++worker.runs;
  if (worker.pending) CONVOY_CHECK(worker.end->hold(home_queue(worker)));
  worker.pending = false;
  Recorded* known = nullptr;
  if (!own.empty() && records) {
    CONVOY_TRY(known, recorded(worker, timed));
  }
  std::size_t next = 0;  // stretch
  if (timed) worker.begun = Clock::now();
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const bool begins = next < own.size() && own[next].first == s;
    if (begins && next == 0 && !worker.bound.recorded) CONVOY_CHECK(set_mark(worker, worker.begin));
    if (begins && (known != nullptr || marks)) {
      CONVOY_CHECK(run_stretch(worker, own[next], known != nullptr ? &known->stretches[next] : nullptr, marks));
      s = own[next].end - 1;
    } else {
      CONVOY_CHECK(run_step(worker, s, timed));
    }
    if (next == own.size() || own[next].end != s + 1) continue;
    if (next + 1 == own.size() && !worker.bound.recorded) CONVOY_CHECK(set_mark(worker, worker.end));
    if (marks) CONVOY_CHECK(read_marks(worker, own[next]));
    if (timed) worker.begun = Clock::now();
    ++next;
  }
  for (const OutputCopy& copy : program.copies) {
    const auto k = static_cast<std::size_t>(copy.output);
    std::memcpy(worker.outputs[k], data_of(worker, copy.slot), static_cast<std::size_t>(prepared_.outputs[k]->bytes()));
  }
  return {};
}

Result<void> Execution::run_step(Worker& worker, std::size_t s, bool timed) {
  const ProgramStep& step = prepared_.program().steps[s];
  const cuda::NamedRange range([&] { return prepared_.steps[s].nodes + ": " + prepared_.steps[s].implementation; });
  std::vector<const void*>& in = worker.in;
  std::vector<void*>& out = worker.out;
  in.clear();
  out.clear();
  for (int slot : step.inputs) in.push_back(slot == kAbsent ? nullptr : data_of(worker, slot));
  for (int slot : step.outputs) out.push_back(slot == kAbsent ? nullptr : data_of(worker, slot));
  const Lane& lane = worker.lanes[static_cast<std::size_t>(step.place)];
  ThreadTeam& team = step.threads == Threads::one ? *one_thread_ : *worker.team;
  RecordingTeam* const recording = timed ? worker.recording : nullptr;
  if (recording) recording->begin_step(static_cast<int>(s), team);
  Queue& on_processor = recording ? static_cast<Queue&>(*recording) : team;
  Queue& queue = step.place == 0 ? on_processor : step.place == prepared_.home ? home_queue(worker) : *lane.queue;
  const auto copied_there = [&]() -> Result<void> {
    if (out[0] == in[0]) return {};  // an input
    const TensorDesc& desc = prepared_.program().slots[step.inputs[0]].desc;
    return queue.copy(out[0], in[0], static_cast<std::size_t>(desc.bytes()));
  };
  auto done = step.crosses && worker.bound.here()
                  ? copied_there()
                  : step.running().execute(in, out, {queue, lane.workspace.data(), lane.workspace.bytes()});
  if (done.ok() && (timed || prepared_.synchronous) && !worker.bound.recorded)
    done = queue.finish();  // so that its time, or error, is the step's
  if (!done.ok()) return done.error().within("step " + std::to_string(s) + " (" + prepared_.steps[s].nodes + ")");
  if (timed) {
    const Clock::time_point now = Clock::now();
    worker.step_seconds[s] += std::chrono::duration<double>(now - std::exchange(worker.begun, now)).count();
  }
  if (recording) recording->end_step();
  return {};
}

Execution::Fit Execution::fit(std::optional<const void*> stream) const {
  const Worker& worker = workers_.front();
  if (stream && stream == stream_) return Fit::same_stream;
  if (!worker.pending) return Fit::idle;
  const auto reached = worker.end->reached();
  return reached.ok() && *reached ? Fit::idle : Fit::waits;
}

Result<void> Execution::enqueue_recorded(std::span<const void* const> inputs, std::span<void* const> outputs,
                                         CudaQueue& queue) {
  const cuda::NamedRange range([] { return "enqueue"; });
  Worker& worker = workers_.front();
  worker.bound = {&queue, inputs, outputs, true};
  worker.recording = nullptr;
  auto done = run_steps(worker, false);
  worker.bound = {};
  return done;
}

Result<void> Execution::enqueue(std::span<const void* const> inputs, std::span<void* const> outputs, CudaQueue& queue) {
  const cuda::NamedRange range([] { return "enqueue"; });
  Worker& worker = workers_.front();
  stream_ = queue.stream();
  worker.bound = {&queue, inputs, outputs};
  worker.recording = nullptr;
  auto done = run_steps(worker, false);
  // What was enqueued uses this memory, though not all of it may be there.
  if (auto marked = set_mark(worker, worker.end); done.ok()) done = std::move(marked);
  worker.pending = worker.end != nullptr;
  worker.bound = {};
  return done;
}

Result<HostTensor> Execution::allocate_spare(const TensorDesc& desc) const {
  if (prepared_.home == 0) return HostTensor::allocate(desc);
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(desc.bytes(), 1));
  CONVOY_TRY(const Buffer buffer,
             prepared_.devices[static_cast<std::size_t>(prepared_.home)]->allocate_host(bytes, "inputs and outputs"));
  return HostTensor{desc, std::shared_ptr<std::byte>(buffer.share(), static_cast<std::byte*>(buffer.data()))};
}

Result<void> Execution::run_dynamic_subgraph(Worker& worker, std::span<HostTensor> outputs, bool timed) {
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
  CONVOY_TRY(std::vector<HostTensor> made, prepared_.dynamic_subgraph->run(exports, *worker.team, seconds));
  const auto which = prepared_.dynamic_subgraph->outputs();
  for (std::size_t i = 0; i < which.size(); ++i) outputs[which[i]] = std::move(made[i]);
  if (worker.recording) worker.recording->end_step();
  return {};
}

// Memory from elsewhere, and parts of it, may begin anywhere: then a copy is read, or written.
Result<void> Execution::bind(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                             std::span<const HostTensor> outputs) const {
  const bool elsewhere = prepared_.home != 0;
  worker.inputs.clear();
  worker.outputs.assign(outputs.size(), nullptr);
  worker.spare.resize(outputs.size());
  worker.spare_inputs.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::byte* bound = part_of(inputs[i], prepared_.inputs[i], part);
    if (elsewhere || !is_aligned(bound)) {
      if (!worker.spare_inputs[i].data) {
        CONVOY_TRY(worker.spare_inputs[i], allocate_spare(prepared_.inputs[i]));
      }
      std::byte* const copy = worker.spare_inputs[i].data.get();
      copy_bytes(copy, bound, prepared_.inputs[i].bytes(), *worker.team, !elsewhere);
      bound = copy;
    }
    worker.inputs.push_back(bound);
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!prepared_.outputs[k]) continue;
    worker.outputs[k] = part_of(outputs[k], *prepared_.outputs[k], part);
    if (!elsewhere && is_aligned(worker.outputs[k])) continue;
    if (!worker.spare[k].data) {
      CONVOY_TRY(worker.spare[k], allocate_spare(*prepared_.outputs[k]));
    }
    worker.outputs[k] = worker.spare[k].data.get();
  }
  return {};
}

void* Execution::data_of(const Worker& worker, int index) const {
  const Slot& slot = prepared_.program().slots[index];
  if (worker.bound.here()) {
    const int input = slot.home == Home::input ? slot.index : slot.copy_of;
    if (input >= 0) return const_cast<void*>(worker.bound.inputs[static_cast<std::size_t>(input)]);
    if (slot.home == Home::output) return worker.bound.outputs[static_cast<std::size_t>(slot.index)];
  }
  switch (slot.home) {
    case Home::arena: {
      const Storage& storage = prepared_.program().storages[slot.index];
      const Lane& lane = worker.lanes[static_cast<std::size_t>(storage.place)];
      return static_cast<std::byte*>(lane.arena.data()) + storage.offset + slot.offset;
    }
    case Home::input:
      return worker.inputs[slot.index];
    case Home::output:
      return worker.outputs[slot.index];
    case Home::constant:
      return slot.place == 0 ? static_cast<void*>(slot.constant.data.get()) : slot.there.data();
  }
  return nullptr;
}

}  // namespace convoy::network
