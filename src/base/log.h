// The library's log: off unless CONVOY_LOG says otherwise, then lines on standard error.
#pragma once

#include <functional>
#include <string_view>

namespace convoy {

enum class LogLevel { off, error, warning, info, debug };

// Whether a message of this level would be written: ask before building an expensive one.
bool log_enabled(LogLevel level);
// Writes one line, "convoy warning: <message>". Safe from any thread.
void log(LogLevel level, std::string_view message);

// Tests and embedders: another level and receiver than CONVOY_LOG's and standard error's. An empty sink restores those.
using LogSink = std::function<void(LogLevel, std::string_view message)>;
void set_log(LogLevel level, LogSink sink);

}  // namespace convoy
