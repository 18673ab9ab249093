#include "core/math_mode.h"

#include "core/text.h"

namespace convoy {

Result<MathMode> parse_math_mode(std::string_view text) {
  for (const MathMode math : {MathMode::strict, MathMode::tf32, MathMode::reduced}) {
    if (text == name_of(math)) return math;
  }
  return Error{ErrorCode::invalid_argument, quoted(text) + " is not one of strict, tf32, reduced"};
}

}  // namespace convoy
