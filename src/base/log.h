// The library's log: off unless CONVOY_LOG says otherwise, then one line an event, on standard error or to a file:
//   convoy time=2026-11-21T15:40:27.123Z pid=7 level=info event=select problem="fprop:x=f32,.." candidate=cpu.direct
// Fields are NAME=VALUE; a value with spaces, quotes, '=' or control characters is quoted as in JSON.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace convoy {

enum class LogLevel { off, error, warning, info, debug };

struct LogField {
  std::string_view name;
  std::string_view value;
};

// Whether an event of this level would be written: ask before building expensive fields.
bool log_enabled(LogLevel level);
// Writes one line. Safe from any thread, also while the process ends.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// What CONVOY_LOG may be: LEVEL, LEVEL:FILE (appended to), LEVEL:stdout.
struct LogSetting {
  LogLevel level = LogLevel::off;
  std::string destination;  // empty: standard error
  std::string error;        // what is wrong with it; empty: nothing. Then warnings go to standard error.
};
LogSetting parse_log_setting(std::string_view text);

// Tests and embedders: another level and receiver (of what follows "level=..", from "event=" on) than CONVOY_LOG's. An
// empty sink restores those.
using LogSink = std::function<void(LogLevel, std::string_view message)>;
void set_log(LogLevel level, LogSink sink);

}  // namespace convoy
