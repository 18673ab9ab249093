#include "select/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/clock.h"
#include "engines/reference/reference.h"
#include "select/measure/caches.h"
#include "select/measure/compare.h"
#include "select/measure/problem_data.h"
#include "select/measure/timer.h"
#include "select/remembered.h"

namespace convoy::selection {
namespace {

// Of a total budget, what one candidate's samples may take when there is no budget at all.
constexpr double unbudgeted_seconds = 2.0;

// A run this long is its own best estimate: start-up effects no longer show.
constexpr double long_run_seconds = 0.1;

// A candidate that passed verification, with what its samples need.
struct Runner {
  std::unique_ptr<ConvPlan> plan;
  std::shared_ptr<std::byte> workspace;
  Measurement measurement;
};

class Bench {
 public:
  static Result<Bench> make(const ConvProblem& problem, std::span<const Engine* const> engines,
                            const PlanRequest& request) {
    Bench bench(problem, engines, request);
    CONVOY_TRY(bench.data_, ProblemData::make(problem, 1, request.constant_weights));
    CONVOY_TRY(bench.out_, HostTensor::allocate(problem.out()));
    if (request.constant_weights != nullptr) bench.request_.constant_weights = bench.data_.w.data.get();
    return bench;
  }

  // Plans, runs once on poisoned memory, verifies, and takes the first time.
  Runner audition(const Candidate& candidate) {
    Runner runner;
    runner.measurement.candidate = candidate;
    if (const EngineInfo* info = engine_info(candidate)) {
      runner.measurement.revision = info->revision;
      runner.measurement.provider = info->provider;
    }
    if (auto failed = try_audition(runner); !failed) {
      runner.measurement.failure = failed.error();
      runner.measurement.state = MeasurementState::complete;
    }
    return runner;
  }

  // Samples the runners side by side, with cold private caches.
  void sample(std::vector<Runner*> runners, double budget_seconds) {
    CacheFlusher flusher(*team_, request_.cpu.l2_bytes);
    std::vector<Contestant> contestants;
    for (Runner* runner : runners) {
      contestants.push_back(
          {.body = [this, runner] { static_cast<void>(run(*runner)); }, .prepare = [&flusher] { flusher.flush(); }});
    }
    const TimingOptions options{.budget_seconds = budget_seconds};
    const auto summaries = time_interleaved(contestants, options, [] { return monotonic_seconds(); });
    for (std::size_t i = 0; i < runners.size(); ++i) {
      Measurement& measurement = runners[i]->measurement;
      measurement.median_seconds = summaries[i].median;
      measurement.spread = summaries[i].spread();
      measurement.samples = summaries[i].samples;
    }
  }

 private:
  Bench(const ConvProblem& problem, std::span<const Engine* const> engines, const PlanRequest& request)
      : problem_(problem), engines_(engines), request_(request), team_(make_cpu_team(request.threads)) {}

  Result<void> try_audition(Runner& runner) {
    CONVOY_TRY(runner.plan, make_plan(problem_, runner.measurement.candidate, engines_, request_));
    runner.measurement.candidate = runner.plan->candidate();
    const std::size_t workspace_bytes = runner.plan->workspace_bytes();
    runner.measurement.workspace_bytes = workspace_bytes;
    runner.workspace = allocate_aligned(workspace_bytes);
    if (workspace_bytes > 0 && !runner.workspace) {
      return Error{ErrorCode::out_of_memory, fmt::format("{} bytes of workspace can't be had", workspace_bytes)};
    }
    if (workspace_bytes > 0) std::memset(runner.workspace.get(), 0xff, workspace_bytes);
    reset_output();
    CONVOY_TRY(runner.measurement.median_seconds, timed_run(runner));
    runner.measurement.samples = 1;
    CONVOY_CHECK(verify(runner));
    // The first run of a short plan mostly times page faults and threads that wake up; it decides who is hopeless.
    if (runner.measurement.median_seconds < long_run_seconds) {
      CONVOY_TRY(runner.measurement.median_seconds, timed_run(runner));
    }
    return {};
  }

  Result<double> timed_run(const Runner& runner) {
    const double start = monotonic_seconds();
    CONVOY_CHECK(run(runner));
    return monotonic_seconds() - start;
  }

  // What the output holds before a run: the prior values where beta reads them, NaN bytes otherwise.
  void reset_output() {
    const auto bytes = static_cast<std::size_t>(problem_.out().bytes());
    if (problem_.beta != 0) {
      std::memcpy(out_.data.get(), prior().data.get(), bytes);
    } else {
      std::memset(out_.data.get(), 0xff, bytes);
    }
  }

  const HostTensor& prior() const {
    return problem_.pass == Pass::fprop ? data_.y : problem_.pass == Pass::dgrad ? data_.x : data_.w;
  }

  Result<void> run(const Runner& runner) {
    const ExecContext context{*team_, runner.workspace.get(), runner.measurement.workspace_bytes};
    return runner.plan->execute(data_.args(out_.data.get()), context);
  }

