// A prepared graph: what its runs share, and a pool of what each of them needs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "convoy/network.h"
#include "network/run/execution_pool.h"

namespace convoy::network {

class GraphSession final : public SwitchableSession {
 public:
  struct Settings {
    std::shared_ptr<ThreadTeam> team;  // of every run; null: each has one of its own
    bool team_serves_several = false;
    int processors = 1;
    std::optional<std::int64_t> activation_limit{};     // of all runs at once
    std::optional<std::int64_t> device_memory_limit{};  // as NetworkOptions has it
    std::vector<std::string> remarks;
  };
  GraphSession(Prepared prepared, Settings settings);

  // Memory for one run, and constants that are read elsewhere than on the processor. Before anything else.
  Result<void> allocate();

  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, RunStatistics* statistics) override;
  Result<void> run_into(std::span<const HostTensor> inputs, std::span<HostTensor> outputs,
                        RunStatistics* statistics) override;
  Result<void> enqueue(std::span<const void* const> inputs, std::span<void* const> outputs, void* stream) override;
  const std::vector<std::optional<TensorDesc>>& outputs() const override { return outputs_; }
  Result<RunTrace> trace(std::span<const HostTensor> inputs) override;
  void use(std::size_t i, std::size_t candidate) override;

  const std::vector<NetworkStep>& steps() const override { return prepared_.steps; }
  std::vector<ActivationBuffer> activations() const override;
  const std::vector<std::string>& remarks() const override { return settings_.remarks; }
  BatchParts parts() const override { return prepared_.parts; }
  int turns() const override;
  std::size_t activation_bytes() const override;
  std::size_t weight_bytes() const override { return prepared_.program().weight_bytes; }
  std::size_t workspace_bytes() const override;
  int runs_at_once() const override { return pool_.size(); }
  std::size_t device_bytes() const override;

 private:
  Result<void> run(std::span<const HostTensor> inputs, std::span<HostTensor> outputs, RunStatistics* statistics,
                   std::vector<RecordingTeam>* recordings);
  Result<void> check_inputs(std::span<const HostTensor> inputs) const;
  Result<void> check_outputs(std::span<const HostTensor> outputs) const;
  // A run that goes into what the caller records, and what his record needs.
  struct CallersRun {
    std::unique_ptr<Execution> execution;
    std::shared_ptr<void> kept;
  };
  Result<std::unique_ptr<Execution>> make_execution() const;
  Result<void> check_all_at_home() const;
  Result<void> enqueue_recorded(std::span<const void* const> inputs, std::span<void* const> outputs, CudaQueue& queue);
  Result<void> warm_up(Execution& execution);
  const Device& home() const { return *prepared_.devices[static_cast<std::size_t>(prepared_.home)]; }
  std::size_t bytes_of_run() const;
  std::size_t weight_bytes_at_home() const;
  std::string smaller_batch(std::int64_t room) const;
  Result<void> check_device_memory() const;
  Result<void> allocate_there();
  TensorDesc whole(TensorDesc part) const;
  int most_at_once() const;
  std::uint64_t lineup() const;

  Prepared prepared_;
  std::vector<TensorDesc> inputs_;  // of the whole batch
  std::vector<std::optional<TensorDesc>> outputs_;
  Settings settings_;
  ExecutionPool pool_;
  std::atomic<bool> ran_ = false;
  mutable std::mutex mutex_;  // guards callers_
  std::vector<CallersRun> callers_;
};

}  // namespace convoy::network
