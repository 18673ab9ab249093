#include "cli/interrupt.h"

namespace convoy::cli {
namespace {

std::atomic<bool> flag = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

}  // namespace

bool interrupted() { return flag; }
const std::atomic<bool>& interrupted_flag() { return flag; }

InterruptGuard::InterruptGuard() {
  flag = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { flag = true; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

InterruptGuard::~InterruptGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

}  // namespace convoy::cli
