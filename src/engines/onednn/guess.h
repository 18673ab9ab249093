// What oneDNN probably offers, told from the problem alone: asking it takes 50 us and more, as long as a small
// convolution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "convoy/engine.h"

namespace convoy::onednn {

struct Guess {
  bool any_layout = false;        // the default of the layout knob
  std::int64_t copied_bytes = 0;  // of activations that are reordered
  bool certain = false;           // oneDNN was seen to offer it like this for every problem of this kind
};

// `row` is one of implementations(). Nothing: it is probably not offered. Precondition: the row's declaration admits
// the problem.
std::optional<Guess> guess(std::size_t row, const ConvProblem& problem);

}  // namespace convoy::onednn
