// Names for what runs, as NVIDIA's profilers show them (NVTX: Nsight Systems, Nsight Compute).
#pragma once

#include <concepts>
#include <string>

namespace convoy::cuda {

// A range of the domain "Convoy" on the calling thread's row, from here to its end; ranges nest. Without a profiler the
// name is not asked for, and it costs a comparison.
class NamedRange {
 public:
  template <std::invocable Name>
  explicit NamedRange(const Name& name) {
    if (is_profiled()) push(std::string(name()));
  }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
  ~NamedRange() {
    if (is_profiled()) pop();
  }

  // Whether a profiler listens; one does from the process's start, or never (NVTX_INJECTION64_PATH).
  static bool is_profiled();

 private:
  static void push(const std::string& name);
  static void pop();
};

}  // namespace convoy::cuda
