// One problem with its data, ready to compute any output element.
#pragma once

#include <vector>

#include "engines/reference/reduce.h"
#include "engines/reference/reference.h"

namespace convoy::reference {

class Evaluator {
 public:
  // `args.w` is the weights, also where the plan was made with constant ones.
  Evaluator(const ConvProblem& problem, const ConvArgs& args);

  const Geometry& geometry() const { return geometry_; }
  const Operands& operands() const { return operands_; }

  // The sum and the values it meets in the epilogue. `at` is in Geometry's five dims.
  Reduction reduce(const Coords& at) const;
  EpilogueValues values(const Coords& at) const;

  double exact(double sum, const EpilogueValues& values) const;   // before rounding, zero point included
  double stored(double sum, const EpilogueValues& values) const;  // rounded for store_from_double
  void store(const Coords& at, void* out) const;

 private:
  const ConvProblem& problem_;
  const ConvArgs args_;
  std::vector<std::byte> gated_;  // x times the gate, rounded to x's type; packed, as geometry_.x says then
  Geometry geometry_;
  Operands operands_;
  ReduceFunction reduce_;
};

}  // namespace convoy::reference
