// Where one problem's candidates run to be measured: the problem's data there, one output, one workspace for all of
// them. No policy. On the CPU it is this process's memory; on a GPU the device's, and times are those of events.
#pragma once

#include <memory>
#include <span>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"
#include "engines/reference/reference.h"
#include "select/measure/compare.h"
#include "select/measure/timer.h"

namespace convoy::selection {

// A candidate that was planned, with what is known of it.
struct Runner {
  std::unique_ptr<ConvPlan> plan;  // null where it failed
  Measurement measurement;
};

class Testbed {
 public:
  virtual ~Testbed() = default;

  // What plans pack once; null where weights come with each execution.
  virtual const void* constant_weights() const = 0;

  // The output and so many bytes of workspace become NaN bytes, so that what is not written shows; the output its prior
  // values where beta reads them.
  virtual Result<void> soil(std::size_t workspace_bytes) = 0;

  // One execution to its end, and its seconds.
  virtual Result<double> run(const ConvPlan& plan) = 0;
  // The same with the caches as they were asked for: a rough time.
  virtual Result<double> timed_run(const ConvPlan& plan) = 0;

  // The last run's output: what the oracle says of it, and its bytes, which the next call overwrites.
  virtual Result<Verification> compare(Arithmetic arithmetic) = 0;
  virtual Result<const HostTensor*> output() = 0;

  // Keeps the last run's output, as what others are compared with where the oracle checks only a sample of them.
  virtual Result<void> keep_output() = 0;
  // The last run's output beside the one kept (compare.h).
  virtual Result<Comparison> compare_with_kept(Arithmetic arithmetic) = 0;
  // Expectation::tolerances, once there was a compare().
  virtual std::vector<double> tolerances(Arithmetic arithmetic) const = 0;

  // Times the runners side by side (timer.h). On a GPU it also fills in the clocks of their measurements, and ends once
  // the device takes no more calls.
  virtual std::vector<Timing> time(std::span<Runner* const> runners, const TimingOptions& options,
                                   FunctionRef<bool()> keep_going) = 0;

  // Executions for at least `seconds`, one after the other without pauses; how many there were.
  virtual Result<std::int64_t> run_for(const ConvPlan& plan, double seconds) = 0;
};

// As request.cuda says. `oracle_terms`: products that an oracle on the CPU may compute; where that is too few for the
// whole output it checks at least 4,096 elements. `threads` of the host are for that. Errors: no memory for the data
// (with what was needed and what is free), no such device.
Result<std::unique_ptr<Testbed>> make_testbed(const ConvProblem& problem, const PlanRequest& request, CacheState caches,
                                              std::int64_t oracle_terms, std::uint64_t seed = 1);

// Of make_testbed: its two kinds.
Result<std::unique_ptr<Testbed>> make_cpu_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                  CacheState caches, std::int64_t oracle_terms, std::uint64_t seed);
Result<std::unique_ptr<Testbed>> make_cuda_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                   CacheState caches, std::int64_t oracle_terms, std::uint64_t seed);

}  // namespace convoy::selection
