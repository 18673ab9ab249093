// Problems too big for 32-bit indices, cut into pieces that are not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::cudnn {

// A part of a problem, as a problem with views of its tensors. Run in order, the pieces compute the whole.
struct SubProblem {
  ConvProblem problem;
  std::int64_t x = 0, w = 0, y = 0;  // offsets of its tensors, in elements
  std::int64_t channel = 0;          // its first output channel: offset of bias and scales
  std::string where;                 // "batch 0-31"; empty: the whole
};

// Pieces in which no tensor spans more than `most_elements`; the whole where it does not. Cut are, in this order and as
// often as needed: the batch, the outermost spatial dim of out (with the rows of the input that it needs, and their
// padding), groups. wgrad sums over batch and space: there the pieces after the first add to out (beta = 1), which
// needs an out of 32 bits or more and no epilogue. Error (unsupported): none of these cuts makes the tensors small
// enough.
Result<std::vector<SubProblem>> split(const ConvProblem& problem, std::int64_t most_elements);

}  // namespace convoy::cudnn
