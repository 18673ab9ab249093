// What an execution costs a program whose host enqueues it.
#pragma once

#include <algorithm>

namespace convoy::selection {

// cuDNN has engines that launch a kernel a group, a hundred for one convolution, and keep the host for longer than the
// GPU. A timer whose device never waits for the host doesn't see that, the program does. Below this, where a program
// that is ahead stays ahead, the host's time is left out: of small convolutions it would be all that is seen, and in a
// captured graph it is nothing.
inline constexpr double kLongHostSeconds = 50e-6;

inline double as_a_program_pays(double device_seconds, double host_seconds) {
  return host_seconds > kLongHostSeconds ? std::max(device_seconds, host_seconds) : device_seconds;
}

}  // namespace convoy::selection
