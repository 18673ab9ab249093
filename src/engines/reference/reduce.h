// The sum behind one output element, from operands of any type.
#pragma once

#include "engines/reference/geometry.h"

namespace convoy::reference {

struct Reduction {
  double sum = 0;
  double sum_abs = 0;      // sum |a*b|
  double largest_a = 0;    // max |a|; infinite where one is a NaN
  std::int64_t terms = 0;  // products that meet data, not padding
};

// The two tensors a pass reads (fprop x, w; dgrad y, w; wgrad x, y).
struct Operands {
  DataType a_type;
  DataType b_type;
  const void* a = nullptr;
  const void* b = nullptr;
  std::int32_t a_zero_point = 0;  // integer problems
  std::int32_t b_zero_point = 0;
};

// Floats accumulate in double; integers (compute s32) in 32 bits that wrap. Chosen once a problem, called once an
// output.
using ReduceFunction = Reduction (*)(const Geometry& geometry, const Coords& at, const Operands& operands);
ReduceFunction reduce_function(const ConvProblem& problem, const Operands& operands);

}  // namespace convoy::reference
