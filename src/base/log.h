// Writing to the log (convoy/log.h) and what CONVOY_LOG may say.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "convoy/log.h"

namespace convoy {

struct LogField {
  std::string_view name;
  std::string_view value;
};

// Whether an event of this level would be written: ask before building expensive fields.
bool log_enabled(LogLevel level);
// Safe from any thread, also while the process ends.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// What CONVOY_LOG may be: LEVEL, LEVEL:FILE (appended to), LEVEL:stdout.
struct LogSetting {
  LogLevel level = LogLevel::off;
  std::string destination;  // empty: standard error
  std::string error;        // what is wrong with it; empty: nothing. Then warnings go to standard error.
};
LogSetting parse_log_setting(std::string_view text);

}  // namespace convoy
