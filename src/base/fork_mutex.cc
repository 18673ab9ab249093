#include "base/fork_mutex.h"

#include <pthread.h>

namespace convoy {
namespace {

constinit std::mutex mutex;
constinit std::uint64_t count = 0;

}  // namespace

std::mutex& fork_mutex() {
  static const int registered = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); },
                                               [] {
                                                 ++count;
                                                 mutex.unlock();
                                               });
  static_cast<void>(registered);  // without memory for it a fork doesn't wait
  return mutex;
}

std::uint64_t forks() { return count; }

}  // namespace convoy
