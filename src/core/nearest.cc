#include "core/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace convoy {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, each letter in one of them.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

constexpr std::size_t kLongest = 100;  // a longer text is no misspelt name
constexpr std::size_t kMost = 3;

}  // namespace

std::vector<std::string> nearest_names(std::string_view written, std::span<const std::string> names) {
  if (written.empty() || written.size() > kLongest) return {};
  const std::string wanted = lower_case(written);
  std::vector<std::pair<std::size_t, const std::string*>> near;
  for (const std::string& name : names) {
    const std::string known = lower_case(name);
    const std::size_t part = known.find_last_of(".:") + 1;  // 0 where there is none
    const std::size_t apart = std::min(distance(wanted, known), distance(wanted, std::string_view(known).substr(part)));
    if (apart <= std::max<std::size_t>(wanted.size() / 3, 1) && apart < wanted.size()) near.emplace_back(apart, &name);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (const auto& [apart, name] : near) {
    if (nearest.size() < kMost && apart <= near.front().first + 1) nearest.push_back(*name);
  }
  return nearest;
}

std::string did_you_mean(std::string_view written, std::span<const std::string> names) {
  const std::vector<std::string> nearest = nearest_names(written, names);
  return nearest.empty() ? std::string() : fmt::format("; did you mean {}?", fmt::join(nearest, " or "));
}

}  // namespace convoy
