#include "select/measure/planner.h"

#include <algorithm>

#include "base/spent.h"
#include "convoy/selection.h"
#include "core/provider.h"

namespace convoy::selection {
namespace {

constexpr std::size_t kMostReady = 64;

}  // namespace

Runner plan_candidate(const ConvProblem& problem, const Candidate& candidate, std::span<const Engine* const> engines,
                      const PlanRequest& request) {
  const Spent spent("planning, all threads");
  Runner runner;
  Measurement& measurement = runner.measurement;
  measurement.candidate = candidate;
  const auto engine =
      std::ranges::find_if(engines, [&](const Engine* e) { return e->info().name == candidate.engine; });
  if (engine != engines.end()) {
    measurement.revision = (*engine)->info().revision;
    measurement.provider = provider_of(**engine).value_or((*engine)->info().provider);
  }
  auto plan = make_plan(problem, candidate, engines, request);
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

// Guarded by the planner's mutex, but for what never changes.
struct Planner::Batch::Work {
  const ConvProblem problem;
  const std::span<const Engine* const> engines;
  const PlanRequest request;
  std::deque<Candidate> open;
  std::deque<Runner> ready;
  int being_made = 0;
};

Planner::Planner(int threads) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work(); });
}

Planner::~Planner() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  to_do_.notify_all();
  threads_.clear();
}

std::unique_ptr<Planner::Batch> Planner::start(const ConvProblem& problem, std::vector<Candidate> candidates,
                                               std::span<const Engine* const> engines, const PlanRequest& request) {
  auto work = std::make_shared<Batch::Work>(Batch::Work{.problem = problem,
                                                        .engines = engines,
                                                        .request = request,
                                                        .open = {candidates.begin(), candidates.end()},
                                                        .ready = {}});
  {
    const std::lock_guard lock(mutex_);
    if (!work->open.empty()) order_.push_back(work);
  }
  to_do_.notify_all();
  return std::unique_ptr<Batch>(new Batch(*this, std::move(work)));
}

void Planner::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    to_do_.wait(lock, [&] { return ended_ || (!order_.empty() && ready_ < kMostReady); });
    if (ended_) return;
    const std::shared_ptr<Batch::Work> of = order_.front();
    const Candidate candidate = std::move(of->open.front());
    of->open.pop_front();
    if (of->open.empty()) order_.pop_front();
    ++of->being_made;
    ++ready_;
    lock.unlock();
    Runner runner = plan_candidate(of->problem, candidate, of->engines, of->request);
    lock.lock();
    --of->being_made;
    of->ready.push_back(std::move(runner));
    done_.notify_all();
  }
}

std::optional<Runner> Planner::Batch::next() {
  const Spent spent("waiting for plans");
  std::unique_lock lock(planner_.mutex_);
  planner_.done_.wait(lock, [&] { return !work_->ready.empty() || (work_->open.empty() && work_->being_made == 0); });
  if (work_->ready.empty()) return std::nullopt;
  Runner runner = std::move(work_->ready.front());
  work_->ready.pop_front();
  --planner_.ready_;
  planner_.to_do_.notify_all();
  return runner;
}

Planner::Batch::~Batch() {
  std::unique_lock lock(planner_.mutex_);
  planner_.order_.remove(work_);
  work_->open.clear();
  planner_.done_.wait(lock, [&] { return work_->being_made == 0; });  // they would count as ready for good
  planner_.ready_ -= work_->ready.size();
  lock.unlock();
  planner_.to_do_.notify_all();
}

}  // namespace convoy::selection
