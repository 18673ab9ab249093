#include "select/choose/engine_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "select/choose/glob.h"

namespace convoy::selection {
namespace {

constexpr std::string_view kEverything = "*";

std::vector<std::string_view> pieces(std::string_view text) {
  std::vector<std::string_view> all;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    if (text[i] != ',' || depth > 0) continue;
    all.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  all.push_back(text.substr(start));
  return all;
}

bool has_knob(const KnobValues& knobs, std::string_view term) {
  const std::size_t equals = term.find('=');
  if (equals == std::string_view::npos) return false;
  return std::any_of(knobs.begin(), knobs.end(), [&](const KnobValue& knob) {
    return knob.name == term.substr(0, equals) && glob_matches(term.substr(equals + 1), print(knob.value));
  });
}

// The engine that the candidate runs on, where it copies tensors for another; else empty. cuDNN's are numbers.
std::string engine_inside(std::string_view engine, const KnobValues& knobs) {
  if (const std::string_view name = word_or(knobs, "engine", ""); !name.empty()) return std::string(name);
  const std::int64_t index = knob_or(knobs, "engine", -1);
  return index < 0 ? "" : fmt::format("{}.eng{}", engine.substr(0, engine.find('.')), index);
}

bool matches(const EngineEntry& entry, std::string_view engine, const KnobValues& knobs) {
  if (!entry.closed) return false;
  if (entry.terms.empty() && entry.exclude) {
    const std::string inside = engine_inside(engine, knobs);
    if (!inside.empty() && glob_matches(entry.engine, inside)) return true;
  }
  return glob_matches(entry.engine, engine) &&
         std::all_of(entry.terms.begin(), entry.terms.end(), [&](auto term) { return has_knob(knobs, term); });
}

}  // namespace

std::vector<std::string_view> engine_entries(std::string_view list) {
  return list.empty() ? std::vector<std::string_view>() : pieces(list);
}

EngineEntry parse_engine_entry(std::string_view text) {
  EngineEntry entry;
  entry.exclude = text.starts_with('!');
  if (entry.exclude) text.remove_prefix(1);
  const std::size_t brace = text.find('{');
  entry.engine = text.substr(0, brace);
  if (brace == std::string_view::npos) return entry;
  entry.closed = text.ends_with('}');
  const std::string_view inside = text.substr(brace + 1, text.size() - brace - (entry.closed ? 2 : 1));
  if (!inside.empty()) entry.terms = pieces(inside);
  return entry;
}

bool engine_list_matches(std::string_view list, std::string_view engine, const KnobValues& knobs) {
  if (list.empty() || list == kEverything) return true;
  bool matched = list.front() == '!';
  for (const std::string_view text : engine_entries(list)) {
    const EngineEntry entry = parse_engine_entry(text);
    if (matches(entry, engine, knobs)) matched = !entry.exclude;
  }
  return matched;
}

bool engine_list_may_match(std::string_view list, std::string_view engine) {
  if (list.empty()) return true;
  bool may = list.front() == '!';
  for (const std::string_view text : engine_entries(list)) {
    const EngineEntry entry = parse_engine_entry(text);
    if (!entry.closed || !glob_matches(entry.engine, engine)) continue;
    if (!entry.exclude) may = true;
    if (entry.exclude && entry.terms.empty()) may = false;
  }
  return may;
}

bool engine_list_names(std::string_view list, std::string_view engine) {
  const auto entries = engine_entries(list);
  return std::find(entries.begin(), entries.end(), engine) != entries.end();
}

}  // namespace convoy::selection
