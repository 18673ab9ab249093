// Names that people write in filters and rules, checked against what the engines declare.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection_options.h"

namespace convoy::selection {

// Every entry of a list must match an engine, which may have the knobs that it names (engine_list.h), or a note that
// some engine may have.
Result<void> check_engine_globs(std::string_view list, std::span<const Engine* const> engines);
Result<void> check_note_globs(std::string_view list, std::span<const Engine* const> engines);

// The engine must be one of these, and may have knobs of these names, set to a number or to one of their words.
Result<void> check_candidate(const Candidate& candidate, std::span<const Engine* const> engines);

// not_found, with the nearest names of `engines`.
Error no_such_engine(std::string_view name, std::span<const Engine* const> engines);

// All notes that these engines declare, sorted; globs among them where a provider decides.
std::vector<std::string> known_notes(std::span<const Engine* const> engines);

}  // namespace convoy::selection
