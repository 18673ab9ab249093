// What operators are predicted to take.
#include <algorithm>
#include <array>

#include "ops/problem.h"

namespace convoy::ops {
namespace {

// How an operator uses its time, as far as the model knows.
struct Kind {
  double start;  // seconds
  double rate;   // bytes a second of one thread, or multiplications where `products`
  bool products = false;
};

constexpr Kind kMoves{1e-6, 8e9};

Kind kind_of(const OpProblem&) { return kMoves; }

}  // namespace

double predict_seconds(const OpProblem& problem, const PlanRequest& request) {
  const Kind kind = kind_of(problem);
  return kind.start + bytes_moved(problem) / (kind.rate * std::max(1, request.threads));
}

}  // namespace convoy::ops
