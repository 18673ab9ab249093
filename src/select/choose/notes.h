// Looking for a note among those of an engine, candidate or plan.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::selection {

inline bool has_note(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

}  // namespace convoy::selection
