// Real numbers (attributes, results of functions) made elements of a tensor.
#pragma once

#include <limits>
#include <type_traits>

namespace convoy::ops {

// `value` as a C, which is a float, a double or an integer: cut off towards zero; beyond what C holds it is C's largest
// or lowest, and NaN is 0.
template <class C>
C from_real(double value) {
  using Limits = std::numeric_limits<C>;
  if constexpr (std::is_floating_point_v<C>) {
    return static_cast<C>(value);
  } else {
    if (value != value) return 0;
    if (value <= static_cast<double>(Limits::lowest())) return Limits::lowest();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();  // 2^63 for 64 bits, which C does not hold
    return static_cast<C>(value);
  }
}

}  // namespace convoy::ops
