// The yes-or-no questions about a problem, and the processor, that decisions of what oneDNN offers for it are made of.
#pragma once

#include <span>
#include <string_view>

#include "convoy/convolution.h"

namespace convoy::onednn {

struct Trait {
  std::string_view name;
  bool (*holds)(const ConvProblem&);
};

// In a fixed order: offered.inc speaks of them by number. scripts/fit-offers writes it anew after a change here.
std::span<const Trait> traits();

}  // namespace convoy::onednn
