// The lists of engines in filters (SelectionFilter::engines). Entries are separated by commas, '!' excludes, the last
// entry that matches decides; a list that only excludes starts from everything, and the empty one matches everything.
//   cpu.*                          all candidates of the engines whose names match
//   cpu.nhwc{engine=cpu.winograd}  those of an engine's candidates that have all of these knobs; globs on both sides
// An engine that is excluded by name is no other engine's knob `engine` either: '!cpu.winograd' leaves cpu.nhwc those
// candidates that run on something else, and '!cudnn.eng62' takes cudnn.nhwc{engine=62}.
#pragma once

#include <string_view>
#include <vector>

#include "convoy/engine.h"

namespace convoy::selection {

// Pieces between the commas that are outside of braces; none for the empty list.
std::vector<std::string_view> engine_entries(std::string_view list);

// An entry without its '!': "cpu.nhwc{engine=cpu.winograd,m=4}" is cpu.nhwc and two terms, NAME=GLOB.
struct EngineEntry {
  bool exclude = false;
  std::string_view engine;
  std::vector<std::string_view> terms;
  bool closed = true;  // false: a brace is missing, and nothing matches
};
EngineEntry parse_engine_entry(std::string_view entry);

bool engine_list_matches(std::string_view list, std::string_view engine, const KnobValues& knobs);

// Whether some candidate of the engine may match: all that its name tells.
bool engine_list_may_match(std::string_view list, std::string_view engine);

// Whether an entry is the engine's name itself.
bool engine_list_names(std::string_view list, std::string_view engine);

}  // namespace convoy::selection
