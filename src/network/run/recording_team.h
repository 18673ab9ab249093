// A team that remembers when its threads worked, for traces of runs.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "convoy/network.h"
#include "convoy/thread_team.h"

namespace convoy::network {

class RecordingTeam final : public ThreadTeam {
 public:
  explicit RecordingTeam(int most_threads) : lanes_(static_cast<std::size_t>(most_threads)) {}

  int size() const override { return team_->size(); }

  void run(FunctionRef<void(int thread)> body) override {
    team_->run([&](int thread) {
      const double begin = now();
      body(thread);
      lanes_[static_cast<std::size_t>(thread)].spans.push_back({step_, thread, begin, now()});
    });
  }

  // The step's threads are the team's, which must outlive it.
  void begin_step(int step, ThreadTeam& team) {
    team_ = &team;
    step_ = step;
    steps_.push_back({step, 0, now(), 0});
  }
  void end_step() { steps_.back().end = now(); }
  // One that ran on a device, by now().
  void add_step(int step, double begin, double end) { steps_.push_back({step, 0, begin, end}); }
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // What it has heard; once.
  RunTrace taken() {
    RunTrace trace{.steps = std::move(steps_), .threads = {}, .seconds = now()};
    for (Lane& lane : lanes_) trace.threads.insert(trace.threads.end(), lane.spans.begin(), lane.spans.end());
    return trace;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Each thread writes to its own, on cache lines of its own.
  struct alignas(128) Lane {
    std::vector<RunTrace::Span> spans;
  };

  ThreadTeam* team_ = nullptr;
  Clock::time_point start_ = Clock::now();
  int step_ = 0;
  std::vector<RunTrace::Span> steps_;
  std::vector<Lane> lanes_;  // by thread
};

}  // namespace convoy::network
