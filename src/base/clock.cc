#include "base/clock.h"

#include <chrono>

namespace convoy {

double monotonic_seconds() {
  static const auto start = std::chrono::steady_clock::now();  // keeps the double small, so that nanoseconds survive
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace convoy
