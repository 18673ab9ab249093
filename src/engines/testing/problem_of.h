// A test's problem from its string.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "convoy/convolution.h"

namespace convoy::testing {

// Fails the test where the text is no problem.
inline ConvProblem problem_of(const std::string& text) {
  const auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().message);
  return problem.ok() ? *problem : ConvProblem{};
}

}  // namespace convoy::testing
