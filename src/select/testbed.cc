#include "select/testbed.h"

#include <cstring>
#include <optional>

#include "base/clock.h"
#include "device/workspace.h"
#include "select/measure/caches.h"
#include "select/measure/problem_data.h"

namespace convoy::selection {
namespace {

class CpuTestbed final : public Testbed {
 public:
  static Result<std::unique_ptr<Testbed>> make(const ConvProblem& problem, const PlanRequest& request,
                                               CacheState caches, std::int64_t oracle_terms, std::uint64_t seed) {
    auto bed = std::make_unique<CpuTestbed>(problem, request.threads, oracle_terms);
    CONVOY_TRY(bed->data_, ProblemData::make(problem, seed, request.constant_weights));
    CONVOY_TRY(bed->out_, HostTensor::allocate(problem.out()));
    bed->constant_ = request.constant_weights != nullptr;
    if (caches != CacheState::warm) {
      std::span<std::byte> produced;
      if (caches == CacheState::cold) {
        const HostTensor& input = problem.pass == Pass::fprop ? bed->data_.x : bed->data_.y;
        produced = {input.data.get(), static_cast<std::size_t>(input.desc.bytes())};
      }
      CONVOY_TRY(bed->flusher_, CacheFlusher::make(*bed->team_, request.cpu.l2_bytes, produced));
    }
    return std::unique_ptr<Testbed>(std::move(bed));
  }

  CpuTestbed(const ConvProblem& problem, int threads, std::int64_t oracle_terms)
      : problem_(problem), oracle_terms_(oracle_terms), team_(make_cpu_team(threads)) {}

  const void* constant_weights() const override { return constant_ ? data_.w.data.get() : nullptr; }

  Result<void> soil(std::size_t workspace_bytes) override {
    CONVOY_TRY(void* const workspace, workspace_.reserve(workspace_bytes));
    if (workspace != nullptr) std::memset(workspace, 0xff, workspace_bytes);
    const auto bytes = static_cast<std::size_t>(problem_.out().bytes());
    if (problem_.beta != 0) {
      std::memcpy(out_.data.get(), data_.prior(problem_.pass).data.get(), bytes);
    } else {
      std::memset(out_.data.get(), 0xff, bytes);
    }
    return {};
  }

  Result<double> run(const ConvPlan& plan) override {
    const double start = monotonic_seconds();
    CONVOY_CHECK(execute(plan));
    return monotonic_seconds() - start;
  }
  Result<double> timed_run(const ConvPlan& plan) override { return run(plan); }

  Result<Verification> compare(Arithmetic arithmetic) override {
    if (expectation_ == nullptr) {
      ConvArgs args = data_.args(nullptr);
      args.out = data_.prior(problem_.pass).data.get();
      const VerifyOptions options{.full_terms = oracle_terms_};
      expectation_ = std::make_unique<Expectation>(problem_, args, options, *team_);
    }
    return expectation_->compare(out_.data.get(), arithmetic);
  }
  Result<const HostTensor*> output() override { return &out_; }

  Result<void> keep_output() override {
    CONVOY_TRY(kept_, HostTensor::allocate(problem_.out()));
    std::memcpy(kept_.data.get(), out_.data.get(), static_cast<std::size_t>(problem_.out().bytes()));
    return {};
  }
  Result<Comparison> compare_with_kept(Arithmetic arithmetic) override {
    return compare_whole(kept_, out_, tolerances(arithmetic), *team_);
  }
  std::vector<double> tolerances(Arithmetic arithmetic) const override { return expectation_->tolerances(arithmetic); }

  std::vector<Timing> time(std::span<Runner* const> runners, const TimingOptions& options,
                           FunctionRef<bool()> keep_going) override {
    std::vector<Contestant> contestants;
    for (Runner* runner : runners) {
      Contestant contestant{.body = [this, runner] { return execute(*runner->plan); }};
      if (flusher_) contestant.prepare = [this] { flusher_->flush(); };
      contestants.push_back(std::move(contestant));
    }
    return time_interleaved(
        contestants, options, [] { return monotonic_seconds(); }, keep_going);
  }

  Result<std::int64_t> run_for(const ConvPlan& plan, double seconds) override {
    std::int64_t runs = 0;
    const double start = monotonic_seconds();
    do {
      CONVOY_CHECK(execute(plan));
      ++runs;
    } while (monotonic_seconds() - start < seconds);
    return runs;
  }

 private:
  Result<void> execute(const ConvPlan& plan) {
    const std::size_t bytes = plan.workspace_bytes();
    CONVOY_TRY(void* const workspace, workspace_.reserve(bytes));
    return plan.execute(data_.args(out_.data.get()), {*team_, workspace, bytes});
  }

  ConvProblem problem_;
  std::int64_t oracle_terms_;
  std::unique_ptr<ThreadTeam> team_;
  bool constant_ = false;
  Workspace workspace_;  // one for all: they run one after the other
  ProblemData data_;
  HostTensor out_, kept_;
  std::optional<CacheFlusher> flusher_;
  std::unique_ptr<Expectation> expectation_;  // made when it is first needed
};

}  // namespace

Result<std::unique_ptr<Testbed>> make_cpu_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                  CacheState caches, std::int64_t oracle_terms, std::uint64_t seed) {
  return CpuTestbed::make(problem, request, caches, oracle_terms, seed);
}

Result<std::unique_ptr<Testbed>> make_testbed(const ConvProblem& problem, const PlanRequest& request, CacheState caches,
                                              std::int64_t oracle_terms, std::uint64_t seed) {
  if (caches == CacheState::network) {
    return Error{ErrorCode::invalid_argument, "caches=network: that is timed in a network only"};
  }
  if (caches == CacheState::rotating && !request.cuda) {
    return Error{ErrorCode::invalid_argument, "caches=rotating: only on a GPU are executions timed in a row"};
  }
  if (request.cuda) return make_cuda_testbed(problem, request, caches, oracle_terms, seed);
  return make_cpu_testbed(problem, request, caches, oracle_terms, seed);
}

}  // namespace convoy::selection
