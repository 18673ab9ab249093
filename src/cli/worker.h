// Runs numbered jobs in child processes, so that a crash or an endless loop in one of them is that job's result and not
// the end of all. One child runs many jobs in a row; a new one goes on after a crash.
#pragma once

#include <functional>
#include <string>

namespace convoy::cli {

struct JobOutcome {
  bool finished = false;
  std::string result;   // what the job returned
  std::string failure;  // otherwise: "crashed: Segmentation fault", "took longer than 60 s"
};

// Calls `job(i)` for i in [0, count) in a child and `done(i, outcome)` here, in order. Call it before this process
// starts threads: a child has only the one that forked.
void run_jobs(int count, double timeout_seconds, const std::function<std::string(int)>& job,
              const std::function<void(int, const JobOutcome&)>& done);

}  // namespace convoy::cli
