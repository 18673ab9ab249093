// Random convolution problems for tests: every field takes every kind of value that validation lets through.
#pragma once

#include <cstdint>
#include <random>

#include "convoy/convolution.h"

namespace convoy::testing {

using Random = std::mt19937_64;

// Uniform in [least, most].
std::int64_t uniform(Random& random, std::int64_t least, std::int64_t most);
bool chance(Random& random, double probability);

// Any valid problem, with sizes up to what 64 bits allow: to describe, print and parse, not to run.
ConvProblem random_problem(Random& random);

// A text with a few random edits: characters and pieces changed, dropped, repeated or swapped.
std::string mutated(Random& random, std::string text);

}  // namespace convoy::testing
