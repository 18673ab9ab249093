// From f32 or f64 to a float of 8 bits or fewer, where what is out of range doesn't saturate.
#pragma once

#include <cmath>
#include <limits>

#include "ops/element.h"

namespace convoy::ops {

// Saturating, as the types' constructors do, or not: then what rounds beyond the largest value is an infinity (f8_e5m2)
// or NaN. f4_e2m1, which has neither, always saturates; f8_e8m0 is Cast's own affair.
template <class To, class From>
To round_to_small_float(From value, bool saturate) {
  constexpr bool has_infinity = std::is_same_v<To, F8E5M2>;
  // Halfway to the first value that the type does not have; ties go to the even significand, which may be that value's.
  constexpr From limit = std::is_same_v<To, F8E4M3> ? 464 : std::is_same_v<To, F8E4M3Fnuz> ? 248 : 61440;
  constexpr bool tie_fits = std::is_same_v<To, F8E4M3>;
  To result(value);
  if (saturate || std::is_same_v<To, F4E2M1>) return result;
  const From size = std::abs(value);
  if (size > limit || (size == limit && !tie_fits)) {
    if constexpr (has_infinity) {
      result.bits = value < 0 ? 0xfc : 0x7c;
    } else {
      result = To(std::numeric_limits<float>::quiet_NaN());
    }
  }
  return result;
}

}  // namespace convoy::ops
