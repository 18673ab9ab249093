#include "select/measure/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/spent.h"
#include "core/stages.h"

namespace convoy::selection {
namespace {

// A run this long is its own best estimate: start-up effects no longer show.
constexpr double kLongRunSeconds = 0.1;
// Of a first run on a GPU, at most, for its code to be loaded: what takes longer than the hopeless by this is hopeless.
constexpr double kLoadingSeconds = 0.03;

// Estimates for setup_seconds, from below a loaded and above an idle machine's.
constexpr double kSecondsPerFilledByte = 1e-9;
constexpr double kSecondsPerWeightByte = 3e-9;  // filled, copied and packed by the first plan
constexpr double kGpuSetupSeconds = 0.1;        // Habits::makes_data
constexpr double kSecondsPerOracleTerm = 2e-9;
constexpr double kOracleShare = 0.1;  // of the budget

}  // namespace

std::int64_t oracle_terms(const SelectionOptions& options, int threads) {
  const std::int64_t most = VerifyOptions{}.full_terms;
  if (options.budget_seconds <= 0) return most;
  const double terms = options.budget_seconds * kOracleShare * threads / kSecondsPerOracleTerm;
  return static_cast<std::int64_t>(std::min(terms, static_cast<double>(most)));
}

Workbench::Workbench(const ConvProblem& problem, std::span<const Engine* const> engines, const PlanRequest& request,
                     std::unique_ptr<Testbed> testbed)
    : problem_(problem),
      engines_(engines),
      request_(request),
      habits_(habits_on(request)),
      testbed_(std::move(testbed)) {
  request_.constant_weights = testbed_->constant_weights();
}

Result<Workbench> Workbench::make(const ConvProblem& problem, std::span<const Engine* const> engines,
                                  const PlanRequest& request, CacheState caches, std::int64_t oracle_terms) {
  const Spent spent("setting up");
  CONVOY_TRY(std::unique_ptr<Testbed> testbed, make_testbed(problem, request, caches, oracle_terms));
  return Workbench(problem, engines, request, std::move(testbed));
}

double Workbench::setup_seconds(const ConvProblem& problem, const PlanRequest& request, std::int64_t oracle_terms) {
  if (habits_on(request).makes_data) return kGpuSetupSeconds;
  const double outputs = static_cast<double>(std::max<std::int64_t>(problem.out().elements(), 1));
  const double terms = flops(problem) / 2;
  const double checked = terms <= static_cast<double>(oracle_terms)
                             ? terms
                             : std::min(terms, terms / outputs * static_cast<double>(VerifyOptions{}.samples));
  const double filled = static_cast<double>(problem.x.bytes() + problem.y.bytes());
  return checked * kSecondsPerOracleTerm / std::max(request.threads, 1) + filled * kSecondsPerFilledByte +
         static_cast<double>(problem.w.bytes()) * kSecondsPerWeightByte;
}

Runner Workbench::plan(const Candidate& candidate) const {
  return plan_candidate(problem_, candidate, engines_, request_);
}

void Workbench::screen(Runner& runner, double hopeless_seconds) {
  if (runner.plan == nullptr) return;
  if (auto passed = try_screen(runner, hopeless_seconds); !passed.ok()) fail(runner, passed.error());
}

Result<void> Workbench::try_screen(Runner& runner, double hopeless_seconds) {
  Measurement& measurement = runner.measurement;
  {
    const Spent spent("poisoning");
    CONVOY_CHECK(testbed_->poison(measurement.workspace_bytes));
  }
  {
    const Spent spent("first run");
    CONVOY_TRY(measurement.median_seconds, testbed_->run(*runner.plan));
  }
  measurement.samples = 1;
  CONVOY_CHECK(verify(measurement));
  // The first run of a short plan mostly times page faults and threads that wake up, or code on its way to a GPU.
  const double long_run =
      habits_.compiles ? std::min(hopeless_seconds + kLoadingSeconds, kLongRunSeconds) : kLongRunSeconds;
  if (measurement.median_seconds < long_run) {
    const Spent spent("rough time");
    CONVOY_TRY(measurement.median_seconds, testbed_->timed_run(*runner.plan));
  }
  return {};
}

void Workbench::time_again(Runner& runner) {
  const auto seconds = testbed_->timed_run(*runner.plan);
  if (!seconds.ok()) return fail(runner, seconds.error());
  runner.measurement.median_seconds = std::min(runner.measurement.median_seconds, *seconds);
}

void Workbench::sample(std::span<Runner* const> runners, const TimingOptions& options, FunctionRef<bool()> keep_going) {
  const Spent spent("sampling");
  const auto timings = testbed_->time(runners, options, keep_going);
  for (std::size_t i = 0; i < runners.size(); ++i) {
    if (timings[i].failure) {
      fail(*runners[i], *timings[i].failure);
      continue;
    }
    const Summary& summary = timings[i].summary;
    if (summary.samples == 0) continue;  // its screening's time stands
    Measurement& measurement = runners[i]->measurement;
    measurement.median_seconds = summary.median;
    measurement.spread = summary.spread();
    measurement.samples = summary.samples;
    if (timings[i].settled) measurement.state = MeasurementState::complete;
    if (habits_.compiles) {
      if (const auto stages = stages_of(*runners[i]->plan); !stages.empty()) {
        measurement.kernels = static_cast<int>(stages.size());
      }
    }
  }
}

void Workbench::measure_energy(Runner& runner, EnergyCounter& counter) {
  const Spent spent("energy");
  const auto before = counter.joules();
  const auto runs = testbed_->run_for(*runner.plan, habits_.energy_seconds);
  const auto after = counter.joules();
  if (!runs.ok()) return fail(runner, runs.error());
  if (before.ok() && after.ok()) runner.measurement.energy_joules = (*after - *before) / static_cast<double>(*runs);
}

void Workbench::fail(Runner& runner, const Error& error) {
  if (error.code == ErrorCode::device_failed && !lost_) lost_ = error;
  runner.measurement.failure = error;
  runner.measurement.state = MeasurementState::complete;
  runner.plan.reset();
}

// Against the oracle, and where that checked only a sample, whole against the first candidate that passed it.
Result<void> Workbench::verify(Measurement& measurement) {
  const Spent spent("verifying");
  const Engine* engine = engine_of(measurement.candidate);
  const Arithmetic arithmetic = arithmetic_of(engine->notes(problem_, measurement.candidate.knobs, request_));
  CONVOY_TRY(const Verification oracle, testbed_->compare(arithmetic));
  measurement.max_error = oracle.max_error;
  measurement.max_error_absolute = std::abs(oracle.actual - oracle.expected);
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorCode::wrong_result, fmt::format("{} on {}, {}: {}", print(measurement.candidate), print(problem_),
                                                      place_text(request_), what)};
  };
  if (!oracle.ok()) {
    return wrong(fmt::format("out[{}] is {:.9g}, the oracle says {:.9g} ({:.3g} times the tolerance)",
                             to_string(oracle.worst), oracle.actual, oracle.expected, oracle.max_error));
  }
  if (oracle.full) return {};
  if (!trusted_) {
    CONVOY_CHECK(testbed_->keep_output());
    trusted_ = arithmetic;
    return {};
  }
  CONVOY_TRY(const OutputDifference whole, testbed_->compare_with_kept(std::max(arithmetic, *trusted_)));
  measurement.max_error = std::max(measurement.max_error, whole.max_error);
  if (whole.max_error > 1) {
    return wrong(fmt::format("stored element {} is {:.9g}, a candidate that passed the oracle says {:.9g}", whole.worst,
                             whole.actual, whole.expected));
  }
  return {};
}

const Engine* Workbench::engine_of(const Candidate& candidate) const {
  const auto found = std::find_if(engines_.begin(), engines_.end(),
                                  [&](const Engine* engine) { return engine->info().name == candidate.engine; });
  return found == engines_.end() ? nullptr : *found;
}

}  // namespace convoy::selection
