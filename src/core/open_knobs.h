// Knobs of cuDNN's that are left to cuDNN: -1, as if they weren't named.
#pragma once

#include <vector>

#include "convoy/engine.h"

namespace convoy {

inline bool is_left_open(const KnobValue& knob) { return knob.value.number() != nullptr && *knob.value.number() < 0; }

inline Candidate without_open_knobs(Candidate candidate) {
  std::erase_if(candidate.knobs, is_left_open);
  return candidate;
}

}  // namespace convoy
