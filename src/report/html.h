// Pages of HTML that need nothing else: no other files, no network. Without JavaScript all of it can be read; with it
// tables are sorted by a click on a column's head and a box searches their rows. Light and dark by the reader's
// settings. Reports of every kind share this style.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/table.h"

namespace convoy::report {

// Text as it may stand in an element or an attribute. Control characters and what is no UTF-8 become '?'.
std::string html_escaped(std::string_view text);

struct HtmlCell {
  std::string text;
  std::optional<double> value = std::nullopt;  // what the column is sorted by; nothing: the text
  Style style = Style::plain;
  std::string link = {};                     // "#wgrad-3": a place in the page
  std::optional<double> bar = std::nullopt;  // a bar behind the text, of this share of the cell
};

class HtmlTable {
 public:
  // `hint`: what the column means, shown when the pointer rests on its head.
  HtmlTable& column(std::string head, Align align = Align::left, std::string hint = {});
  // Missing cells are empty.
  void row(std::vector<HtmlCell> cells, Style style = Style::plain);
  bool empty() const { return rows_.empty(); }
  // `searched`: a box above it searches its rows.
  std::string text(bool searched = false) const;

 private:
  struct Column {
    std::string head;
    Align align;
    std::string hint;
  };
  struct Row {
    std::vector<HtmlCell> cells;
    Style style;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

class HtmlPage {
 public:
  explicit HtmlPage(std::string title) : title_(std::move(title)) {}

  void heading(std::string_view text, std::string_view id = {});
  void paragraph(std::string_view text, Style style = Style::plain);
  // Large numbers with what they are, side by side.
  void figures(const std::vector<std::pair<std::string, std::string>>& figures);
  // Names and values.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void table(const HtmlTable& table, bool searched = false);
  // Until end_details(): what is shown when its summary is clicked. A link to `id` opens it.
  void begin_details(std::string_view summary, std::string_view id = {});
  void end_details();
  // A place that a script fills: an element of this id above its caption.
  void drawing(std::string_view id, std::string_view caption);

  // What scripts read, as JSON, in an element of this id.
  void data(std::string_view id, std::string_view json);
  // Added to the page's own. They must not contain "</script", "</style".
  void script(std::string_view script);
  void style(std::string_view style);
  void comment(std::string_view text);

  std::string text() const;  // of the whole page

 private:
  std::string title_;
  std::string body_, style_, behind_;
};

}  // namespace convoy::report
