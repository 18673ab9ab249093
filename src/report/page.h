// How wide text for people may be, and text brought to that width.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::report {

struct Page {
  std::size_t width = 0;  // columns a line may have; 0: no limit
  bool colour = false;
};

// The width that COLUMNS says, else that of the terminal `stream` is; a file or a pipe has no limit. `wide`: no limit
// in any case.
Page page_of(std::FILE* stream, bool wide = false);

// Columns that a text takes: one a UTF-8 code point, none for the escape sequences of colours.
std::size_t columns_of(std::string_view text);

// `text` without its end of line, in pieces of at most `first` columns and then `rest` (both at least 1): broken at
// spaces, which are dropped there; a longer word after one of ":,;/", else anywhere.
std::vector<std::string> broken(std::string_view text, std::size_t first, std::size_t rest);

// Each line of `text` in lines of at most `width` columns (0: no limit). What continues a line starts two columns
// deeper than it; `hang` says how many columns deeper instead.
std::string wrapped(std::string_view text, std::size_t width, std::size_t hang = 2);

}  // namespace convoy::report
