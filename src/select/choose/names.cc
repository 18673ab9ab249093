#include "select/choose/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "convoy/selection_check.h"
#include "core/declared_names.h"
#include "core/nearest.h"
#include "core/text.h"
#include "select/choose/engine_list.h"
#include "select/choose/former_knobs.h"
#include "select/choose/glob.h"

namespace convoy {
namespace selection {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kListEngines = "(convoy list engines shows all)";

// What a name that is no engine may have been meant to be: an engine, or all of a family ("onednn.*").
Names engine_names(std::span<const Engine* const> engines) {
  Names names;
  for (const Engine* engine : engines) names.push_back(engine->info().name);
  for (const Engine* engine : engines) {
    const std::string& name = engine->info().name;
    if (const auto dot = name.find('.'); dot != std::string::npos) {
      const std::string family = name.substr(0, dot) + ".*";
      if (std::find(names.begin(), names.end(), family) == names.end()) names.push_back(family);
    }
  }
  return names;
}

bool is_known(std::string_view name, const Names& globs) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) { return glob_matches(glob, name); });
}

bool same_text(std::string_view written, std::string_view known) { return written == known; }

// `matches`: whether what is written means a word. A glob means several.
using Meaning = bool (*)(std::string_view written, std::string_view known);

Result<void> check_setting(std::string_view engine, const KnobValue& value, const Names& words, Meaning matches) {
  const std::string* const word = value.value.word();
  if (words.empty()) {
    if (word == nullptr) return {};
    return invalid(fmt::format("{}: knob {} is a number, not {}", engine, value.name, quoted(*word)));
  }
  if (word != nullptr && std::ranges::any_of(words, [&](const std::string& each) { return matches(*word, each); })) {
    return {};
  }
  const std::string meant = word != nullptr ? did_you_mean(*word, words) : std::string();
  return invalid(fmt::format("{}: knob {} has no value {}{}", engine, value.name, quoted(print(value.value)),
                             meant.empty() ? fmt::format("; it has {}", fmt::join(words, ", ")) : meant));
}

// The engine may have the knob, set so.
Result<void> check_knob(const Engine& engine, const KnobValue& value, Meaning matches) {
  const std::string& name = engine.info().name;
  const std::vector<DeclaredKnob> declared = declared_knobs_of(engine);
  Names names;
  for (const DeclaredKnob& knob : declared) names.push_back(knob.name);
  const auto knob = std::find_if(declared.begin(), declared.end(),
                                 [&](const DeclaredKnob& each) { return glob_matches(each.name, value.name); });
  if (knob != declared.end()) return check_setting(name, value, knob->words, matches);
  if (names.empty()) return invalid(fmt::format("{} has no knobs, so no {}", name, quoted(value.name)));
  const std::string meant = did_you_mean(value.name, names);
  return invalid(fmt::format("{} has no knob {}{}", name, quoted(value.name),
                             meant.empty() ? fmt::format("; it has {}", fmt::join(names, ", ")) : meant));
}

// "engine=cpu.*" of an entry of --engines.
Result<void> check_term(const Engine& engine, std::string_view term) {
  const std::size_t equals = term.find('=');
  if (equals == std::string_view::npos) return invalid(fmt::format("{} is not KNOB=VALUE", quoted(term)));
  const std::string_view text = term.substr(equals + 1);
  KnobValue value{std::string(term.substr(0, equals)), text};
  if (const auto number = parse_integer(text); number.ok()) value.value = *number;
  const bool glob = text.find_first_of("*?") != std::string_view::npos;
  if (glob) {
    const auto declared = declared_knobs_of(engine);
    const auto knob = std::ranges::find(declared, value.name, &DeclaredKnob::name);
    if (knob != declared.end() && knob->words.empty()) return {};  // of a number
  }
  return check_knob(engine, value, glob_matches);
}

// Some engine must match, and one of them may have each of the knobs; the error is that of the first.
Result<void> check_engine_entry(std::string_view text, std::span<const Engine* const> engines) {
  const EngineEntry entry = parse_engine_entry(text);
  if (!entry.closed) return invalid(fmt::format("{} does not end in '}}'", quoted(text)));
  std::vector<const Engine*> named;
  std::ranges::copy_if(engines, std::back_inserter(named),
                       [&](const Engine* engine) { return glob_matches(entry.engine, engine->info().name); });
  if (named.empty()) {
    return invalid(fmt::format("{} matches no engine{} {}", quoted(entry.engine),
                               did_you_mean(entry.engine, engine_names(engines)), kListEngines));
  }
  for (const std::string_view term : entry.terms) {
    Result<void> first = check_term(*named.front(), term);
    if (std::ranges::none_of(named, [&](const Engine* engine) { return check_term(*engine, term).ok(); })) return first;
  }
  return {};
}

}  // namespace

Result<void> check_engine_globs(std::string_view list, std::span<const Engine* const> engines) {
  for (const std::string_view entry : engine_entries(list)) CONVOY_CHECK(check_engine_entry(entry, engines));
  return {};
}

std::vector<std::string> known_notes(std::span<const Engine* const> engines) {
  Names notes;
  for (const Engine* engine : engines) {
    for (std::string& note : note_names_of(*engine)) notes.push_back(std::move(note));
  }
  std::sort(notes.begin(), notes.end());
  notes.erase(std::unique(notes.begin(), notes.end()), notes.end());
  return notes;
}

Result<void> check_note_globs(std::string_view list, std::span<const Engine* const> engines) {
  if (list.empty() || list == "*") return {};  // all, and no engine needs to have one
  const Names notes = known_notes(engines);
  for (std::string_view entry : split(list, ',')) {
    if (entry.starts_with('!')) entry.remove_prefix(1);
    const auto means = [&](const std::string& note) { return glob_matches(entry, note); };
    if (is_known(entry, notes) || std::ranges::any_of(notes, means)) continue;
    const std::string meant = did_you_mean(entry, notes);
    return invalid(fmt::format("{} matches no note{}", quoted(entry),
                               meant.empty() ? fmt::format("; there are {}", fmt::join(notes, ", ")) : meant));
  }
  return {};
}

Error no_such_engine(std::string_view name, std::span<const Engine* const> engines) {
  return {ErrorCode::not_found, fmt::format("engine {} does not exist{} {}", quoted(name),
                                            did_you_mean(name, engine_names(engines)), kListEngines)};
}

Result<void> check_candidate(const Candidate& candidate, std::span<const Engine* const> engines) {
  const auto engine = std::find_if(engines.begin(), engines.end(),
                                   [&](const Engine* each) { return each->info().name == candidate.engine; });
  if (engine == engines.end()) return no_such_engine(candidate.engine, engines);
  if (has_former_knobs(candidate)) return {};
  for (const KnobValue& value : candidate.knobs) CONVOY_CHECK(check_knob(**engine, value, same_text));
  return {};
}

}  // namespace selection

Result<void> check_names(const SelectionFilter& filter, std::span<const Engine* const> engines) {
  if (auto known = selection::check_engine_globs(filter.engines, engines); !known.ok()) {
    return known.error().within("engines");
  }
  if (auto known = selection::check_note_globs(filter.notes, engines); !known.ok()) {
    return known.error().within("notes");
  }
  return {};
}

}  // namespace convoy
