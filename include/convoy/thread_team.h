// The threads a processor's plan runs on. The caller gives the count; engines never start threads of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "convoy/queue.h"

namespace convoy {

// A non-owning reference to a callable, valid for the duration of a call.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

class ThreadTeam : public Queue {
 public:
  virtual int size() const = 0;
  // Runs body(thread) once for every thread in [0, size()), in parallel, and returns when all are done. Not reentrant.
  virtual void run(FunctionRef<void(int thread)> body) = 0;

  DeviceKind kind() const final;
  Result<void> copy_in(void* to, const void* host, std::size_t bytes) final;
  Result<void> copy_out(void* host, const void* from, std::size_t bytes) final;
  Result<void> copy(void* to, const void* from, std::size_t bytes) final;
  Result<void> fill(void* to, std::uint8_t value, std::size_t bytes) final;
  Result<void> finish() final;
};

// A team of `threads` (>= 1) over OpenMP, the same pool oneDNN uses, so that the two never compete for the cores.
std::unique_ptr<ThreadTeam> make_cpu_team(int threads);

// Splits [0, count) into size() nearly equal contiguous ranges and runs body(begin, end, thread) for the non-empty
// ones. The split depends only on count and size(): results are reproducible for a thread count.
void parallel_ranges(ThreadTeam& team, std::int64_t count,
                     FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)> body);

}  // namespace convoy
