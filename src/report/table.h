// Plain text tables: columns aligned, two spaces between them, a rule under the head.
#pragma once

#include <string>
#include <vector>

#include "report/page.h"
#include "report/terminal.h"

namespace convoy::report {

enum class Align { left, right };

class Table {
 public:
  // `rank`: where the page is too narrow, columns of the highest rank are left out first, the rightmost of them before
  // others; those of rank 0 never are. What then is too long in a left-aligned column is wrapped under it. A column
  // whose cells are all empty isn't shown.
  Table& column(std::string head, Align align = Align::left, int rank = 0);
  // One cell a column; missing ones are empty. Control characters become '?'.
  void row(std::vector<std::string> cells, Style style = Style::plain);
  bool empty() const { return rows_.empty(); }
  void clear() { rows_.clear(); }

  struct Rendered {
    std::string text;                   // lines that end in a newline, each starting with `indent` spaces
    std::vector<std::string> left_out;  // the heads of columns that the page has no room for
  };
  Rendered render(const Page& page, int indent = 0) const;

 private:
  struct Column {
    std::string head;
    Align align;
    int rank;
    std::size_t width;  // of the longest cell or the head
    bool used;          // a cell is not empty
  };
  struct Row {
    std::vector<std::string> cells;
    Style style;
  };
  struct Shown {
    std::size_t index;
    std::size_t width;
  };
  std::vector<Shown> fit(std::size_t room) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace convoy::report
