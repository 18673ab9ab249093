// Shell-style globs over names: '*' any run of characters, '?' any one.
#pragma once

#include <string_view>

namespace convoy::selection {

bool glob_matches(std::string_view pattern, std::string_view text);

// A comma-separated list: an entry includes, an entry behind '!' excludes; the last that matches decides. A list that
// only excludes starts from everything. The empty list matches everything. (Of engines: engine_list.h.)
bool glob_list_matches(std::string_view list, std::string_view text);

}  // namespace convoy::selection
