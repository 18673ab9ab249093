// One run of a prepared graph, and what it has for itself; several may be under way at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "convoy/network.h"
#include "network/run/dynamic_subgraph.h"
#include "network/run/lower.h"
#include "network/run/recording_team.h"

namespace convoy::network {

// What all runs of a session share: nothing of it changes while they run. Inputs and outputs are those of the program,
// which is of one part of the batch.
struct Prepared {
  Lowered lowered;
  std::vector<const Device*> devices;  // by place
  std::vector<TensorDesc> inputs;
  std::vector<std::string> input_names, output_names;
  std::vector<std::optional<TensorDesc>> outputs;           // nothing for those of the dynamic subgraph
  std::vector<NetworkStep> steps;                           // the program's, and the dynamic subgraph's rows
  std::unique_ptr<const DynamicSubgraph> dynamic_subgraph;  // null: none. Goes with one part.
  int threads = 1;
  BatchParts parts;
  std::int64_t part_count = 1;    // what the program is run for in a run
  int home = 0;                   // of devices: where the network lives
  bool graphs = true;             // elsewhere than on the processor: steps in a row are recorded
  bool synchronous = false;       // there: each step is waited for
  std::uint64_t lineup = 0;       // which candidates run: another number, another lineup
  std::size_t most_recorded = 8;  // sets of pointers, of which a run keeps the graphs

  const Program& program() const { return lowered.program; }
  // How many parts run side by side.
  std::int64_t side_by_side() const { return parts.a_thread_each ? std::min<std::int64_t>(threads, part_count) : 1; }
};

// What a recorded step takes of a device's memory: an estimate, since no driver says it.
inline constexpr std::size_t kGraphBytesOfStep = 8 << 10;

// A context for the calling thread in each device but the processor; while it lives, their queues may be used.
using Entered = std::vector<std::shared_ptr<void>>;
Result<Entered> enter(std::span<const Device* const> devices);

class Execution {
 public:
  // `prepared` outlives it; `team` is of as many threads.
  static Result<std::unique_ptr<Execution>> make(const Prepared& prepared, std::shared_ptr<ThreadTeam> team);
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  ~Execution();  // waits for what was enqueued

  // Outputs have their memory, but for the dynamic subgraph's, which get it here. `recordings`: none, or one for each
  // of the parts that run side by side. One run at a time.
  Result<void> run(std::span<const HostTensor> inputs, std::span<HostTensor> outputs, RunStatistics* statistics,
                   std::span<RecordingTeam> recordings);

  // The same on tensors that lie at home, enqueued and not waited for. All steps are there. One call at a time; what
  // the next one enqueues begins when this is done.
  Result<void> enqueue(std::span<const void* const> inputs, std::span<void* const> outputs, CudaQueue& queue);
  // The same into a queue that the caller records (Device::is_recorded). Nothing else may be asked of it then.
  Result<void> enqueue_recorded(std::span<const void* const> inputs, std::span<void* const> outputs, CudaQueue& queue);

  // How well it serves a run on this stream (nothing: on its own): the work before would be waited for there, or there
  // is none under way, or it was on this stream.
  enum class Fit { waits, idle, same_stream };
  Fit fit(std::optional<const void*> stream) const;
  std::size_t graph_bytes() const { return graph_bytes_; }

 private:
  // The stretches of steps in a row at home, as they were recorded for tensors that lie there: their pointers; none:
  // the processor's, which are copied.
  struct Recorded {
    std::vector<const void*> pointers;
    std::uint64_t lineup = 0;  // of candidates (Prepared)
    bool timed = false;        // with a mark at each step
    bool is_for(const Recorded& run) const {
      return pointers == run.pointers && lineup == run.lineup && timed == run.timed;
    }
    std::vector<std::unique_ptr<Recording>> stretches;  // by stretch; null: not yet
    std::uint64_t used = 0;
  };
  struct Stretch {
    std::size_t first = 0, end = 0;  // steps
  };
  // Where things of the run under way are.
  struct Bound {
    Queue* queue = nullptr;               // at home; null: the worker's own
    std::span<const void* const> inputs;  // there
    std::span<void* const> outputs;
    bool recorded = false;  // by the caller
    bool here() const { return queue != nullptr; }
  };

