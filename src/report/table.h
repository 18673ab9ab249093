// Plain text tables: columns aligned, two spaces between them, a rule under the head.
#pragma once

#include <string>
#include <vector>

#include "report/terminal.h"

namespace convoy::report {

enum class Align { left, right };

class Table {
 public:
  Table& column(std::string head, Align align = Align::left);
  // One cell a column; missing ones are empty. Widths count UTF-8 code points.
  void row(std::vector<std::string> cells, Style style = Style::plain);
  bool empty() const { return rows_.empty(); }

  // Lines that end in a newline, each starting with `indent` spaces; no trailing spaces.
  std::string render(bool colour, int indent = 0) const;

 private:
  struct Column {
    std::string head;
    Align align;
  };
  struct Row {
    std::vector<std::string> cells;
    Style style;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace convoy::report
