#include "report/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/environment.h"

namespace convoy::report {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

bool can_redraw(std::FILE* stream) {
  return is_terminal(stream) && environment(Variable::term).value_or("dumb") != "dumb";
}

bool colour_wanted(std::FILE* stream) { return can_redraw(stream) && !environment(Variable::no_color); }

int terminal_width(std::FILE* stream, int fallback) {
  struct winsize size = {};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : fallback;
}

std::string styled(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::plain || text.empty()) return std::string(text);
  const char* code = style == Style::bold    ? "1"
                     : style == Style::faint ? "2"
                     : style == Style::good  ? "32"
                     : style == Style::bad   ? "31"
                                             : "33";
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace convoy::report
