// Rows that people read as a table and programs as JSON, from one description: a column is in both.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/format.h"
#include "report/json.h"
#include "report/table.h"

namespace convoy::report {

// How a value of JSON is shown to people; null is an empty cell.
std::string as_text(const Json& value);        // text, numbers as JSON has them, a list's values with spaces between
std::string as_seconds(const Json& value);     // "4.56 ms"
std::string as_bytes(const Json& value);       // "12.3 MiB"
std::string as_percent(const Json& value);     // "3.1%"
std::string as_giga(const Json& value);        // of what is in units of 10^9 already: "123"
std::string as_rate(const Json& value);        // of what is not: 1.23e11 is "123"
std::string as_number(const Json& value);      // three digits
std::string as_two_places(const Json& value);  // "1.25"

template <class Row>
class Listing {
 public:
  using Text = std::string (*)(const Json&);

  // `value`, a function of a row or a member of it, is what JSON can be made of, or an optional of it: none is no
  // field, and an empty cell. `rank` as Table::column has it.
  template <class Value>
  Listing& column(std::string head, std::string key, Value value, Text text = as_text, Align align = Align::left,
                  int rank = 0) {
    return add_column(std::move(head), std::move(key), std::move(value), text, align, rank);
  }
  // For programs only.
  template <class Value>
  Listing& field(std::string key, Value value) {
    return add_column(std::nullopt, std::move(key), std::move(value), as_text, Align::left, 0);
  }
  // For people only.
  template <class Value>
  Listing& cell(std::string head, Value value, Align align = Align::left, int rank = 0) {
    return column(std::move(head), "", std::move(value), as_text, align, rank);
  }

  Json json(const Row& row) const {
    Json fields = Json::object();
    for (const Column& column : columns_) {
      if (column.key.empty()) continue;
      if (std::optional<Json> value = column.value(row)) fields[column.key] = *std::move(value);
    }
    return fields;
  }

  // Its columns, without rows.
  Table table() const {
    Table table;
    for (const Column& column : columns_) {
      if (column.head) table.column(*column.head, column.align, column.rank);
    }
    return table;
  }
  void add(Table& table, const Row& row, Style style = Style::plain) const {
    std::vector<std::string> cells;
    for (const Column& column : columns_) {
      if (!column.head) continue;
      const std::optional<Json> value = column.value(row);
      cells.push_back(value && !value->is_null() ? column.text(*value) : std::string());
    }
    table.row(std::move(cells), style);
  }

  // All of them.
  template <class Rows>
  std::pair<Table, Json> both(const Rows& rows) const {
    std::pair<Table, Json> made{table(), Json::array()};
    for (const Row& row : rows) {
      add(made.first, row);
      made.second.push_back(json(row));
    }
    return made;
  }

 private:
  template <class Value>
  Listing& add_column(std::optional<std::string> head, std::string key, Value value, Text text, Align align, int rank) {
    columns_.push_back({std::move(head), std::move(key),
                        [value = std::move(value)](const Row& row) { return json_of(std::invoke(value, row)); }, text,
                        align, rank});
    return *this;
  }
  template <class T>
  static std::optional<Json> json_of(T&& value) {
    return std::make_optional<Json>(std::forward<T>(value));
  }
  template <class T>
  static std::optional<Json> json_of(const std::optional<T>& value) {
    return value ? std::make_optional<Json>(*value) : std::nullopt;
  }
  template <class T>
  static std::optional<Json> json_of(std::optional<T>&& value) {
    return json_of(std::as_const(value));
  }

  struct Column {
    std::optional<std::string> head;  // none: not in the table
    std::string key;                  // empty: not in JSON
    std::function<std::optional<Json>(const Row&)> value;
    Text text;
    Align align;
    int rank;
  };
  std::vector<Column> columns_;
};

// "3.1%"; a rough time, which is one sample or the least of some, has no spread: "1 sample", "10 samples".
std::string spread_of(const Measurement& m);

// A measured candidate: what every command says of one.
Listing<Measurement> measurement_listing(const ConvProblem& problem);

}  // namespace convoy::report
