// Where A and B are one dim.
#include "layout.cuh"

// Vectors of as many elements on both sides, `count` in all; A is the only inner dim, of no size where it is the only
// dim. Grid-stride, four vectors in flight.
extern "C" __global__ void __launch_bounds__(THREADS) copy(const char* __restrict__ from, char* __restrict__ to,
                                                           unsigned long long count) {
  constexpr Index<SMALL> runs = SIZE_A == 0 ? 1 : SIZE_A / FROM_VECTOR;
  const auto total = static_cast<Index<SMALL>>(count);
  constexpr int batch = 4;
  const Index<SMALL> step = static_cast<Index<SMALL>>(gridDim.x) * THREADS;
  for (Index<SMALL> first = static_cast<Index<SMALL>>(blockIdx.x) * THREADS + threadIdx.x; first < total;
       first += step * batch) {
    Vector<FROM_BYTES, FROM_VECTOR> vectors[batch];
    char* targets[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      const Index<SMALL> i = first + k * step;
      if (i >= total) continue;
      const Index<SMALL> a = (SIZE_A == 0 ? i : i % runs) * FROM_VECTOR, rest = SIZE_A == 0 ? 0 : i / runs;
      const auto c3 = rest % OUTER_3;
      const Offsets outer = outer_offsets(rest / OUTER_3);
      vectors[k].load(
          from + (outer.from + static_cast<long long>(c3) * FROM_OUTER_3 + static_cast<long long>(a) * FROM_STRIDE_A) *
                     FROM_BYTES);
      targets[k] = to + (outer.to + static_cast<long long>(c3) * TO_OUTER_3 + static_cast<long long>(a) * TO_STRIDE_A) *
                            TO_BYTES;
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (first + k * step >= total) continue;
      Vector<TO_BYTES, FROM_VECTOR> made;
      made.clear();
#pragma unroll
      for (int e = 0; e < FROM_VECTOR; ++e) made.put(e, converted(vectors[k].get(e)));
      made.store(targets[k]);
    }
  }
}
