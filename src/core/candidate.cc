#include <algorithm>

#include "base/errors.h"
#include "convoy/engine.h"
#include "core/text.h"

namespace convoy {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

// A number, unless it begins with a letter.
Result<KnobSetting> parse_setting(std::string_view text) {
  const char first = text.empty() ? '0' : text.front();
  if (((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z')) && is_name(text)) return KnobSetting(text);
  CONVOY_TRY(const std::int64_t number, parse_integer(text));
  return KnobSetting(number);
}

Result<KnobValues> parse_knobs(std::string_view text) {
  KnobValues knobs;
  for (std::string_view piece : split(text, ',')) {
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    if (equals == std::string_view::npos || !is_name(name)) return invalid(quoted(piece) + " is not NAME=VALUE");
    auto value = parse_setting(piece.substr(equals + 1));
    if (!value.ok()) return value.error().within("knob " + quoted(name));
    knobs.push_back({std::string(name), *std::move(value)});
  }
  std::sort(knobs.begin(), knobs.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < knobs.size(); ++i) {
    if (knobs[i].name == knobs[i - 1].name) return invalid("knob " + quoted(knobs[i].name) + " is given twice");
  }
  return knobs;
}

}  // namespace

std::string print(const KnobSetting& setting) {
  return setting.number() != nullptr ? std::to_string(*setting.number()) : *setting.word();
}

std::string print(const Candidate& candidate) {
  std::string text = candidate.engine;
  for (std::size_t i = 0; i < candidate.knobs.size(); ++i) {
    text.append(i == 0 ? "{" : ",").append(candidate.knobs[i].name);
    text.append("=").append(print(candidate.knobs[i].value));
  }
  if (!candidate.knobs.empty()) text += '}';
  return text;
}

Result<Candidate> parse_candidate(std::string_view text) {
  text = trim(text);
  const std::size_t brace = text.find('{');
  Candidate candidate;
  const std::string_view engine = text.substr(0, brace);
  if (!is_name(engine)) return invalid("engine name " + quoted(engine) + " is not letters, digits, '.', '_' and '-'");
  candidate.engine = engine;
  if (brace == std::string_view::npos) return candidate;
  if (text.back() != '}') return invalid("candidate " + quoted(text) + " does not end in '}'");
  const std::string_view inside = text.substr(brace + 1, text.size() - brace - 2);
  if (inside.empty()) return candidate;
  auto knobs = parse_knobs(inside);
  if (!knobs.ok()) return knobs.error().within("candidate " + quoted(text));
  candidate.knobs = *std::move(knobs);
  return candidate;
}

}  // namespace convoy
