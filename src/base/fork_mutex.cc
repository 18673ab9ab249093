#include "base/fork_mutex.h"

#include <pthread.h>

namespace convoy {
namespace {

constinit std::mutex mutex;
constinit std::uint64_t count = 0;
constinit pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;  // shared by each NoFork

void register_handlers() {
  static const int registered = pthread_atfork(
      [] {
        pthread_rwlock_wrlock(&gate);
        mutex.lock();
      },
      [] {
        mutex.unlock();
        pthread_rwlock_unlock(&gate);
      },
      [] {
        ++count;
        mutex.unlock();
        gate = PTHREAD_RWLOCK_INITIALIZER;  // its owner is a thread of the other process
      });
  static_cast<void>(registered);  // without memory for it a fork doesn't wait
}

}  // namespace

std::mutex& fork_mutex() {
  register_handlers();
  return mutex;
}

NoFork::NoFork() {
  register_handlers();
  pthread_rwlock_rdlock(&gate);
}
NoFork::~NoFork() { pthread_rwlock_unlock(&gate); }

std::uint64_t forks() { return count; }

}  // namespace convoy
