#include "select/measure/testbed.h"

#include <optional>

#include "base/clock.h"
#include "select/measure/caches.h"
#include "select/measure/full_speed.h"
#include "select/measure/problem_data.h"

namespace convoy::selection {
namespace {

class CpuTestbed final : public Testbed {
 public:
  static Result<std::unique_ptr<Testbed>> make(const ConvProblem& problem, const PlanRequest& request,
                                               CacheState caches, std::int64_t oracle_terms, std::uint64_t seed) {
    auto bed = std::make_unique<CpuTestbed>(problem, request.threads, oracle_terms);
    CONVOY_TRY(bed->data_, ProblemData::make(problem, seed, request.constant_weights));
    CONVOY_CHECK(bed->allocate_output());
    bed->constant_ = request.constant_weights != nullptr;
    if (caches != CacheState::all_cold) {
      const HostTensor& input = problem.pass == Pass::fprop ? bed->data_.x : bed->data_.y;
      bed->produced_ = {input.data.get(), static_cast<std::size_t>(input.desc.bytes())};
    }
    if (caches != CacheState::warm) {
      CONVOY_TRY(bed->flusher_, CacheFlusher::make(bed->team_, request.cpu.l2_bytes, bed->produced_));
    }
    bed->cpu_ = request.cpu;
    return std::unique_ptr<Testbed>(std::move(bed));
  }

  CpuTestbed(const ConvProblem& problem, int threads, std::int64_t oracle_terms)
      : Testbed(problem, processor(), make_cpu_team(threads), oracle_terms, threads),
        team_(static_cast<ThreadTeam&>(*queue_)) {}

  const void* constant_weights() const override { return constant_ ? data_.w.data.get() : nullptr; }

  Result<double> run(const ConvPlan& plan) override {
    const double start = monotonic_seconds();
    CONVOY_CHECK(execute(plan));
    return monotonic_seconds() - start;
  }
  Result<double> timed_run(const ConvPlan& plan) override { return run(plan); }

