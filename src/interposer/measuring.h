// `convoy exec --tune` measures a problem while the program waits for the answer to its first query of it.
#pragma once

#include <string>

namespace convoy::interposer {

// Asks whoever listens at the socket: "measure", the device's ordinal and the problem, fields separated by tabs; the
// answer is `time` lines of the choice file, and then "end". What is known; empty: nothing, or nobody listens. It
// returns when all of it was measured that is going to be.
std::string measured_times(const std::string& socket, int ordinal, const std::string& problem);

}  // namespace convoy::interposer
