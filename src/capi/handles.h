// Handles that several files of the C interface look into.
#pragma once

#include <string>

#include "convoy.h"
#include "convoy/convolution.h"

struct convoy_problem {
  convoy::ConvProblem problem;
  std::string text;
};
