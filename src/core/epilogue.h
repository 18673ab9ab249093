// The epilogue's arithmetic for one element in double precision: what convolution.h's formula means. The oracle
// computes with it, and engines' fused epilogues are checked against it.
#pragma once

#include <string>
#include <utility>

#include "convoy/convolution.h"

namespace convoy {

// What a loop that ends with the whole epilogue does besides, for Plan::stages: " + bias + residual + relu", "" for
// none.
std::string epilogue_text(const ConvProblem& problem);

// act(v). `slope` is prelu's value for the channel and is not read by other kinds. NaN stays NaN.
double activate(const Activation& activation, double v, double slope = 0);

// The values that meet the convolution sum in one output element. Those that the problem does not use are not read.
struct EpilogueValues {
  double prior = 0;  // out before the execution (beta != 0)
  double bias = 0;
  double z = 0;      // the residual (gamma != 0, or residual)
  double slope = 0;  // prelu
  double scale = 1;  // requantization
};

// act(alpha*conv + beta*prior + bias + gamma*z), times scale where the problem requantizes; with a residual the sum
// that it makes of this: the value that is rounded to out.
double epilogue_before_rounding(const ConvProblem& problem, double conv, const EpilogueValues& values);

// With Epilogue::residual: t of convolution.h from what requantization rounds. NaN stays NaN.
double byte_of(const ConvProblem& problem, double scaled);
// The least and the greatest value of s8 or u8.
std::pair<double, double> byte_limits(DataType type);

// Rounds as q does: to the nearest integer, ties to even, before the zero point is added, where a requantized output is
// an integer type; otherwise the value itself. store_from_double then rounds and saturates to out's type.
double quantize(const ConvProblem& problem, double before_rounding);

}  // namespace convoy
