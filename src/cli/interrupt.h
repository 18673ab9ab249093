// Ctrl-C ends the measuring, not the program; a second one ends that too.
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace convoy::cli {

// Whether SIGINT or SIGTERM arrived since the last InterruptGuard was made.
bool interrupted();
// The same as what selection stops by.
const std::atomic<bool>& interrupted_flag();

// As long as it lives the first of those signals only sets the flag.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

}  // namespace convoy::cli
