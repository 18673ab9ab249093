// What oneDNN's implementations compute wrongly, each with a line in docs/known-failures.md.
#pragma once

#include <optional>

#include "convoy/engine.h"
#include "engines/onednn/implementations.h"

namespace convoy::onednn {

// Wrong results, or memory read or written that must not be. 8-bit integers: without VNNI or AMX the kernels sum
// products in pairs in 16 bits, which saturate at the products' full range; only the plain loops don't.
std::optional<Refusal> known_wrong(const Implementation& implementation, const ConvProblem& problem);

}  // namespace convoy::onednn
