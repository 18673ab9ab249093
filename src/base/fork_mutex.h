// What threads hold for a moment while they run things that a forked process may run, too.
#pragma once

#include <cstdint>
#include <mutex>

namespace convoy {

// One for all of that, which is taken last: with it no other mutex of Convoy's is taken, and nothing is waited for. A
// fork takes it first and gives it back in both processes, since what another thread held would be held for ever in the
// new one.
std::mutex& fork_mutex();

// How many forks lie between the first process and this one; for who has fork_mutex.
std::uint64_t forks();

}  // namespace convoy
