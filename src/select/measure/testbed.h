// Where one problem's candidates run to be measured: the problem's data there, one output, one workspace for all of
// them. No policy. On the CPU it is this process's memory; on a GPU the device's, and times are those of events.
#pragma once

#include <memory>
#include <span>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"
#include "device/device.h"
#include "engines/reference/reference.h"
#include "select/measure/compare.h"
#include "select/measure/problem_data.h"
#include "select/measure/runner.h"
#include "select/measure/timer.h"

namespace convoy::selection {

class Testbed {
 public:
  virtual ~Testbed() = default;

  // What plans pack once; null where weights come with each execution.
  virtual const void* constant_weights() const { return nullptr; }

  // The output and so many bytes of workspace become NaN bytes, so that what is not written shows; the output its prior
  // values where beta reads them.
  virtual Result<void> poison(std::size_t workspace_bytes);

  // One execution to its end, and its seconds.
  virtual Result<double> run(const ConvPlan& plan) = 0;
  // The same with the caches as they were asked for: a rough time.
  virtual Result<double> timed_run(const ConvPlan& plan) = 0;
  // One execution to its end on another queue of the device: with another number of threads.
  Result<void> run_on(Queue& queue, const ConvPlan& plan);

  // The last run's output: what the oracle says of it, and its bytes, which the next call overwrites.
  virtual Result<Verification> compare(Arithmetic arithmetic);
  Result<const HostTensor*> output();

  // Keeps the last run's output, as what others are compared with where the oracle checks only a sample of them.
  virtual Result<void> keep_output();
  // The last run's output beside the one kept (compare.h), once there was a compare().
  virtual Result<OutputDifference> compare_with_kept(Arithmetic arithmetic);

  // Times the runners side by side (timer.h). On a GPU it also fills in the clocks of their measurements, and ends once
  // the device takes no more calls.
  virtual std::vector<Timing> time(std::span<Runner* const> runners, const TimingOptions& options,
                                   FunctionRef<bool()> keep_going) = 0;

  // Executions for at least `seconds`, one after the other without pauses; how many there were.
  virtual Result<std::int64_t> run_for(const ConvPlan& plan, double seconds) = 0;

 protected:
  // `host_threads` are for the oracle.
  Testbed(const ConvProblem& problem, const Device& device, std::unique_ptr<Queue> queue, std::int64_t oracle_terms,
          int host_threads);

  // The problem's tensors on the device, and what the output holds before an execution.
  virtual ConvArgs args(void* out) const = 0;
  virtual const void* prior() const = 0;
  // The same in the host's memory, for the oracle.
  virtual Result<ProblemData> host_data() = 0;

  Result<void> allocate_output();
  Result<void> execute(const ConvPlan& plan) { return execute(plan, args(out_.data())); }
  Result<void> execute(const ConvPlan& plan, const ConvArgs& args);
  std::size_t output_bytes() const { return static_cast<std::size_t>(problem_.out().bytes()); }

  const ConvProblem problem_;
  const Device& device_;
  std::unique_ptr<Queue> queue_;
  Buffer out_, kept_;
  Scratch workspace_;  // one for all: they run one after the other

 private:
  Result<const Expectation*> expectation();

  const std::int64_t oracle_terms_;
  std::unique_ptr<ThreadTeam> host_team_;
  HostTensor host_out_;
  std::unique_ptr<Expectation> expectation_;  // made when it is first needed
};

// On the request's device. `oracle_terms`: products that an oracle on the CPU may compute, one on a GPU 20 times as
// many; where that is too few for the whole output it checks at least 4,096 elements. `threads` of the host are for
// that. Errors: no memory for the data (with what was needed and what is free), no such device.
Result<std::unique_ptr<Testbed>> make_testbed(const ConvProblem& problem, const PlanRequest& request, CacheState caches,
                                              std::int64_t oracle_terms, std::uint64_t seed = 1);

// Of make_testbed: its two kinds.
Result<std::unique_ptr<Testbed>> make_cpu_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                  CacheState caches, std::int64_t oracle_terms, std::uint64_t seed);
Result<std::unique_ptr<Testbed>> make_cuda_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                   CacheState caches, std::int64_t oracle_terms, std::uint64_t seed);

}  // namespace convoy::selection
