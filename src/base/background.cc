#include "base/background.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/cpu.h"

namespace convoy {
namespace {

constexpr int kEnoughProcessors = 8, kMostThreads = 8;
constexpr int kNice = 10;  // below the program's own threads

// This process's, which a forked one has no threads of.
struct OfProcess {
  Background background{std::min(detected_cpu_features().logical_cpus - 1, kMostThreads)};
  const pid_t process = getpid();
  bool is_own() const { return process == getpid(); }
};
OfProcess& of_process() {
  static OfProcess& all = *new OfProcess;  // never destroyed: threads that end still use it
  return all;
}

void stop_at_exit() {
  if (of_process().is_own()) of_process().background.stop();
}

}  // namespace

void Background::add(Job job) {
  Threads over;  // joined when the others may go on
  const std::lock_guard lock(mutex_);
  over.swap(over_);
  if (stop_.stop_requested()) return;
  waiting_.push_back(std::move(job));
  if (std::ssize(running_) >= most_threads_) return;
  const auto own = running_.emplace(running_.end());
  try {
    *own = std::jthread([this, own] { run(own); });
  } catch (const std::system_error&) {  // those that there are do it
    running_.erase(own);
  }
}

void Background::run(Threads::iterator own) {
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread alone, on Linux
  std::unique_lock lock(mutex_);
  while (!waiting_.empty()) {
    const Job job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      job(stop_.get_token());
    } catch (const std::exception&) {  // whoever wants the outcome will see
    }
    lock.lock();
  }
  over_.splice(over_.end(), running_, own);
  ended_.notify_all();
}

void Background::stop() {
  stop_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  wait();
}

void Background::wait() {
  Threads over;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return running_.empty(); });
  over.swap(over_);
  lock.unlock();
}

bool has_background() { return detected_cpu_features().logical_cpus >= kEnoughProcessors && of_process().is_own(); }

void in_background(Background::Job job) {
  if (!has_background()) return;
  stop_background_first();
  of_process().background.add(std::move(job));
}

void stop_background_first() {
  if (has_background()) std::atexit(stop_at_exit);  // the last that is registered comes first
}

}  // namespace convoy
