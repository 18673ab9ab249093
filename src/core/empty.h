// Problems without an element of x, w or y (a batch of 0, no channels, an empty map): there is nothing to multiply.
// Where out has elements the sums are 0, and the epilogue makes of them what it makes of any.
#pragma once

#include "convoy/engine.h"

namespace convoy {

inline bool is_empty(const ConvProblem& p) { return p.x.elements() == 0 || p.w.elements() == 0 || p.y.elements() == 0; }

// An engine that runs them; refuse() keeps them from others, so that no kernel has to think of them. Oracles run any.
class TakesEmpty {
 protected:
  ~TakesEmpty() = default;
};
inline bool takes_empty(const Engine& engine) {
  return engine.info().oracle || dynamic_cast<const TakesEmpty*>(&engine) != nullptr;
}

}  // namespace convoy
