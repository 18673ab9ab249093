// The functions that expressions are made of (expression.h), each as C++ and CUDA C have it: of operands a, b, c of a
// type C, of which U is the type that it wraps around in (itself of a float). An `any` takes all types, a `real`
// floats, a `whole` integers and bool. What is said to be true is 1, else 0. A vector unit has each any and real under
// the name vector_<name> (ops/elementwise/evaluator_vectors.inc), of f32.
#pragma once

// F1(name, kind, expression) of one operand, F2 of two, F3 of three.
#define CONVOY_ELEMENT_FUNCTIONS(F1, F2, F3)                                                  \
  F1(negate, any, C(-U(a)))                                                                   \
  F1(absolute, any, a <= C(0) ? C(C(0) - U(a)) : a)                                           \
  F1(sign, any, a != a ? a : C(C(a > C(0)) - C(a < C(0))))                                    \
  F1(floor, real, floor(a))                                                                   \
  F1(ceil, real, ceil(a))                                                                     \
  F1(round, real, rint(a))                                                                    \
  F1(sqrt, real, sqrt(a))                                                                     \
  F1(exp, real, exp(a))                                                                       \
  F1(expm1, real, expm1(a))                                                                   \
  F1(log, real, log(a))                                                                       \
  F1(log1p, real, log1p(a))                                                                   \
  F1(sin, real, sin(a))                                                                       \
  F1(cos, real, cos(a))                                                                       \
  F1(tan, real, tan(a))                                                                       \
  F1(asin, real, asin(a))                                                                     \
  F1(acos, real, acos(a))                                                                     \
  F1(atan, real, atan(a))                                                                     \
  F1(sinh, real, sinh(a))                                                                     \
  F1(cosh, real, cosh(a))                                                                     \
  F1(tanh, real, tanh(a))                                                                     \
  F1(asinh, real, asinh(a))                                                                   \
  F1(acosh, real, acosh(a))                                                                   \
  F1(atanh, real, atanh(a))                                                                   \
  F1(erf, real, erf(a))                                                                       \
  F1(complement, whole, C(~a))                                                                \
  F2(add, any, C(U(a) + U(b)))                                                                \
  F2(sub, any, C(U(a) - U(b)))                                                                \
  F2(mul, any, C(U(a) * U(b)))                                                                \
  F2(div, real, a / b)                                                                        \
  F2(quotient, whole, b == C(0) ? C(0) : b == C(-1) && C(-1) < C(0) ? C(-U(a)) : C(a / b))    \
  F2(residue, whole, b == C(0) || (b == C(-1) && C(-1) < C(0)) ? C(0) : C(a % b))             \
  F2(fmod, real, fmod(a, b))                                                                  \
  F2(pow, real, pow(a, b))                                                                    \
  F2(copysign, real, copysign(a, b))                                                          \
  F2(max, any, a > b || a != a ? a : b)                                                       \
  F2(min, any, a < b || a != a ? a : b)                                                       \
  F2(leaky, any, a < C(0) ? C(U(a) * U(b)) : a)                                               \
  F2(less, any, C(a < b))                                                                     \
  F2(less_equal, any, C(a <= b))                                                              \
  F2(equal, any, C(a == b))                                                                   \
  F2(differs, any, C(a != b))                                                                 \
  F2(bits_and, whole, C(a& b))                                                                \
  F2(bits_or, whole, C(a | b))                                                                \
  F2(bits_xor, whole, C(a ^ b))                                                               \
  F2(shift_left, whole, b < C(0) || U(b) >= 8 * sizeof(C) ? C(0) : C(U(a) << U(b)))           \
  F2(shift_right, whole, C(b < C(0) || U(b) >= 8 * sizeof(C) ? (a < C(0) ? -1 : 0) : a >> b)) \
  F3(select, any, a != C(0) ? b : c)
