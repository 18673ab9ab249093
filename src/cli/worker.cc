#include "cli/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/clock.h"

namespace convoy::cli {
namespace {

constexpr int kLeakExit = 23;  // LeakSanitizer's own

bool write_all(int fd, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::write(fd, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

// Whether the job just done leaked memory, where that can be known. Its report went to standard error.
bool leaked() {
#ifdef __SANITIZE_ADDRESS__
  return __lsan_do_recoverable_leak_check() != 0;  // _exit makes no check of its own
#else
  return false;
#endif
}

// A child's results: each a 64-bit length and so many bytes.
[[noreturn]] void child_main(int pipe, int first, int count, const std::function<std::string(int)>& job) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = first; i < count; ++i) {
    const std::string result = job(i);
    if (leaked()) ::_exit(kLeakExit);
    const std::uint64_t size = result.size();
    if (!write_all(pipe, &size, sizeof size) || !write_all(pipe, result.data(), result.size())) break;
  }
  std::fflush(nullptr);
  ::_exit(0);
}

enum class ReadStatus { done, closed, late };

ReadStatus read_all(int fd, void* data, std::size_t size, double deadline) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const double left = deadline - monotonic_seconds();
    if (left <= 0) return ReadStatus::late;
    struct pollfd ready = {fd, POLLIN, 0};
    const int polled = ::poll(&ready, 1, static_cast<int>(left * 1000) + 1);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) continue;
    const ssize_t count = ::read(fd, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ReadStatus::closed;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return ReadStatus::done;
}

std::string death_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return fmt::format("crashed: {}", ::strsignal(WTERMSIG(status)));
  return fmt::format("the process ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

void run_jobs(int count, double timeout_seconds, const std::function<std::string(int)>& job,
              const std::function<void(int, const JobOutcome&)>& done) {
  int next = 0;
  while (next < count) {
    std::fflush(nullptr);  // what is buffered must not be written twice
    int ends[2];
    const bool piped = ::pipe(ends) == 0;
    const pid_t child = piped ? ::fork() : -1;
    if (child == 0) {
      ::close(ends[0]);
      child_main(ends[1], next, count, job);
    }
    if (child < 0) {
      JobOutcome outcome;
      outcome.failure = fmt::format("no process for it: {}", std::strerror(errno));
      if (piped) ::close(ends[0]), ::close(ends[1]);
      done(next++, outcome);
      continue;
    }
    ::close(ends[1]);
    bool alive = true;
    while (alive && next < count) {
      JobOutcome outcome;
      std::uint64_t size = 0;
      const double deadline = monotonic_seconds() + timeout_seconds;
      ReadStatus status = read_all(ends[0], &size, sizeof size, deadline);
      if (status == ReadStatus::done) {
        outcome.result.resize(size);
        status = read_all(ends[0], outcome.result.data(), size, deadline);
      }
      alive = outcome.finished = status == ReadStatus::done;
      if (status == ReadStatus::late) {
        ::kill(child, SIGKILL);
        death_of(child);
        outcome.failure = fmt::format("took longer than {:g} s", timeout_seconds);
      } else if (status == ReadStatus::closed) {
        outcome.failure = death_of(child);
      }
      done(next++, outcome);
    }
    if (alive) death_of(child);
    ::close(ends[0]);
  }
}

}  // namespace convoy::cli
