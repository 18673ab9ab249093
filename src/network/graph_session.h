// A lowered program and the memory that its runs need.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/network.h"
#include "network/lower.h"
#include "network/recording_team.h"
#include "network/tail.h"

namespace convoy::network {

class GraphSession final : public SwitchableSession {
 public:
  // What it is made of. Inputs and outputs are those of the program, which is of one part of the batch.
  struct Content {
    Lowered lowered;
    std::vector<TensorDesc> inputs;
    std::vector<std::string> input_names;
    std::vector<std::optional<TensorDesc>> outputs;  // nothing for those of the tail
    std::unique_ptr<Tail> tail;                      // null: none. Goes with one part.
    std::shared_ptr<ThreadTeam> team;
    std::vector<std::string> remarks;
    BatchParts parts;
    std::int64_t part_count = 1;  // what the program is run for in a run
  };
  explicit GraphSession(Content content);

  // Queues and memory, and constants that are read elsewhere than on the processor. Before anything else.
  Result<void> allocate(std::span<const Place> places);

  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, RunStatistics* statistics) override;
  Result<RunTrace> trace(std::span<const HostTensor> inputs) override;
  void use(std::size_t i, std::size_t candidate) override;

  const std::vector<NetworkStep>& steps() const override { return steps_; }
  std::vector<ActivationBuffer> activations() const override;
  const std::vector<std::string>& remarks() const override { return remarks_; }
  BatchParts parts() const override { return parts_; }
  int turns() const override;
  std::size_t activation_bytes() const override;
  std::size_t weight_bytes() const override { return program_.weight_bytes; }
  std::size_t workspace_bytes() const override;

 private:
  using Entered = std::vector<std::shared_ptr<void>>;

  // A place's queue and memory.
  struct Lane {
    const Device* device = nullptr;
    Queue* queue = nullptr;
    std::unique_ptr<Queue> own = {};  // of a place other than the processor
    Buffer arena = {};
    Buffer workspace = {};
  };
  // What a part needs while it runs; as many as run side by side.
  struct Worker {
    ThreadTeam* team = nullptr;
    std::vector<Lane> lanes;         // by place
    std::vector<HostTensor> inputs;  // of the part under way
    std::vector<HostTensor> outputs;
    std::vector<HostTensor> spare;  // of outputs whose part does not begin at a cache line
    std::vector<double> step_seconds;
    RecordingTeam* recording = nullptr;  // in place of the team, to hear what its threads do; null: nobody asks
  };

  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, RunStatistics* statistics,
                                      std::span<RecordingTeam> recordings);
  Result<void> run_part(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                        std::span<HostTensor> outputs, bool timed);
  Result<void> run_steps(Worker& worker, bool timed);
  Result<void> run_tail(Worker& worker, std::span<HostTensor> outputs, bool timed);
  Result<Entered> enter() const;
  Result<void> check_inputs(std::span<const HostTensor> inputs) const;
  Result<void> bind(Worker& worker, std::int64_t part, std::span<const HostTensor> inputs,
                    std::span<const HostTensor> outputs) const;
  TensorDesc whole(TensorDesc part) const;
  void* data_of(Worker& worker, int slot);

  Program program_;
  std::vector<int> export_slots_;
  std::vector<TensorDesc> inputs_;
  std::vector<std::string> input_names_;
  std::vector<std::optional<TensorDesc>> outputs_;
  std::unique_ptr<Tail> tail_;
  std::shared_ptr<ThreadTeam> team_;
  BatchParts parts_;
  std::int64_t part_count_;
  bool calls_team_ = false;                                    // does any step
  std::unique_ptr<ThreadTeam> one_thread_ = make_cpu_team(1);  // the calling one, for steps that have it alone
  std::vector<std::string> remarks_;
  std::vector<NetworkStep> steps_;
  std::vector<Worker> workers_;
};

}  // namespace convoy::network
