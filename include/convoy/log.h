// The library's log: off unless the environment variable CONVOY_LOG or set_log says otherwise. An event is one line of
// fields, "event=select problem=\"fprop:x=f32,..\" candidate=cpu.direct": NAME=VALUE, a value with spaces, quotes, '='
// or control characters being quoted as in JSON. CONVOY_LOG has lines written to standard error or a file, each after
// the time, the process and the level (convoy doctor says what it may be).
#pragma once

#include <functional>
#include <string_view>

#include "convoy/result.h"

namespace convoy {

enum class LogLevel { off, error, warning, info, debug };
std::string_view name_of(LogLevel level);  // "off", "error", ..

// Gets each event up to a level. It is called on the thread that the event happens on, by several threads at once; what
// it makes Convoy log itself is dropped. It must not throw. `message` lives during the call.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

// Sends events up to `level` to `callback`, and none elsewhere; an empty callback restores what CONVOY_LOG says. It
// waits for calls of the callback before, which is not called any more when it returns. Fails where it is called by a
// callback.
Result<void> set_log(LogLevel level, LogCallback callback);

}  // namespace convoy