  // A place's queue and memory.
  struct Lane {
    Queue* queue = nullptr;
    std::unique_ptr<Queue> own = {};  // of a place other than the processor
    Buffer arena = {};
    Buffer workspace = {};
  };
  using Clock = std::chrono::steady_clock;
  // What a part needs while it runs; as many as run side by side.
  struct Worker {
    ThreadTeam* team = nullptr;
    std::vector<Lane> lanes;         // by place
    std::vector<std::byte*> inputs;  // of the part under way
    std::vector<std::byte*> outputs;
    // Copies: of outputs whose part does not begin at a cache line; with a home elsewhere of all, in memory that it
    // copies from and to.
    std::vector<HostTensor> spare, spare_inputs;
    Bound bound;
    std::vector<Recorded> recorded;
    std::uint64_t runs = 0;
    std::unique_ptr<Mark> begin, end;          // of what runs at home
    std::vector<std::unique_ptr<Mark>> marks;  // of timed runs: where each step of a stretch begins, and the last ends
    std::set<std::uint64_t> ran;               // lineups
    bool pending = false;                      // `end` says when what was enqueued last is done
    double device_seconds = 0;
    std::vector<double> step_seconds;
    Clock::time_point begun;      // the step under way, where it is timed: when the one before it ended
    std::vector<const void*> in;  // of the step under way
    std::vector<void*> out;
    RecordingTeam* recording = nullptr;  // in place of the team, to hear what its threads do; null: nobody asks
  };

  Execution(const Prepared& prepared, std::shared_ptr<ThreadTeam> team);
  Result<void> allocate();
  Result<void> run_part(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                        std::span<HostTensor> outputs, bool timed);
  Result<void> run_steps(Worker& worker, bool timed);
  Result<void> run_step(Worker& worker, std::size_t s, bool timed);
  Result<bool> make_marks(Worker& worker) const;
  Result<void> read_marks(Worker& worker, const Stretch& stretch) const;
  std::vector<Stretch> stretches(bool bound) const;
  Result<Recorded*> recorded(Worker& worker, bool timed);
  Result<void> finish_enqueued(Worker& worker) const;
  Result<void> run_stretch(Worker& worker, const Stretch& stretch, std::unique_ptr<Recording>* recording, bool timed);
  static std::size_t bytes_of_graph(const Stretch& stretch) {
    return (stretch.end - stretch.first) * kGraphBytesOfStep;
  }
  Result<void> set_mark(Worker& worker, std::unique_ptr<Mark>& mark) const;
  Queue& home_queue(const Worker& worker) const;
  Result<HostTensor> allocate_spare(const TensorDesc& desc) const;
  Result<void> finish(Worker& worker) const;
  Result<void> run_dynamic_subgraph(Worker& worker, std::span<HostTensor> outputs, bool timed);
  Result<void> bind(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                    std::span<const HostTensor> outputs) const;
  void* data_of(const Worker& worker, int slot) const;

  const Prepared& prepared_;
  std::shared_ptr<ThreadTeam> team_;
  std::vector<Stretch> stretches_, all_steps_;  // of runs on the processor's tensors, and on those at home
  std::unique_ptr<ThreadTeam> one_thread_ = make_cpu_team(1);  // the calling one, for steps that have it alone
  bool calls_team_ = false;                                    // does any step
  std::vector<Worker> workers_;
  std::optional<const void*> stream_;         // of the run that was enqueued last
  std::atomic<std::size_t> graph_bytes_ = 0;  // by estimate
};

}  // namespace convoy::network
