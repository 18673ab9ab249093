// Four taps of each of many points in a plane, as bilinear sampling reads them, vectorised for AVX2: a point's taps are
// two loads, its weights half of one.
#pragma once

#include <cstdint>

namespace convoy::ops::avx2 {

// y[p] = the sum of weights[4 * p + k] * {x[o], x[o + 1], x[o + down], x[o + down + 1]}[k] with o = offsets[p].
void sum_quads(const float* x, const std::int64_t* offsets, std::int64_t down, const float* weights, std::int64_t count,
               float* y);

}  // namespace convoy::ops::avx2
