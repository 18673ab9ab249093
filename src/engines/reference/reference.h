// The oracle: plain loops over the formulas of convolution.h, double accumulation (32 bits that wrap for integers),
// every valid problem, never optimised. Other engines' results are compared with it, in full or at chosen elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "core/tolerance.h"

namespace convoy {

// Engine "reference".
const Engine& reference_engine();
// Problems without an element to multiply, which other engines leave to it.
const Engine& empty_engine();

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
  Arithmetic arithmetic = Arithmetic::direct;  // arithmetic_of() the engine's notes
  bool exact = false;                          // every output must be the oracle's own, bit for bit (-0 equals 0)
  std::int64_t full_terms = 100'000'000;       // check every output where the problem has at most so many products
  std::int64_t full_outputs = 4'000'000;       // and outputs
  std::int64_t samples = 4096;                 // otherwise at least so many outputs, corners and edges included
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

// What the oracle says of a problem with its data, computed once and compared with any number of outputs.
class Expectation {
 public:
  // args are those of the execution (w also where a plan has constant weights), but args.out is the prior contents of
  // out and is read only where beta != 0; none is kept. The choice of samples is fixed by the problem's dims.
  Expectation(const ConvProblem& problem, const ConvArgs& args, const VerifyOptions& options, ThreadTeam& team);

  bool full() const { return full_; }

  // `actual` is laid out as problem.out(). Without `special`, elements that are an infinity or a NaN before the
  // activation may be anything: for candidates with the note LOSES_SPECIAL_VALUES.
  Verification compare(const void* actual, Arithmetic arithmetic, bool exact = false, bool special = true) const;

  // By channel of out (its dim 1): the largest distance from the exact value, without the rounding to out's type, that
  // compare() accepts in one of the elements it looks at; where it looks at none of a channel, in any. 0: only the
  // oracle's own value is right.
  std::vector<double> tolerances(Arithmetic arithmetic) const;

 private:
  struct Element {
    std::int64_t offset;
    double exact, stored;
    double bounds[3];  // by Arithmetic
    bool special;      // an infinity or a NaN before the activation
  };
  Dims coords(std::int64_t index) const;

  TensorDesc out_;
  std::int64_t samples_;
  bool full_;
  std::vector<Element> elements_;
};

// Expectation and compare at once.
Verification verify_with_reference(const ConvProblem& problem, const ConvArgs& args, const void* actual,
                                   const VerifyOptions& options, ThreadTeam& team);

// What the notes of an engine or plan say: spreading, or winograd where they name it or the other transform that mixes
// a tile's pixels, FFT.
Arithmetic arithmetic_of(const std::vector<std::string>& notes);

}  // namespace convoy
