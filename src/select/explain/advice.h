// What makes a 3D convolution fast on a GPU, after the advice in cuDNN's developer guide, as checks of a problem.
#pragma once

#include <string>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::selection {

struct Advice {
  std::string check;  // "layout", "channels", "alignment", "precision", "groups"
  bool followed = false;
  std::string text;  // what the problem has, and what would be better
};

// In a fixed order, "groups" where there are some; empty for problems that are not 3D.
std::vector<Advice> advice_for_3d(const ConvProblem& problem);

}  // namespace convoy::selection
