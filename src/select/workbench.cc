#include "select/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "select/measure/compare.h"

namespace convoy::selection {
namespace {

// A run this long is its own best estimate: start-up effects no longer show.
constexpr double long_run_seconds = 0.1;

constexpr double energy_seconds = 0.2;  // the counter moves once a millisecond

// Estimates for setup_seconds, from below a loaded and above an idle machine's.
constexpr double seconds_per_oracle_term = 2e-9;
constexpr double seconds_per_filled_byte = 1e-9;

}  // namespace

Workbench::Workbench(const ConvProblem& problem, std::span<const Engine* const> engines, const PlanRequest& request,
                     CacheState caches, std::int64_t oracle_terms)
    : problem_(problem),
      engines_(engines),
      request_(request),
      caches_(caches),
      oracle_terms_(oracle_terms),
      team_(make_cpu_team(request.threads)) {}

Result<Workbench> Workbench::make(const ConvProblem& problem, std::span<const Engine* const> engines,
                                  const PlanRequest& request, CacheState caches, std::int64_t oracle_terms) {
  Workbench bench(problem, engines, request, caches, oracle_terms);
  CONVOY_TRY(bench.data_, ProblemData::make(problem, 1, request.constant_weights));
  CONVOY_TRY(bench.out_, HostTensor::allocate(problem.out()));
  if (request.constant_weights != nullptr) bench.request_.constant_weights = bench.data_.w.data.get();
  if (caches != CacheState::warm) {
    std::span<std::byte> produced;
    if (caches == CacheState::cold) {
      const HostTensor& input = problem.pass == Pass::fprop ? bench.data_.x : bench.data_.y;
      produced = {input.data.get(), static_cast<std::size_t>(input.desc.bytes())};
    }
    bench.flusher_ = std::make_unique<CacheFlusher>(*bench.team_, request.cpu.l2_bytes, produced);
  }
  return bench;
}

double Workbench::setup_seconds(const ConvProblem& problem, int threads, std::int64_t oracle_terms) {
  const double outputs = static_cast<double>(std::max<std::int64_t>(problem.out().elements(), 1));
  const double terms = flops(problem) / 2;
  const double checked = terms <= static_cast<double>(oracle_terms)
                             ? terms
                             : std::min(terms, terms / outputs * static_cast<double>(VerifyOptions{}.samples));
  const double filled = static_cast<double>(problem.x.bytes() + problem.w.bytes() + problem.y.bytes());
  return checked * seconds_per_oracle_term / std::max(threads, 1) + filled * seconds_per_filled_byte;
}

Runner Workbench::plan(const Candidate& candidate) {
  Runner runner;
  Measurement& measurement = runner.measurement;
  measurement.candidate = candidate;
  if (const Engine* engine = engine_of(candidate)) {
    measurement.revision = engine->info().revision;
    measurement.provider = engine->info().provider;
  }
  auto plan = make_plan(problem_, candidate, engines_, request_);
  if (plan.ok()) {
    runner.plan = std::move(*plan);
    measurement.candidate = runner.plan->candidate();
    measurement.workspace_bytes = runner.plan->workspace_bytes();
  } else {
    measurement.failure = plan.error();
    measurement.state = MeasurementState::complete;
  }
  return runner;
}

void Workbench::audition(Runner& runner) {
  if (runner.plan == nullptr) return;
  if (auto passed = try_audition(runner); !passed.ok()) {
    runner.measurement.failure = passed.error();
    runner.measurement.state = MeasurementState::complete;
    runner.plan.reset();
  }
}

Result<void> Workbench::try_audition(Runner& runner) {
  Measurement& measurement = runner.measurement;
  CONVOY_TRY(void* const workspace, workspace_.reserve(measurement.workspace_bytes));
  if (workspace != nullptr) std::memset(workspace, 0xff, measurement.workspace_bytes);
  reset_output();
  CONVOY_TRY(measurement.median_seconds, timed_run(runner));
  measurement.samples = 1;
  CONVOY_CHECK(verify(measurement));
  // The first run of a short plan mostly times page faults and threads that wake up.
  if (measurement.median_seconds < long_run_seconds) {
    CONVOY_TRY(measurement.median_seconds, timed_run(runner));
  }
  return {};
}

void Workbench::time_again(Runner& runner) {
  const auto seconds = timed_run(runner);
  if (seconds.ok()) runner.measurement.median_seconds = std::min(runner.measurement.median_seconds, *seconds);
}

void Workbench::sample(std::span<Runner* const> runners, double budget_seconds, FunctionRef<bool()> keep_going) {
  std::vector<Contestant> contestants;
  for (Runner* runner : runners) {
    Contestant contestant{.body = [this, runner] { static_cast<void>(run(*runner)); }, .prepare = {}};
    if (flusher_ != nullptr) contestant.prepare = [this] { flusher_->flush(); };
    contestants.push_back(std::move(contestant));
  }
  const TimingOptions options{.budget_seconds = budget_seconds};
  const auto timings = time_interleaved(
      contestants, options, [] { return monotonic_seconds(); }, keep_going);
  for (std::size_t i = 0; i < runners.size(); ++i) {
    const Summary& summary = timings[i].summary;
    if (summary.samples == 0) continue;  // its audition's time stands
    Measurement& measurement = runners[i]->measurement;
    measurement.median_seconds = summary.median;
    measurement.spread = summary.spread();
    measurement.samples = summary.samples;
    if (timings[i].settled) measurement.state = MeasurementState::complete;
  }
}

void Workbench::measure_energy(Runner& runner, EnergyCounter& counter) {
  const auto before = counter.joules();
  const double start = monotonic_seconds();
  int runs = 0;
  do {
    if (!run(runner).ok()) return;
    ++runs;
  } while (monotonic_seconds() - start < energy_seconds);
  const auto after = counter.joules();
  if (before.ok() && after.ok()) runner.measurement.energy_joules = (*after - *before) / runs;
}

Result<double> Workbench::timed_run(const Runner& runner) {
  const double start = monotonic_seconds();
  CONVOY_CHECK(run(runner));
  return monotonic_seconds() - start;
}

// What the output holds before a run: the prior values where beta reads them, NaN bytes otherwise.
void Workbench::reset_output() {
  const auto bytes = static_cast<std::size_t>(problem_.out().bytes());
  if (problem_.beta != 0) {
    std::memcpy(out_.data.get(), prior().data.get(), bytes);
  } else {
    std::memset(out_.data.get(), 0xff, bytes);
  }
}

const HostTensor& Workbench::prior() const {
  return problem_.pass == Pass::fprop ? data_.y : problem_.pass == Pass::dgrad ? data_.x : data_.w;
}

Result<void> Workbench::run(const Runner& runner) {
  const std::size_t bytes = runner.measurement.workspace_bytes;
  CONVOY_TRY(void* const workspace, workspace_.reserve(bytes));
  return runner.plan->execute(data_.args(out_.data.get()), {*team_, workspace, bytes});
}

// Against the oracle, and where that checked only a sample, whole against the first candidate that passed it.
Result<void> Workbench::verify(Measurement& measurement) {
  const Engine* engine = engine_of(measurement.candidate);
  const Arithmetic arithmetic = arithmetic_of(engine->notes(problem_, measurement.candidate.knobs, request_));
  if (expectation_ == nullptr) {
    ConvArgs args = data_.args(nullptr);
    args.out = prior().data.get();
    const VerifyOptions options{.full_terms = oracle_terms_};
    expectation_ = std::make_unique<Expectation>(problem_, args, options, *team_);
  }
  const Verification oracle = expectation_->compare(out_.data.get(), arithmetic);
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
