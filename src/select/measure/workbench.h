// Measuring one problem's candidates on a testbed: planning, verification, rough and proper times, energy. No policy.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "convoy/selection.h"
#include "select/measure/energy.h"
#include "select/measure/habits.h"
#include "select/measure/planner.h"
#include "select/measure/testbed.h"

namespace convoy::selection {

// Beyond a budget, for a problem's first answer: SelectionOptions::budget_seconds.
inline constexpr double kOvertimeSeconds = 10;

// Products that the oracle may compute: as many as take a tenth of the budget.
std::int64_t oracle_terms(const SelectionOptions& options, int threads);

class Workbench {
 public:
  // `oracle_terms`: products that the oracle may compute; where that is too few for the whole output it checks at least
  // 4,096 elements, and candidates are compared whole with the first that passed.
  static Result<Workbench> make(const ConvProblem& problem, std::span<const Engine* const> engines,
                                const PlanRequest& request, CacheState caches, std::int64_t oracle_terms);

  // Roughly what make() and the oracle's part of a first screening take.
  static double setup_seconds(const ConvProblem& problem, const PlanRequest& request, std::int64_t oracle_terms);

  // With the constant weights of the testbed. A failure is in the measurement.
  Runner plan(const Candidate& candidate) const;

  // Runs it once on NaN-filled output and workspace, verifies, and takes a first, rough time. A candidate that fails
  // has `failure` set and loses its plan. On a GPU the time is that first execution's where it is well above
  // `hopeless_seconds`: nothing more is spent on it.
  void screen(Runner& runner, double hopeless_seconds = std::numeric_limits<double>::infinity());

  // What follows ends a candidate that fails to run: it has `failure` set and loses its plan.

  // Another rough time; the least counts. For one that seems hopeless: another process may have been in its way.
  void time_again(Runner& runner);

  // Times the runners side by side and fills in their measurements; `complete` where the timer was satisfied.
  void sample(std::span<Runner* const> runners, const TimingOptions& options, FunctionRef<bool()> keep_going);

  // Set once the device takes no more calls of this process: what is known stays, nothing more can be measured.
  const std::optional<Error>& lost() const { return lost_; }

  // Energy of one execution, where the machine counts it; runs it for a fraction of a second.
  void measure_energy(Runner& runner, EnergyCounter& counter);

 private:
  Workbench(const ConvProblem& problem, std::span<const Engine* const> engines, const PlanRequest& request,
            std::unique_ptr<Testbed> testbed);

  Result<void> try_screen(Runner& runner, double hopeless_seconds);
  Result<void> verify(Measurement& measurement);
  void fail(Runner& runner, const Error& error);
  const Engine* engine_of(const Candidate& candidate) const;

  ConvProblem problem_;
  std::span<const Engine* const> engines_;
  PlanRequest request_;
  Habits habits_;
  std::unique_ptr<Testbed> testbed_;
  std::optional<Arithmetic> trusted_;  // of the first candidate that passed a sampled verification: its output is kept
  std::optional<Error> lost_;
};

}  // namespace convoy::selection
