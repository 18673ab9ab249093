#include "report/table.h"

#include <algorithm>

namespace convoy::report {
namespace {

constexpr std::size_t kLongestRule = 60;
constexpr std::size_t kGap = 2;
// A column narrower than the first is hard to read; columns are left out before others get so narrow. Where none can
// be, the others will do.
constexpr std::size_t kLeastWidths[] = {24, 16, 10, 6};

}  // namespace

Table& Table::column(std::string head, Align align, int rank) {
  const std::size_t width = columns_of(head);
  columns_.push_back({std::move(head), align, rank, width, false});
  return *this;
}

void Table::row(std::vector<std::string> cells, Style style) {
  cells.resize(columns_.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (char& c : cells[i]) c = static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
    columns_[i].width = std::max(columns_[i].width, columns_of(cells[i]));
    columns_[i].used = columns_[i].used || !cells[i].empty();
  }
  rows_.push_back({std::move(cells), style});
}

std::vector<Table::Shown> Table::fit(std::size_t room) const {
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].used || rows_.empty()) shown.push_back({i, columns_[i].width});
  }
  const auto at_least = [&](const Shown& s, std::size_t least) {
    const Column& column = columns_[s.index];
    return column.align == Align::right ? column.width : std::min(column.width, least);
  };
  const auto needed = [&](std::size_t least) {
    std::size_t sum = 0;
    for (const Shown& s : shown) sum += at_least(s, least) + (sum > 0 ? kGap : 0);
    return sum;
  };
  while (needed(kLeastWidths[0]) > room) {
    const auto last = std::max_element(shown.rbegin(), shown.rend(), [&](const Shown& a, const Shown& b) {
      return columns_[a.index].rank < columns_[b.index].rank;
    });
    if (last == shown.rend() || columns_[last->index].rank == 0) break;
    shown.erase(std::next(last).base());
  }
  std::size_t least = kLeastWidths[0];
  for (const std::size_t width : kLeastWidths) {
    least = width;
    if (needed(least) <= room) break;
  }
  if (needed(std::string::npos) <= room) return shown;
  // What is left over goes, a column at a time, to the narrowest of those that have not what they need.
  for (Shown& s : shown) s.width = at_least(s, least);
  std::size_t left = room - std::min(room, needed(least));
  while (left > 0) {
    Shown* narrowest = nullptr;
    for (Shown& s : shown) {
      if (s.width < columns_[s.index].width && (narrowest == nullptr || s.width < narrowest->width)) narrowest = &s;
    }
    if (narrowest == nullptr) break;
    ++narrowest->width;
    --left;
  }
  return shown;
}

Table::Rendered Table::render(const Page& page, int indent) const {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  const std::size_t room =
      page.width == 0 ? std::string::npos : std::max(page.width, margin.size() + 1) - margin.size();
  const std::vector<Shown> shown = fit(room);
  Rendered rendered;
  std::size_t next = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (next < shown.size() && shown[next].index == i) {
      ++next;
    } else if (columns_[i].used) {
      rendered.left_out.push_back(columns_[i].head);
    }
  }
  const auto add_row = [&](const auto& cell_of, Style style) {
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (const Shown& s : shown) {
      cells.push_back(broken(cell_of(s), s.width, s.width));
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t l = 0; l < lines; ++l) {
      std::string line;
      for (std::size_t i = 0; i < shown.size(); ++i) {
        const std::string cell = l < cells[i].size() ? cells[i][l] : std::string();
        const std::string padding(shown[i].width - std::min(shown[i].width, columns_of(cell)), ' ');
        if (i > 0) line += std::string(kGap, ' ');
        line += columns_[shown[i].index].align == Align::right ? padding + cell : cell + padding;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      // A page too narrow even so.
      for (const std::string& piece : broken(line, room, room)) {
        rendered.text += margin + styled(piece, style, page.colour) + "\n";
      }
    }
  };
  add_row([&](const Shown& s) -> const std::string& { return columns_[s.index].head; }, Style::bold);
  std::vector<std::string> rules(columns_.size());
  for (std::size_t i = 0; i < shown.size(); ++i) {
    // The last column may hold sentences; a rule as long as those would wrap.
    rules[shown[i].index] =
        std::string(i + 1 < shown.size() ? shown[i].width : std::min(shown[i].width, kLongestRule), '-');
  }
  add_row([&](const Shown& s) -> const std::string& { return rules[s.index]; }, Style::faint);
  for (const Row& row : rows_) {
    add_row([&](const Shown& s) -> const std::string& { return row.cells[s.index]; }, row.style);
  }
  return rendered;
}

}  // namespace convoy::report
