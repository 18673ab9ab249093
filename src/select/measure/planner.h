// Plans made on the host's threads while the device measures others: for GPUs, where planning compiles or loads code.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "select/measure/runner.h"

namespace convoy::selection {

// A failure is in the measurement.
Runner plan_candidate(const ConvProblem& problem, const Candidate& candidate, std::span<const Engine* const> engines,
                      const PlanRequest& request);

class Planner {
 public:
  explicit Planner(int threads);
  ~Planner();  // plans that are being made are waited for
  Planner(const Planner&) = delete;

  // The plans of one problem. It must not outlive its planner; what was not begun when it goes is not made.
  class Batch {
   public:
    ~Batch();
    // The next one that is ready, whichever it is; waits for it. Nothing: all were taken.
    std::optional<Runner> next();

   private:
    friend class Planner;
    struct Work;
    Batch(Planner& planner, std::shared_ptr<Work> work) : planner_(planner), work_(std::move(work)) {}
    Planner& planner_;
    std::shared_ptr<Work> work_;
  };

  // Begun in the order of the calls, and within one in that of the candidates. The engines must stay.
  std::unique_ptr<Batch> start(const ConvProblem& problem, std::vector<Candidate> candidates,
                               std::span<const Engine* const> engines, const PlanRequest& request);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable to_do_, done_;
  std::list<std::shared_ptr<Batch::Work>> order_;  // of those where something is to be begun
  std::size_t ready_ = 0;                          // plans that nobody has taken, which keep memory
  bool ended_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace convoy::selection
