// What oneDNN offers, told from the problem alone: asking it takes 50 us and more, as long as a small convolution. The
// answers are decision trees over traits.h, learnt from what it was asked (scripts/fit-offers). Where nothing was
// learnt, everything that may be offered counts as offered, at no cost besides computing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "convoy/engine.h"

namespace convoy::onednn {

struct Guess {
  bool any_layout = false;        // the default of the layout knob
  std::int64_t copied_bytes = 0;  // of activations that are reordered
  bool learnt = false;            // from problems like it that oneDNN was asked about
  bool sure = false;              // of which hardly any had another answer
  bool unlikely = false;          // few were like it, and most not offered: to be asked where much would be gained
};

// `row` is one of implementations(). Nothing: it is not offered, as far as is known. An oneDNN that CONVOY_ONEDNN names
// is asked, since the trees are another one's. Precondition: the row's declaration admits the problem.
std::optional<Guess> guess(std::size_t row, const ConvProblem& problem);

}  // namespace convoy::onednn
