// What oneDNN offers for common problems, known without asking: to have its best implementations described costs 40 to
// 100 us each, more than choosing an engine may take.
#pragma once

#include <cstddef>
#include <optional>

#include "convoy/engine.h"

namespace convoy::onednn {

// What is said here was seen on processors with AVX-512 and VNNI and nothing beyond; on newer ones oneDNN is asked.
bool is_known_processor();

// Windows no larger than the images that hang over their edges by half at most, and strides no larger than windows.
bool is_ordinary(const ConvProblem& problem);

// Whether oneDNN offers the implementation for the problem with activations as given, reordering neither (brgconv then
// prefers no other layout); false: not with another layout either. Nothing where it has to be asked. Precondition:
// nothing of the declaration, the processor or inexpressible() is against it. onednn_test compares it with oneDNN's
// answers.
std::optional<bool> certainly_offered(std::size_t row, const ConvProblem& problem);

}  // namespace convoy::onednn
