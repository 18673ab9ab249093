// Executions that runs take, one each, and give back.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "network/run/execution.h"

namespace convoy::network {

class ExecutionPool {
 public:
  using Make = std::function<Result<std::unique_ptr<Execution>>()>;
  using Fit = std::function<Execution::Fit(const Execution&)>;
  // Up to `most` (>= 1) at once.
  ExecutionPool(int most, Make make);

  // Goes back to the pool, which it must not outlive.
  struct GiveBack {
    ExecutionPool* pool;
    void operator()(Execution* execution) const { pool->give_back(execution); }
  };
  using Taken = std::unique_ptr<Execution, GiveBack>;
  // One that nobody else has: of the idle ones that which fits best, and of those the latest used; a new one where
  // there is none, or work of all of them would be waited for. Where there can be no more, the one whose work was
  // enqueued first; while all are taken it waits, and gets one in its turn. Errors: those of making the first.
  Result<Taken> take(const Fit& fit = {});

  int size() const;                 // idle or taken: they are kept
  std::size_t graph_bytes() const;  // of all of them

 private:
  struct Waiter {
    std::condition_variable served;
    bool called = false;
    Execution* execution = nullptr;  // null: it may make one
  };
  void give_back(Execution* execution);
  Taken taken(std::vector<std::unique_ptr<Execution>>::iterator idle);
  std::optional<Result<Taken>> take_new(std::unique_lock<std::mutex>& lock);
  bool call_next(Execution* execution);  // false: nobody waits
  void forget_other_processes();

  const int most_;
  const Make make_;
  // fork_mutex guards what follows.
  int size_ = 0;
  std::vector<std::unique_ptr<Execution>> idle_;  // the latest used last
  std::vector<const Execution*> all_;
  std::deque<Waiter*> waiting_;
  std::uint64_t forks_ = 0;
};

}  // namespace convoy::network
