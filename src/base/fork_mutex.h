// What threads hold for a moment while they run things that a forked process may run, too.
#pragma once

#include <cstdint>
#include <mutex>

namespace convoy {

// One for all of that, which is taken last: with it no other mutex of Convoy's is taken, and nothing is waited for. A
// fork takes it first and gives it back in both processes, since what another thread held would be held for ever in the
// new one.
std::mutex& fork_mutex();

// While one lives, a fork waits: for a thread that is within what has mutexes of its own, which a forked process would
// find taken for ever (SQLite, oneDNN, tables that sessions share). Nothing is done within that calls back, or that
// takes fork_mutex. One within another is fine.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

// How many forks lie between the first process and this one; for who has fork_mutex.
std::uint64_t forks();

}  // namespace convoy
