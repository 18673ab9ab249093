// The oracle: plain loops over the formulas of convolution.h, double accumulation (32 bits that wrap for integers),
// every valid problem, never optimised. Other engines' results are compared with it, in full or at chosen elements.
#pragma once

#include <cstdint>

#include "convoy/engine.h"
#include "core/tolerance.h"

namespace convoy {

// Engine "reference".
const Engine& reference_engine();

struct ReferenceElement {
  double exact = 0;   // before rounding and saturation to out's type, zero point included
  double stored = 0;  // what the oracle stores, as a double
  double bound = 0;   // error_before_rounding of a correct engine
};

// Any one output element, for problems too big to compute whole. `coords` has the rank of out. With beta != 0, args.out
// holds out as it was before the execution. Preconditions: the problem is valid, args has every tensor it needs.
ReferenceElement reference_element(const ConvProblem& problem, const ConvArgs& args, const std::int64_t* coords,
                                   Arithmetic arithmetic = Arithmetic::direct);

struct VerifyOptions {
  Arithmetic arithmetic = Arithmetic::direct;  // winograd for engines that declare the note WINOGRAD
  bool exact = false;                          // every output must be the oracle's own, bit for bit (-0 equals 0)
  std::int64_t full_terms = 100'000'000;       // check every output where the problem has at most so many products
  std::int64_t samples = 4096;                 // otherwise at least so many outputs, corners included
};

struct Verification {
  double max_error = 0;  // in units of the tolerance: at most 1 is right
  Dims worst;            // where; a channel from C up is the padding of a blocked out, which must be zero
  double actual = 0;     // the element there
  double expected = 0;
  std::int64_t checked = 0;
  bool full = false;
  bool ok() const { return max_error <= 1; }
};

// Compares `actual`, laid out as problem.out(), with the oracle. args are those of the execution, but args.out is the
// prior contents of out and is read only where beta != 0. The choice of samples is fixed by the problem's dims.
Verification verify_with_reference(const ConvProblem& problem, const ConvArgs& args, const void* actual,
                                   const VerifyOptions& options, ThreadTeam& team);

// winograd where the notes of an engine or plan name it.
Arithmetic arithmetic_of(const std::vector<std::string>& notes);

}  // namespace convoy
