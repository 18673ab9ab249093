// How far a correct engine's output may lie from the exact one. Written once; every comparison with the oracle uses it.
//
// Accumulation. A sum of n products in a format with unit roundoff u, in any order, with or without fused multiply-add,
// has an error of at most gamma_n * S, gamma_n = n*u/(1 - n*u), S = sum |a_i*b_i| (Higham, Accuracy and Stability of
// Numerical Algorithms, 2nd ed., 3.1 and 4.2). That worst case needs all roundings to go one way. For roundings that
// are independent with mean zero, n can be replaced by lambda*sqrt(n), failing with a probability of at most
// 2*n*exp(-lambda^2*(1-u)^2/2) (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). The
// bound here is min(n+1, lambda*sqrt(n+1)) * u * S with lambda = 8: the rigorous bound up to 63 terms, and above it one
// that fails less than once in 10^9 sums of a million terms, yet notices one lost product of average size.
//
// bias, beta*out and gamma*z are terms of that same sum: an engine may begin with any of them, and then every partial
// sum, and the rounding of it, is of their size (Higham, 4.2: the error is sum_i u*|partial sum i|, at most
// (number of terms)*u*sum |term|, for any order). So each counts in n, and its magnitude in S; alpha, which may scale
// the inputs, the products or their sum, multiplies S, and adds two roundings to n, its own and the product's. Of a
// trained network with a bias of 3 and products that cancel, the bias is most of S.
//
// Underflow. A result below the normal numbers has an absolute error on top (Higham, 2.1, eq. 2.8), at most the
// smallest normal number where it is flushed to zero, as units for 16-bit products do: that is added per term.
//
// WINOGRAD. Transforms mix all pixels of a tile, so a rounding error scales with the tile's largest value, not with S:
// S becomes max|a| * sum |b| over the whole window, padding included. With the points 0, +-1, +-2, infinity, a rounding
// in the products reaches an output with sqrt(sum_j A_ij^2 * G_jk^2 * sum_l B_jl^2) <= 8.9 times its weight in one
// dimension, 79 in two. The roundings of the two transforms, the products and the sums over c add up like
// independent ones, while S counts absolute values of 9 taps: amplification 16 covers five standard deviations of
// F(4x4,3x3) with one channel, the worst case. The addends join after the transform, or in its last step: they are not
// amplified. FFT (note FFT) mixes a tile's pixels too, with orthogonal transforms: its errors scale the same way and
// are smaller.
//
// A value so large that it would show in the windows beside it, an infinity or a NaN must not be mixed with them: what
// a transform would spoil is computed without (docs/selection.md, special values). So in place of max|a| no more counts
// than kWinogradReach times the largest |a| of the output's own window (at least 1), and in place of sum |b| no more
// than as many weights of kWinogradReach times the filter's smallest tap, each tap the largest of its channels. Engines
// that can't do that say SPREADS_SPECIAL_VALUES (Arithmetic::spreading).
//
// Special values. Where the exact result is an infinity or a NaN only that is right. Where products or addends are
// finite, but their magnitudes' sum exceeds the format they are added up in, any result is: it depends on their order.
//
// Input rounding that the math mode allows is added per product: tf32 (u = 2^-11) on both inputs gives 2^-10*S, reduced
// (bf16, u = 2^-8) gives 2^-7*S, and reduced lets sums be kept in 16 bits (f16, u = 2^-11).
//
// Epilogue. An activation multiplies the error that comes in by its Lipschitz constant and adds its own approximation
// error. Finally out's own rounding: half a unit in the last place.
//
// Integers. The sum of products is exact, in 32 bits that wrap. Written as s32 it stays exact, with all that is added
// to it, as long as alpha and the addends are whole numbers, the activation only selects and nothing is requantized: no
// error at all, whatever the size. For every other output an engine may go on in f32, which is exact up to the first
// number that f32 can't hold, a sum from 2^24 on or a fraction; from there each operation adds a rounding of what it
// handles: 4*u*(|alpha*sum| + |beta*out| + |bias| + |gamma*z|) where something joins the sum, u times the value where
// it is requantized or goes into an activation.
//
// Whoever changes what is right or wrong here raises verification_rule in convoy/tuning_database.h, so that wrong
// results stored under the rule before count no longer.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/convolution.h"
#include "core/epilogue.h"

namespace convoy {

enum class Arithmetic : std::uint8_t { direct, winograd, spreading };

inline constexpr double kWinogradReach = 1024;

// What the bound needs to know of one output's reduction.
struct ReductionMagnitude {
  // For winograd and spreading both count the whole window, padding included.
  std::int64_t terms = 0;  // products in the sum
  double sum_abs = 0;      // sum |a*b|; for winograd and spreading max|a| * sum |b|
};

// Half the distance between neighbours of |value| in `type`; 0.5 for integers.
double half_ulp(DataType type, double value);

// Bound on |computed - exact| of one output before the rounding to out's type; `conv` is the exact sum. Infinite:
// anything may come out.
double error_before_rounding(const ConvProblem& problem, const ReductionMagnitude& magnitude, double conv,
                             const EpilogueValues& values, Arithmetic arithmetic);

// |actual - exact| in units of the tolerance: at most 1 is right. `exact` is the unrounded value, `stored` the same
// rounded and saturated to `type`, `bound` from error_before_rounding; with bound 0 only `stored` is right. A NaN or an
// infinity that should not be there, or is missing, is infinitely wrong; with an infinite bound nothing is. `stored`
// itself counts as 0, although rounding moved it by up to half a unit in the last place: for a requantized value near a
// tie that half is nearly the whole tolerance, and says nothing about the engine. An integer engine that rounds such a
// tie the other way scores nearly 1.
double error_in_tolerances(DataType type, double actual, double exact, double stored, double bound);

// The largest bounds of elements before their rounding to out's type (which is each element's own, half_ulp), by
// channel of an output (its dim 1).
class ChannelTolerances {
 public:
  explicit ChannelTolerances(const TensorDesc& out);
  // Of an element of `channel`, with its arguments of error_in_tolerances; one that is no finite number says nothing.
  void add(std::int64_t channel, double exact, double bound);
  // A channel without elements has the largest of all.
  std::vector<double> by_channel() &&;

 private:
  std::vector<double> largest_;  // negative: none yet
};

}  // namespace convoy
