#include "engines/cuda/compiler/ahead.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/cpu.h"

namespace convoy::cuda {
namespace {

// NVRTC parses one program at a time: a kernel that is wanted meanwhile waits for those of as many threads at most.
constexpr int kEnoughProcessors = 8, kMostThreads = 8;
constexpr int kNice = 10;  // below the program's own threads

// This process's, which a forked one has no threads of.
struct OfProcess {
  AheadCompiler compiler{std::min(detected_cpu_features().logical_cpus - 1, kMostThreads)};
  const pid_t process = getpid();
  bool is_own() const { return process == getpid(); }
};
OfProcess& of_process() {
  static OfProcess& all = *new OfProcess;  // never destroyed: threads that end still use it
  return all;
}

void stop_at_exit() {
  if (of_process().is_own()) of_process().compiler.stop();
}

}  // namespace

void AheadCompiler::add(std::span<const KernelRequest> requests) {
  Threads over;  // joined when the others may go on
  const std::lock_guard lock(mutex_);
  over.swap(over_);
  if (stopped_) return;
  std::ptrdiff_t added = 0;
  for (const KernelRequest& request : requests) {
    if (!seen_.insert(fmt::format("{}\n{}\n{}", request.source, request.architecture, request.constants)).second)
      continue;
    waiting_.push_back(request);
    ++added;
  }
  try {
    for (; added > 0 && std::ssize(running_) < most_threads_; --added) {
      const auto own = running_.emplace(running_.end());
      try {
        *own = std::jthread([this, own] { run(own); });
      } catch (...) {
        running_.erase(own);
        throw;
      }
    }
  } catch (const std::system_error&) {  // those that there are do it
  }
}

void AheadCompiler::run(Threads::iterator own) {
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, on Linux
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const KernelRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      if (const auto source = program_source(request); source.ok())
        static_cast<void>(program_image(*source, Need::later).ok());
    } catch (const std::exception&) {  // whoever wants it will see
    }
    lock.lock();
  }
  over_.splice(over_.end(), running_, own);
  ended_.notify_all();
}

void AheadCompiler::wait(bool drop) {
  Threads over;
  std::unique_lock lock(mutex_);
  if (drop) {
    stopped_ = true;
    waiting_.clear();
  }
  ended_.wait(lock, [&] { return running_.empty(); });
  over.swap(over_);
  lock.unlock();
}

bool is_first_of_its_kind(const KernelRequest& request) {
  if (detected_cpu_features().logical_cpus < kEnoughProcessors) return false;
  const auto source = program_source(request);
  return source.ok() && !is_kept(*source);
}

void compile_ahead(std::span<const KernelRequest> requests) {
  OfProcess& all = of_process();
  if (!all.is_own()) return;
  // Anew each time: what the compiler's library made for the kernels before is destroyed after the threads have ended,
  // since the last that is registered comes first.
  std::atexit(stop_at_exit);
  all.compiler.add(requests);
}

}  // namespace convoy::cuda