  std::vector<Timing> time(std::span<Runner* const> runners, const TimingOptions& options,
                           FunctionRef<bool()> keep_going) override {
    std::vector<Contestant> contestants;
    for (Runner* runner : runners) {
      Contestant contestant{.body = [this, runner] { return execute(*runner->plan); }};
      CacheFlusher* const flusher = flusher_for(*runner->plan);
      if (flusher != nullptr) {
        contestant.prepare = [flusher] { flusher->flush(); };
      } else if (team_.size() > 1) {
        contestant.prepare = [this] {
          write_in_other_parts(team_, produced_);
          write_in_other_parts(team_, {static_cast<std::byte*>(out_.data()), output_bytes()});
        };
      }
      contestants.push_back(std::move(contestant));
    }
    TimingOptions on_this_team = options;
    on_this_team.at_full_speed = FullSpeed(team_, options.budget_seconds / 8);
    return time_interleaved(
        contestants, on_this_team, [] { return monotonic_seconds(); }, keep_going);
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
  ConvArgs args(void* out) const override { return data_.args(out); }
  const void* prior() const override { return data_.prior(problem_.pass).data.get(); }
  Result<ProblemData> host_data() override { return data_; }

  // Large weights leave the shared cache before a network comes back to them: it has others as large. Small ones may
  // stay, in a small network, and in a large one they take little.
  CacheFlusher* flusher_for(const ConvPlan& plan) {
    constexpr std::int64_t kLarge = 16;  // of the shared cache
    if (!flusher_) return nullptr;
    const bool stays = cpu_.l3_bytes == 0 || static_cast<std::int64_t>(plan.retained_bytes()) < cpu_.l3_bytes / kLarge;
    if (stays) return &*flusher_;
    if (!shared_flusher_) {
      auto made = CacheFlusher::make(team_, cpu_.l2_bytes, produced_, cpu_.l3_bytes);
      if (!made.ok()) return &*flusher_;
      shared_flusher_ = std::move(*made);
    }
    return &*shared_flusher_;
  }

  ThreadTeam& team_;  // the queue
  bool constant_ = false;
  CpuFeatures cpu_;
  ProblemData data_;
  std::span<std::byte> produced_;  // what the step before has just written
  std::optional<CacheFlusher> flusher_;
  std::optional<CacheFlusher> shared_flusher_;  // evicts the shared cache, too
};

}  // namespace

Testbed::Testbed(const ConvProblem& problem, const Device& device, std::unique_ptr<Queue> queue,
                 std::int64_t oracle_terms, int host_threads)
    : problem_(problem),
      device_(device),
      queue_(std::move(queue)),
      workspace_(device),
      oracle_terms_(oracle_terms),
      host_team_(make_cpu_team(host_threads)) {}

Result<void> Testbed::allocate_output() {
  CONVOY_TRY(out_, device_.allocate(output_bytes(), "the output"));
  return {};
}

Result<void> Testbed::poison(std::size_t workspace_bytes) {
  CONVOY_TRY(void* const workspace, workspace_.reserve(workspace_bytes));
  CONVOY_CHECK(queue_->fill(workspace, 0xff, workspace_bytes));
  if (problem_.beta != 0) {
    CONVOY_CHECK(queue_->copy(out_.data(), prior(), output_bytes()));
  } else {
    CONVOY_CHECK(queue_->fill(out_.data(), 0xff, output_bytes()));
  }
  return queue_->finish();
}

Result<void> Testbed::execute(const ConvPlan& plan, const ConvArgs& args) {
  const std::size_t bytes = plan.workspace_bytes();
  CONVOY_TRY(void* const workspace, workspace_.reserve(bytes));
  return plan.execute(args, {*queue_, workspace, bytes});
}

Result<void> Testbed::run_on(Queue& queue, const ConvPlan& plan) {
  const std::size_t bytes = plan.workspace_bytes();
  CONVOY_TRY(void* const workspace, workspace_.reserve(bytes));
  CONVOY_CHECK(plan.execute(args(out_.data()), {queue, workspace, bytes}));
  return queue.finish();
}

Result<const Expectation*> Testbed::expectation() {
  if (expectation_ == nullptr) {
    CONVOY_TRY(const ProblemData data, host_data());
    const ConvArgs args = data.args(data.prior(problem_.pass).data.get());
    const VerifyOptions options{.full_terms = oracle_terms_};
    expectation_ = std::make_unique<Expectation>(problem_, args, options, *host_team_);
  }
  return expectation_.get();
}

Result<Verification> Testbed::compare(Arithmetic arithmetic) {
  CONVOY_TRY(const Expectation* expected, expectation());
  CONVOY_TRY(const HostTensor* out, output());
  return expected->compare(out->data.get(), arithmetic);
}

Result<const HostTensor*> Testbed::output() {
  if (device_.kind() == DeviceKind::cpu) {
    host_out_ = {problem_.out(), std::static_pointer_cast<std::byte>(out_.share())};
    return &host_out_;
  }
  if (!host_out_.data) {
    CONVOY_TRY(host_out_, HostTensor::allocate(problem_.out()));
  }
  CONVOY_CHECK(queue_->copy_out(host_out_.data.get(), out_.data(), output_bytes()));
  CONVOY_CHECK(queue_->finish());
  return &host_out_;
}

Result<void> Testbed::keep_output() {
  CONVOY_TRY(kept_, device_.allocate(output_bytes(), "an output to compare with"));
  CONVOY_CHECK(queue_->copy(kept_.data(), out_.data(), output_bytes()));
  return queue_->finish();
}

Result<OutputDifference> Testbed::compare_with_kept(Arithmetic arithmetic) {
  CONVOY_TRY(const HostTensor* out, output());
  CONVOY_TRY(const HostTensor kept, HostTensor::allocate(problem_.out()));
  CONVOY_CHECK(queue_->copy_out(kept.data.get(), kept_.data(), output_bytes()));
  CONVOY_CHECK(queue_->finish());
  CONVOY_TRY(const Expectation* expected, expectation());
  return compare_whole(kept, *out, expected->tolerances(arithmetic), *host_team_);
}

Result<std::unique_ptr<Testbed>> make_cpu_testbed(const ConvProblem& problem, const PlanRequest& request,
                                                  CacheState caches, std::int64_t oracle_terms, std::uint64_t seed) {
  return CpuTestbed::make(problem, request, caches, oracle_terms, seed);
}

Result<std::unique_ptr<Testbed>> make_testbed(const ConvProblem& problem, const PlanRequest& request, CacheState caches,
                                              std::int64_t oracle_terms, std::uint64_t seed) {
  if (caches == CacheState::network) {
    return Error{ErrorCode::invalid_argument, "caches=network: that is timed in a network only"};
  }
  if (caches == CacheState::rotating && request.kind() == DeviceKind::cpu) {
    return Error{ErrorCode::invalid_argument, "caches=rotating: only on a GPU are executions timed in a row"};
  }
  if (request.kind() == DeviceKind::cuda) return make_cuda_testbed(problem, request, caches, oracle_terms, seed);
  return make_cpu_testbed(problem, request, caches, oracle_terms, seed);
}

}  // namespace convoy::selection
