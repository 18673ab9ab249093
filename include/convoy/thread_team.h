// The threads a plan runs on. The caller gives the count; engines never start threads of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

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

class ThreadTeam {
 public:
  virtual ~ThreadTeam() = default;
  virtual int size() const = 0;
  // Runs body(thread) once for every thread in [0, size()), in parallel, and returns when all are done. Not reentrant.
  virtual void run(FunctionRef<void(int thread)> body) = 0;
};

// A team of `threads` (>= 1) over OpenMP, the same pool oneDNN uses, so that the two never compete for the cores.
std::unique_ptr<ThreadTeam> make_cpu_team(int threads);

// Splits [0, count) into size() nearly equal contiguous ranges and runs body(begin, end, thread) for the non-empty
// ones. The split depends only on count and size(): results are reproducible for a thread count.
void parallel_ranges(ThreadTeam& team, std::int64_t count,
                     FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)> body);

}  // namespace convoy
