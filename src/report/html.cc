#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy::report {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--ink:#1c2126;--paper:#fff;--soft:#5c6670;--line:#dfe3e8;--head:#f4f6f8;--bar:#cfe0f5;
--good:#1a7f37;--bad:#b42318;--warning:#9a6700;--link:#0b5cad}
@media(prefers-color-scheme:dark){:root{--ink:#e3e7eb;--paper:#14181c;--soft:#98a2ad;--line:#2c343c;--head:#1c2229;
--bar:#1f3c5c;--good:#4ac26b;--bad:#ff7b72;--warning:#d9a521;--link:#79b8ff}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;max-width:110rem;
padding:0 1.5rem}
h1{font-size:1.5rem;margin:0 0 .5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.4rem 0;max-width:75rem}
a{color:var(--link)}code,td,.mono{font-family:ui-monospace,monospace;font-size:13px}
.figures{display:flex;flex-wrap:wrap;gap:1rem;margin:1rem 0}.figures div{border:1px solid var(--line);border-radius:6px;
padding:.5rem .9rem}.figures b{display:block;font-size:1.3rem}.figures span,dt{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.5rem 0}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{background:var(--head);position:sticky;top:0;white-space:nowrap;font-size:13px}td{overflow-wrap:anywhere;max-width:42rem}
.right{text-align:right;white-space:nowrap}th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--link)}
th[aria-sort=ascending] button::after{content:" \25b2"}th[aria-sort=descending] button::after{content:" \25bc"}
.bar{background:linear-gradient(90deg,var(--bar) var(--share),transparent var(--share))}
.good{color:var(--good)}.bad{color:var(--bad)}.warning{color:var(--warning)}.faint{color:var(--soft)}.bold{font-weight:600}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.3rem .8rem}summary{cursor:pointer;overflow-wrap:anywhere}
input[type=search]{font:inherit;padding:.3rem .6rem;width:min(30rem,100%);color:inherit;background:var(--head);
border:1px solid var(--line);border-radius:6px}
@media print{input[type=search]{display:none}body{margin:0;max-width:none}}
)css";

constexpr std::string_view kScript = R"js(
"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], rows = [...body.rows];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const number = head.classList.contains("right");
      const now = head.getAttribute("aria-sort");
      const up = now ? now === "descending" : !number;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => {
        const cell = row.cells[column];
        if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
        return number ? NaN : cell.textContent.toLowerCase();
      };
      const keyed = rows.map((row, i) => [key(row), i, row]);
      keyed.sort(([a, i], [b, j]) => {
        const none = (Number.isNaN(a) ? 1 : 0) - (Number.isNaN(b) ? 1 : 0);
        if (none) return none;
        const order = typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
        return (up ? order : -order) || i - j;
      });
      body.append(...keyed.map(entry => entry[2]));
    });
  });
  const place = table.closest(".searched");
  if (!place) continue;
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = "Search: every word must occur";
  box.setAttribute("aria-label", "Search the table below");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
  place.before(box);
}
const open = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", open);
open();
)js";

std::string_view class_of(Style style) {
  switch (style) {
    case Style::plain:
      return "";
    case Style::bold:
      return "bold";
    case Style::faint:
      return "faint";
    case Style::good:
      return "good";
    case Style::bad:
      return "bad";
    case Style::warning:
      return "warning";
  }
  return "";
}

// How many bytes the code point takes that `text` begins with; 0: it is none.
std::size_t code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xc2 && first < 0xe0 ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

std::string class_attribute(std::string_view names) {
  return names.empty() ? std::string() : fmt::format(" class=\"{}\"", names);
}

std::string id_attribute(std::string_view id) {
  return id.empty() ? std::string() : fmt::format(" id=\"{}\"", html_escaped(id));
}

