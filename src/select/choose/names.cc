#include "select/choose/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/selection_check.h"
#include "core/declared_names.h"
#include "core/nearest.h"
#include "core/text.h"
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

// The first entry of a list, without its '!', that `known` does not hold for.
template <class Known>
std::optional<std::string_view> unknown_entry(std::string_view list, const Known& known) {
  if (list.empty()) return std::nullopt;
  for (std::string_view entry : split(list, ',')) {
    if (entry.starts_with('!')) entry.remove_prefix(1);
    if (!known(entry)) return entry;
  }
  return std::nullopt;
}

Error bad_name(std::string what) { return {ErrorCode::invalid_argument, std::move(what)}; }

Result<void> check_setting(std::string_view engine, const KnobValue& value, const Names& words) {
  const std::string* const word = value.value.word();
  if (words.empty()) {
    if (word == nullptr) return {};
    return bad_name(fmt::format("{}: knob {} is a number, not {}", engine, value.name, quoted(*word)));
  }
  if (word != nullptr && std::find(words.begin(), words.end(), *word) != words.end()) return {};
  const std::string meant = word != nullptr ? did_you_mean(*word, words) : std::string();
  return bad_name(fmt::format("{}: knob {} has no value {}{}", engine, value.name, quoted(print(value.value)),
                              meant.empty() ? fmt::format("; it has {}", fmt::join(words, ", ")) : meant));
}

}  // namespace

Result<void> check_engine_globs(std::string_view list, std::span<const Engine* const> engines) {
  const auto unknown = unknown_entry(list, [&](std::string_view entry) {
    return std::any_of(engines.begin(), engines.end(),
                       [&](const Engine* engine) { return glob_matches(entry, engine->info().name); });
  });
  if (!unknown) return {};
  return bad_name(fmt::format("{} matches no engine{} {}", quoted(*unknown),
                              did_you_mean(*unknown, engine_names(engines)), kListEngines));
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
  const Names notes = known_notes(engines);
  const auto unknown = unknown_entry(list, [&](std::string_view entry) {
    return is_known(entry, notes) ||
           std::any_of(notes.begin(), notes.end(), [&](const std::string& note) { return glob_matches(entry, note); });
  });
  if (!unknown) return {};
  const std::string meant = did_you_mean(*unknown, notes);
  return bad_name(fmt::format("{} matches no note{}", quoted(*unknown),
                              meant.empty() ? fmt::format("; there are {}", fmt::join(notes, ", ")) : meant));
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
  const std::vector<DeclaredKnob> declared = declared_knobs_of(**engine);
  Names names;
  for (const DeclaredKnob& knob : declared) names.push_back(knob.name);
  for (const KnobValue& value : candidate.knobs) {
    const auto knob = std::find_if(declared.begin(), declared.end(),
                                   [&](const DeclaredKnob& each) { return glob_matches(each.name, value.name); });
    if (knob != declared.end()) {
      CONVOY_CHECK(check_setting(candidate.engine, value, knob->words));
      continue;
    }
    if (names.empty()) return bad_name(fmt::format("{} has no knobs, so no {}", candidate.engine, quoted(value.name)));
    const std::string meant = did_you_mean(value.name, names);
    return bad_name(fmt::format("{} has no knob {}{}", candidate.engine, quoted(value.name),
                                meant.empty() ? fmt::format("; it has {}", fmt::join(names, ", ")) : meant));
  }
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
