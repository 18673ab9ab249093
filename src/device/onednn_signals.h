// oneDNN's generated f32 matrix product points the stack pointer at heap memory while it runs on many inputs (up
// to 3.11.1; uxlfoundation/oneDNN#4845): the frame of a signal's handler would overwrite what lies in front of it.
#pragma once

#include <csignal>
#include <string_view>
#include <vector>

namespace convoy::onednn {

// Whether the implementation, by oneDNN's name of it, runs that code.
inline bool moves_the_stack(std::string_view implementation) {
  return implementation.find("gemm:jit") != std::string_view::npos;
}

// For the life of the object the calling thread and the threads that OpenMP has for its regions of `threads` take no
// signals but those of faults of their own; what comes meanwhile is taken by others, or afterwards. 0 threads: nothing.
class WithoutSignals {
 public:
  explicit WithoutSignals(int threads);
  ~WithoutSignals();
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  std::vector<sigset_t> before_;  // by OpenMP's number of the thread
};

}  // namespace convoy::onednn
