// What standard output and standard error are connected to.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace convoy::report {

bool is_terminal(std::FILE* stream);
// A terminal on which a line can be written over: TERM says what it is, and not "dumb".
bool can_redraw(std::FILE* stream);
// The same, and NO_COLOR is not set.
bool colour_wanted(std::FILE* stream);
int terminal_width(std::FILE* stream, int fallback);

enum class Style { plain, bold, faint, good, bad, warning };

// `text` in that style, or as it is when `colour` is off.
std::string styled(std::string_view text, Style style, bool colour);

}  // namespace convoy::report