std::string cell_text(const HtmlCell& cell, Align align) {
  std::string classes = align == Align::right ? "right" : "";
  const auto add = [&](std::string_view name) {
    if (!name.empty()) classes += fmt::format("{}{}", classes.empty() ? "" : " ", name);
  };
  add(class_of(cell.style));
  std::string attributes;
  if (cell.bar) {
    add("bar");
    attributes += fmt::format(" style=\"--share:{:.1f}%\"", std::clamp(*cell.bar, 0.0, 1.0) * 100);
  }
  if (cell.value && std::isfinite(*cell.value)) attributes += fmt::format(" data-v=\"{}\"", *cell.value);
  const std::string text = html_escaped(cell.text);
  const std::string inner =
      cell.link.empty() ? text : fmt::format("<a href=\"{}\">{}</a>", html_escaped(cell.link), text);
  return fmt::format("<td{}{}>{}</td>", class_attribute(classes), attributes, inner);
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t size = code_point(text);
    const char first = text[0];
    if (size == 0 || (static_cast<unsigned char>(first) < 32 && first != '\n' && first != '\t') || first == 127) {
      escaped += '?';
    } else if (first == '&') {
      escaped += "&amp;";
    } else if (first == '<') {
      escaped += "&lt;";
    } else if (first == '>') {
      escaped += "&gt;";
    } else if (first == '"') {
      escaped += "&quot;";
    } else if (first == '\'') {
      escaped += "&#39;";
    } else {
      escaped += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return escaped;
}

HtmlTable& HtmlTable::column(std::string head, Align align, std::string hint) {
  columns_.push_back({std::move(head), align, std::move(hint)});
  return *this;
}

void HtmlTable::row(std::vector<HtmlCell> cells, Style style) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), style});
}

std::string HtmlTable::text(bool searched) const {
  std::string text = fmt::format("<div class=\"wide{}\"><table>\n<thead><tr>", searched ? " searched" : "");
  for (const Column& column : columns_) {
    const std::string hint = column.hint.empty() ? "" : fmt::format(" title=\"{}\"", html_escaped(column.hint));
    text += fmt::format("<th scope=\"col\"{}{}>{}</th>", class_attribute(column.align == Align::right ? "right" : ""),
                        hint, html_escaped(column.head));
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const Row& row : rows_) {
    text += fmt::format("<tr{}>", class_attribute(class_of(row.style)));
    for (std::size_t i = 0; i < columns_.size(); ++i) text += cell_text(row.cells[i], columns_[i].align);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

void HtmlPage::heading(std::string_view text, std::string_view id) {
  body_ += fmt::format("<h2{}>{}</h2>\n", id_attribute(id), html_escaped(text));
}

void HtmlPage::paragraph(std::string_view text, Style style) {
  body_ += fmt::format("<p{}>{}</p>\n", class_attribute(class_of(style)), html_escaped(text));
}

void HtmlPage::figures(const std::vector<std::pair<std::string, std::string>>& figures) {
  body_ += "<div class=\"figures\">";
  for (const auto& [what, number] : figures) {
    body_ += fmt::format("<div><b>{}</b><span>{}</span></div>", html_escaped(number), html_escaped(what));
  }
  body_ += "</div>\n";
}

void HtmlPage::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl>";
  for (const auto& [name, value] : facts) {
    body_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_escaped(name), html_escaped(value));
  }
  body_ += "</dl>\n";
}

void HtmlPage::table(const HtmlTable& table, bool searched) { body_ += table.text(searched); }

void HtmlPage::begin_details(std::string_view summary, std::string_view id) {
  body_ += fmt::format("<details{}><summary>{}</summary>\n", id_attribute(id), html_escaped(summary));
}

void HtmlPage::end_details() { body_ += "</details>\n"; }

void HtmlPage::drawing(std::string_view id, std::string_view caption) {
  body_ += fmt::format(
      "<figure><div{} class=\"drawing\"></div><noscript><p>The drawing needs JavaScript; the tables "
      "don't.</p></noscript>"
      "<figcaption>{}</figcaption></figure>\n",
      id_attribute(id), html_escaped(caption));
}

void HtmlPage::data(std::string_view id, std::string_view json) {
  std::string text(json);  // "<" begins no tag there as an escape sequence of JSON
  for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  behind_ += fmt::format("<script type=\"application/json\"{}>{}</script>\n", id_attribute(id), text);
}

void HtmlPage::script(std::string_view script) { behind_ += fmt::format("<script>{}</script>\n", script); }

void HtmlPage::style(std::string_view style) { style_ += style; }

void HtmlPage::comment(std::string_view text) {
  std::string inner(text);
  for (std::size_t at = 0; (at = inner.find("--", at)) != std::string::npos;) inner.replace(at, 2, "- ");
  behind_ += fmt::format("<!-- {} -->\n", inner);
}

std::string HtmlPage::text() const {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}{4}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}"
      "<script>{3}</script>\n{5}</body>\n</html>\n",
      html_escaped(title_), kStyle, body_, kScript, style_, behind_);
}

}  // namespace convoy::report