  // Against the oracle, and where that checked only a sample, whole against the first candidate that passed it.
  Result<void> verify(Runner& runner) {
    Measurement& measurement = runner.measurement;
    const EngineInfo* info = engine_info(measurement.candidate);
    const Arithmetic arithmetic = arithmetic_of(info != nullptr ? info->notes : std::vector<std::string>());
    ConvArgs args = data_.args(nullptr);
    args.out = prior().data.get();
    const Verification oracle =
        verify_with_reference(problem_, args, out_.data.get(), VerifyOptions{.arithmetic = arithmetic}, *team_);
    measurement.max_error = oracle.max_error;
    measurement.max_error_absolute = std::abs(oracle.actual - oracle.expected);
    const auto wrong = [&](const std::string& what) {
      return Error{ErrorCode::wrong_result,
                   fmt::format("{} on {}, {} threads, {}: {}", print(measurement.candidate), print(problem_),
                               request_.threads, name_of(request_.cpu.isa), what)};
    };
    if (!oracle.ok()) {
      return wrong(fmt::format("out[{}] is {:.9g}, the oracle says {:.9g} ({:.3g} times the tolerance)",
                               to_string(oracle.worst), oracle.actual, oracle.expected, oracle.max_error));
    }
    if (oracle.full) return {};
    if (!trusted_.data) {
      CONVOY_TRY(trusted_, HostTensor::allocate(problem_.out()));
      std::memcpy(trusted_.data.get(), out_.data.get(), static_cast<std::size_t>(problem_.out().bytes()));
      trusted_arithmetic_ = arithmetic;
      return {};
    }
    const bool winograd = arithmetic == Arithmetic::winograd || trusted_arithmetic_ == Arithmetic::winograd;
    const Comparison whole =
        compare_whole(problem_, trusted_, out_, winograd ? Arithmetic::winograd : Arithmetic::direct);
    measurement.max_error = std::max(measurement.max_error, whole.max_error);
    if (whole.max_error > 1) {
      return wrong(fmt::format("stored element {} is {:.9g}, a candidate that passed the oracle says {:.9g}",
                               whole.worst, whole.actual, whole.expected));
    }
    return {};
  }

  const EngineInfo* engine_info(const Candidate& candidate) const {
    for (const Engine* engine : engines_) {
      if (engine->info().name == candidate.engine) return &engine->info();
    }
    return nullptr;
  }

  ConvProblem problem_;
  std::span<const Engine* const> engines_;
  PlanRequest request_;
  std::unique_ptr<ThreadTeam> team_;
  ProblemData data_;
  HostTensor out_;
  HostTensor trusted_;  // the output of the first candidate that passed a sampled verification
  Arithmetic trusted_arithmetic_ = Arithmetic::direct;
};

}  // namespace

Result<std::vector<Measurement>> measure(const ConvProblem& problem, std::span<const Candidate> candidates,
                                         std::span<const Engine* const> engines, const PlanRequest& request,
                                         const SelectionOptions& options,
                                         const std::function<void(const Measurement&)>& record,
                                         const SelectionProgress& progress) {
  const double start = monotonic_seconds();
  bool stopped = false;
  const auto time_left = [&] {
    if (stopped || (options.stop != nullptr && *options.stop)) return 0.0;
    return options.budget_seconds > 0 ? options.budget_seconds - (monotonic_seconds() - start)
                                      : std::numeric_limits<double>::infinity();
  };
  CONVOY_TRY(Bench bench, Bench::make(problem, engines, request));

  std::vector<Runner> runners;
  const auto report = [&](const Measurement& measurement) {
    record(measurement);
    if (progress && !progress(measurement, static_cast<int>(runners.size()), static_cast<int>(candidates.size()))) {
      stopped = true;
    }
  };
  for (const Candidate& candidate : candidates) {
    // The first always gets its turn, so that any budget is worth something.
    if (!runners.empty() && time_left() <= 0) break;
    runners.push_back(bench.audition(candidate));
    report(runners.back().measurement);
  }

  double best = std::numeric_limits<double>::infinity();
  for (const Runner& runner : runners) {
    if (!runner.measurement.failure) best = std::min(best, runner.measurement.median_seconds);
  }
  std::vector<Runner*> hopeful;
  const bool all_seen = runners.size() == candidates.size();
  for (Runner& runner : runners) {
    if (runner.measurement.failure) continue;
    if (runner.measurement.median_seconds <= hopeless * best) {
      hopeful.push_back(&runner);
    } else if (all_seen) {
      runner.measurement.state = MeasurementState::cut_off;
      report(runner.measurement);
    }
  }
  if (!hopeful.empty() && time_left() > 0) {
    const double needed = unbudgeted_seconds * static_cast<double>(hopeful.size());
    const double budget = std::min(time_left(), needed);
    const double sampling_start = monotonic_seconds();
    bench.sample(hopeful, budget);
    // Ended by its own rules, not by a budget smaller than what it takes without one.
    const bool finished = budget == needed || monotonic_seconds() - sampling_start < budget;
    for (Runner* runner : hopeful) {
      if (finished) runner->measurement.state = MeasurementState::complete;
      report(runner->measurement);
    }
  }

  std::vector<Measurement> measurements;
  for (Runner& runner : runners) measurements.push_back(std::move(runner.measurement));
  sort_measurements(measurements);
  return measurements;
}

}  // namespace convoy::selection
