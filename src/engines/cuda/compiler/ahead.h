// Kernels that are likely to be wanted later, compiled into the disk cache in the background.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda {

// Threads that compile, of lower priority than others, and end when nothing is left. Whoever wants one of the kernels
// meanwhile waits for it alone (program_image). Errors are for them, too.
class AheadCompiler {
 public:
  explicit AheadCompiler(int most_threads) : most_threads_(most_threads) {}
  AheadCompiler(const AheadCompiler&) = delete;
  AheadCompiler& operator=(const AheadCompiler&) = delete;
  ~AheadCompiler() { stop(); }

  // Returns at once. What it was given before it has done, or is at.
  void add(std::span<const KernelRequest> requests);
  // Waits until all is compiled.
  void finish() { wait(false); }
  // Drops what waits, and waits for what is being compiled. Nothing is taken any more.
  void stop() { wait(true); }

 private:
  using Threads = std::list<std::jthread>;
  void run(Threads::iterator own);
  void wait(bool drop);

  const int most_threads_;
  std::mutex mutex_;
  std::condition_variable ended_;  // a thread
  Threads running_, over_;
  bool stopped_ = false;
  std::deque<KernelRequest> waiting_;
  std::set<std::string> seen_;
};

// Whether compiling ahead is worth it beside this kernel: it is not in the disk cache yet, and this process may use 8
// processors or more. To be asked before it is compiled.
bool is_first_of_its_kind(const KernelRequest& request);

// By the process's own compiler. A process that ends waits for what is being compiled.
void compile_ahead(std::span<const KernelRequest> requests);

}  // namespace convoy::cuda
