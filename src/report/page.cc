#include "report/page.h"

#include <algorithm>
#include <charconv>

#include "base/environment.h"
#include "report/terminal.h"

namespace convoy::report {
namespace {

constexpr int kUsualWidth = 80;  // of a terminal that doesn't say

// The bytes of the escape sequence or the code point that `text` begins with, and the columns these take.
struct Glyph {
  std::size_t bytes;
  std::size_t columns;
};

Glyph first_of(std::string_view text) {
  if (text.size() > 1 && text[0] == '\x1b' && text[1] == '[') {
    std::size_t end = 2;
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return {std::min(end + 1, text.size()), 0};
  }
  std::size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
  return {bytes, 1};
}

// Where the first piece of `text` ends, which is longer than `width` columns.
std::size_t break_before(std::string_view text, std::size_t width) {
  constexpr std::string_view kInWords = ":,;/";
  std::size_t columns = 0, at_space = 0, in_word = 0, at = 0;
  bool word_begun = false;
  while (at < text.size()) {
    const Glyph glyph = first_of(text.substr(at));
    if (text[at] == ' ' && word_begun) at_space = at;  // a space just behind the width ends a piece, too
    if (columns + glyph.columns > width) break;
    word_begun = word_begun || (glyph.columns > 0 && text[at] != ' ');
    columns += glyph.columns;
    at += glyph.bytes;
    if (kInWords.find(text[at - 1]) != std::string_view::npos) in_word = at;
  }
  // A word is broken only where that fills more than half of a line that would stay empty otherwise.
  if (at_space > 0 && (in_word <= at_space || in_word - at_space < width / 2)) return at_space;
  return in_word > 0 ? in_word : std::max<std::size_t>(at, first_of(text).bytes);
}

std::string_view without_leading_spaces(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

}  // namespace

Page page_of(std::FILE* stream, bool wide) {
  Page page{0, colour_wanted(stream)};
  if (wide) return page;
  if (const auto columns = environment(Variable::columns)) {
    std::size_t width = 0;
    const auto read = std::from_chars(columns->data(), columns->data() + columns->size(), width);
    if (read.ec == std::errc() && read.ptr == columns->data() + columns->size() && width > 0) {
      page.width = width;
      return page;
    }
  }
  if (is_terminal(stream)) page.width = static_cast<std::size_t>(terminal_width(stream, kUsualWidth));
  return page;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Glyph glyph = first_of(text);
    columns += glyph.columns;
    text.remove_prefix(glyph.bytes);
  }
  return columns;
}

std::vector<std::string> broken(std::string_view text, std::size_t first, std::size_t rest) {
  std::vector<std::string> pieces;
  std::size_t width = first;
  while (columns_of(text) > width) {
    const std::size_t end = break_before(text, width);
    std::string_view piece = text.substr(0, end);
    piece = piece.substr(0, piece.find_last_not_of(' ') + 1);
    pieces.emplace_back(piece);
    text = without_leading_spaces(text.substr(end));
    width = rest;
  }
  if (!text.empty() || pieces.empty()) pieces.emplace_back(text);
  return pieces;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t hang) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t indent = std::min(line.size() - without_leading_spaces(line).size() + hang, width / 2);
    const auto pieces = broken(line, width, width - indent);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) out.append(1, '\n').append(indent, ' ');
      out += pieces[i];
    }
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace convoy::report
