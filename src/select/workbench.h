// What measuring one problem's candidates needs: data, an oracle, a team, a workspace. No policy.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "convoy/selection.h"
#include "device/workspace.h"
#include "engines/reference/reference.h"
#include "select/measure/caches.h"
#include "select/measure/energy.h"
#include "select/measure/problem_data.h"
#include "select/measure/timer.h"

namespace convoy::selection {

// A candidate that was planned, with what is known of it.
struct Runner {
  std::unique_ptr<ConvPlan> plan;  // null where it failed
  Measurement measurement;
};

class Workbench {
 public:
  // `oracle_terms`: products that the oracle may compute; where that is too few for the whole output it checks at least
  // 4,096 elements, and candidates are compared whole with the first that passed.
  static Result<Workbench> make(const ConvProblem& problem, std::span<const Engine* const> engines,
                                const PlanRequest& request, CacheState caches, std::int64_t oracle_terms);

  // Roughly what make() and the oracle's part of a first audition take.
  static double setup_seconds(const ConvProblem& problem, int threads, std::int64_t oracle_terms);

  // Plans the candidate. A failure is in the measurement.
  Runner plan(const Candidate& candidate);

  // Runs it once on NaN-filled output and workspace, verifies, and takes a first, rough time. A candidate that fails
  // has `failure` set and loses its plan.
  void audition(Runner& runner);

  // Another rough time; the least counts. For one that seems hopeless: another process may have been in its way.
  void time_again(Runner& runner);

  // Times the runners side by side and fills in their measurements; `complete` where the timer was satisfied.
  void sample(std::span<Runner* const> runners, double budget_seconds, FunctionRef<bool()> keep_going);

  // Energy of one execution, where the machine counts it; runs it for a fifth of a second.
  void measure_energy(Runner& runner, EnergyCounter& counter);

 private:
  Workbench(const ConvProblem& problem, std::span<const Engine* const> engines, const PlanRequest& request,
            CacheState caches, std::int64_t oracle_terms);

  Result<void> try_audition(Runner& runner);
  Result<void> verify(Measurement& measurement);
  Result<void> run(const Runner& runner);
  Result<double> timed_run(const Runner& runner);
  void reset_output();
  const HostTensor& prior() const;
  const Engine* engine_of(const Candidate& candidate) const;

  ConvProblem problem_;
  std::span<const Engine* const> engines_;
  PlanRequest request_;
  CacheState caches_;
  std::int64_t oracle_terms_;
  std::unique_ptr<ThreadTeam> team_;
  Workspace workspace_;  // one for all: they run one after the other
  ProblemData data_;
  HostTensor out_;
  std::unique_ptr<CacheFlusher> flusher_;
  std::unique_ptr<Expectation> expectation_;  // made when it is first needed
  HostTensor trusted_;                        // the output of the first candidate that passed a sampled verification
  Arithmetic trusted_arithmetic_ = Arithmetic::direct;
};

}  // namespace convoy::selection
