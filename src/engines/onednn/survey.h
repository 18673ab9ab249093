// Which implementations oneDNN offers for a problem, found by walking its primitive descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::onednn {

// The ways to ask for one problem. Implementations may take some and not others.
struct Form {
  bool any_layout = false;       // activations in the format that the implementation prefers, else as given
  bool residual_by_sum = false;  // z is copied to out and scaled and added from there, else it is a binary post-op
  friend bool operator==(const Form&, const Form&) = default;
};

// Those that make a difference for this problem, the preferred first.
std::vector<Form> forms_of(const ConvProblem& problem);

struct Offer {
  std::size_t row;  // in implementations()
  Form form;
  std::int64_t reordered_bytes;  // of activations that are reordered before or after, each counted once
  bool reorders_weights;
};

struct Survey {
  std::vector<Offer> offers;         // at most one a row and layout
  std::vector<std::string> unknown;  // descriptions of implementations without a row
  std::string names;                 // "jit_avx512, gemm, ref", or why there are none

  const Offer* find(std::size_t row, bool any_layout) const;
  // The layout that the row has by default: as given, where it is offered.
  const Offer* find(std::size_t row) const;
};

// The answer is kept, for the last few thousand problems of the process; asking again costs about 0.1 us where the
// thread's last question was the same. Asked for one thread: where oneDNN does not offer an implementation for more, a
// plan runs it on one and says so.
std::shared_ptr<const Survey> survey(const ConvProblem& problem);

}  // namespace convoy::onednn
