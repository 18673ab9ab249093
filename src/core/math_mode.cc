#include "core/math_mode.h"

#include <fmt/format.h>

#include "core/text.h"

namespace convoy {

Result<MathMode> parse_math_mode(std::string_view text) {
  for (const MathMode math : {MathMode::strict, MathMode::tf32, MathMode::reduced}) {
    if (text == name_of(math)) return math;
  }
  return Error{ErrorCode::invalid_argument, fmt::format("math {}: it is strict, tf32 or reduced", quoted(text))};
}

}  // namespace convoy
