#include "report/table.h"

#include <algorithm>

namespace convoy::report {
namespace {

constexpr std::size_t kLongestRule = 60;

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

Table& Table::column(std::string head, Align align) {
  columns_.push_back({std::move(head), align});
  return *this;
}

void Table::row(std::vector<std::string> cells, Style style) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), style});
}

std::string Table::render(bool colour, int indent) const {
  std::vector<std::size_t> widths;
  std::vector<std::string> heads;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    heads.push_back(columns_[i].head);
    std::size_t width = width_of(columns_[i].head);
    for (const Row& row : rows_) width = std::max(width, width_of(row.cells[i]));
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells, Style style) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string padding(widths[i] - width_of(cells[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].align == Align::right ? padding + cells[i] : cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += std::string(static_cast<std::size_t>(indent), ' ') + styled(line, style, colour) + "\n";
  };
  add_line(heads, Style::bold);
  std::vector<std::string> rule;
  // The last column may hold sentences; a rule as long as those would wrap.
  for (const std::size_t width : widths) {
    rule.emplace_back(rule.size() + 1 < widths.size() ? width : std::min(width, kLongestRule), '-');
  }
  add_line(rule, Style::faint);
  for (const Row& row : rows_) add_line(row.cells, row.style);
  return out;
}

}  // namespace convoy::report
