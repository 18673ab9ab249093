#include "base/log.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "base/environment.h"

namespace convoy {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"off", "error", "warning", "info", "debug"};

void write_to_stderr(LogLevel level, std::string_view message) {
  // One call a line, so that threads' lines don't mix.
  std::string line = "convoy ";
  line += kNames[static_cast<std::size_t>(level)];
  line += ": ";
  line += message;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

LogLevel level_from_environment() {
  const auto value = environment(Variable::log);
  if (!value) return LogLevel::off;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (*value == kNames[i]) return static_cast<LogLevel>(i);
  }
  write_to_stderr(LogLevel::warning, "CONVOY_LOG=" + *value + " is not one of " +
                                         std::string(describe(Variable::log).values) + "; logging warnings");
  return LogLevel::warning;
}

struct State {
  std::atomic<LogLevel> level{level_from_environment()};
  std::mutex mutex;
  LogSink sink;
};

State& state() {
  static State* instance = new State;  // never destroyed: threads may log while the process ends
  return *instance;
}

}  // namespace

bool log_enabled(LogLevel level) { return level != LogLevel::off && level <= state().level.load(); }

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  const std::lock_guard lock(state().mutex);
  if (state().sink) {
    state().sink(level, message);
  } else {
    write_to_stderr(level, message);
  }
}

void set_log(LogLevel level, LogSink sink) {
  const std::lock_guard lock(state().mutex);
  state().level = sink ? level : level_from_environment();
  state().sink = std::move(sink);
}

}  // namespace convoy
