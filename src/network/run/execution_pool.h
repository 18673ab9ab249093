// Executions that runs take, one each, and give back.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "network/run/execution.h"

namespace convoy::network {

class ExecutionPool {
 public:
  using Make = std::function<Result<std::unique_ptr<Execution>>()>;
  // Up to `most` (>= 1) at once.
  ExecutionPool(int most, Make make);

  // Goes back to the pool, which it must not outlive.
  struct GiveBack {
    ExecutionPool* pool;
    void operator()(Execution* execution) const { pool->give_back(execution); }
  };
  using Taken = std::unique_ptr<Execution, GiveBack>;
  // One that nobody else has: of the idle ones the latest used, else a new one. Waits while `most` are taken, and gets
  // one in its turn. Errors: those of making one.
  Result<Taken> take();

  int size() const;  // idle or taken: they are kept

 private:
  struct Waiter {
    std::condition_variable served;
    bool called = false;
    Execution* execution = nullptr;  // null: it may make one
  };
  void give_back(Execution* execution);
  bool call_next(Execution* execution);  // false: nobody waits
  void forget_other_processes();

  const int most_;
  const Make make_;
  mutable std::mutex mutex_;  // guards what follows
  int size_ = 0;
  std::vector<std::unique_ptr<Execution>> idle_;
  std::deque<Waiter*> waiting_;
  pid_t process_;
};

}  // namespace convoy::network
