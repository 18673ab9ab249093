// What pages embed, so that they need no network (src/report/CMakeLists.txt).
#pragma once

#include <string_view>

namespace convoy::report::page_parts {

extern const std::string_view d3;              // charts
extern const std::string_view dagre;           // graph layout
extern const std::string_view notices;         // licences of both and of what they contain
extern const std::string_view network_script;  // network_page.js
extern const std::string_view network_style;   // network_page.css

}  // namespace convoy::report::page_parts
