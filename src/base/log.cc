#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <shared_mutex>

#include "base/environment.h"

namespace convoy {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"off", "error", "warning", "info", "debug"};

bool plain(std::string_view value) {
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return false;
  }
  return !value.empty();
}

void append_quoted(std::string& line, std::string_view value) {
  constexpr char digits[] = "0123456789abcdef";
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      line += '\\';
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += "\\u00";
      line += digits[static_cast<unsigned char>(c) >> 4];
      line += digits[c & 15];
    } else {
      line += c;
    }
  }
  line += '"';
}

void append_field(std::string& line, std::string_view name, std::string_view value) {
  if (!line.empty()) line += ' ';
  line.append(name).append("=");
  if (plain(value)) {
    line += value;
  } else {
    append_quoted(line, value);
  }
}

std::string now() {
  using std::chrono::system_clock;
  const auto time = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(time);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(since % 1000));
  return text;
}

void write_line(std::FILE* file, LogLevel level, std::string_view message) {
  std::string line = "convoy";
  append_field(line, "time", now());
  append_field(line, "pid", std::to_string(::getpid()));
  append_field(line, "level", name_of(level));
  line.append(" ").append(message).append("\n");
  std::fwrite(line.data(), 1, line.size(), file);  // one call a line, so that processes' lines don't mix
  std::fflush(file);
}

// Whether this thread runs the callback now.
thread_local bool in_callback = false;

struct State {
  State() { restore(); }

  void restore() {
    if (file != stderr && file != stdout) std::fclose(file);
    file = stderr;
    callback = {};
    const LogSetting setting = parse_log_setting(environment(Variable::log).value_or("off"));
    level = setting.level;
    std::string fault = setting.error;
    if (setting.destination == "stdout") {
      file = stdout;
    } else if (!setting.destination.empty()) {
      // "e": not inherited by programs that a framework starts.
      std::FILE* const opened = std::fopen(setting.destination.c_str(), "ae");
      if (opened != nullptr) file = opened;
      if (opened == nullptr) fault.append("'").append(setting.destination).append("' can't be written");
    }
    const auto warn = [&](const std::string& error) {
      std::string message;
      append_field(message, "event", "environment");
      append_field(message, "error", error);
      write_line(file, LogLevel::warning, message);
    };
    if (!fault.empty()) warn("CONVOY_LOG: " + fault);
    if (level.load() < LogLevel::warning) return;
    for (const std::string& other : environment_faults()) {
      if (!other.starts_with("CONVOY_LOG:")) warn(other);
    }
  }

  std::atomic<LogLevel> level{LogLevel::off};
  std::shared_mutex mutex;  // shared while an event is handed on: callbacks may run at once, and outlast no set_log
  LogCallback callback;
  std::FILE* file = stderr;
};

State& state() {
  static State* instance = new State;  // never destroyed: threads may log while the process ends
  return *instance;
}

}  // namespace

LogSetting parse_log_setting(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  LogSetting setting;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name != kNames[i]) continue;
    setting.level = static_cast<LogLevel>(i);
    if (colon == std::string_view::npos) return setting;
    setting.destination = text.substr(colon + 1);
    if (!setting.destination.empty()) return setting;
    setting.error.append("there is no file after '").append(text).append("'");
    return setting;
  }
  setting.level = LogLevel::warning;
  setting.error.append("'").append(text).append("' is not one of ").append(describe(Variable::log).values);
  return setting;
}

std::string_view name_of(LogLevel level) { return kNames[static_cast<std::size_t>(level)]; }

bool log_enabled(LogLevel level) {
  return level != LogLevel::off && level <= state().level.load(std::memory_order_relaxed) && !in_callback;
}

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!log_enabled(level)) return;
  std::string message;
  append_field(message, "event", event);
  for (const LogField& field : fields) append_field(message, field.name, field.value);
  const std::shared_lock lock(state().mutex);
  if (!log_enabled(level)) return;  // set_log came in between
  if (!state().callback) return write_line(state().file, level, message);
  in_callback = true;
  state().callback(level, message);
  in_callback = false;
}

Result<void> set_log(LogLevel level, LogCallback callback) {
  if (in_callback) return Error{ErrorCode::invalid_argument, "set_log: a callback of the log can't set the log"};
  const bool given = static_cast<bool>(callback);
  {
    State& log = state();
    const std::lock_guard lock(log.mutex);
    if (given) {
      log.level = level;
      log.callback = std::move(callback);
    } else {
      log.restore();
    }
  }
  if (given && log_enabled(LogLevel::warning)) {
    for (const std::string& fault : environment_faults()) log(LogLevel::warning, "environment", {{"error", fault}});
  }
  return {};
}

}  // namespace convoy
