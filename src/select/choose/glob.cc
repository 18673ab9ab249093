#include "select/choose/glob.h"

#include <cstddef>

namespace convoy::selection {

// Linear-time backtracking to the last '*' only: an earlier '*' never needs to take more.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool glob_list_matches(std::string_view list, std::string_view text) {
  if (list.empty()) return true;
  bool matched = list.front() == '!';
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    const bool exclude = !entry.empty() && entry.front() == '!';
    if (exclude) entry.remove_prefix(1);
    if (glob_matches(entry, text)) matched = !exclude;
  }
  return matched;
}

}  // namespace convoy::selection
