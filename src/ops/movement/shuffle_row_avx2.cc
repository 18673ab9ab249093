#include <immintrin.h>

#include "ops/movement/shuffle_row.h"

namespace convoy::ops::avx2 {
namespace {

inline __m128i load(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

template <int kSteps, bool kFill>
void shuffle(const std::byte* x, const ShuffleStep* steps, const Sixteen* fills, __m128i fill, std::byte* y,
             std::int64_t bytes) {
  const std::int64_t last = bytes - 16;
  for (std::int64_t at = 0;; at = at + 16 < last ? at + 16 : last) {
    __m128i made = _mm_shuffle_epi8(load(x + steps[0].from), load(steps[0].index.data()));
    for (int k = 1; k < kSteps; ++k) {
      made = _mm_or_si128(made, _mm_shuffle_epi8(load(x + steps[k].from), load(steps[k].index.data())));
    }
    steps += kSteps;
    if (kFill) made = _mm_or_si128(made, _mm_and_si128(fill, load(fills++)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + at), made);
    if (at == last) return;
  }
}

}  // namespace

void shuffle_row(const std::byte* x, const ShuffleStep* steps, int steps_per_block, const Sixteen* fills,
                 const Sixteen& fill, std::byte* y, std::int64_t bytes) {
  const auto of = [&]<int kSteps>() { return fills != nullptr ? shuffle<kSteps, true> : shuffle<kSteps, false>; };
  const auto run = steps_per_block == 1   ? of.operator()<1>()
                   : steps_per_block == 2 ? of.operator()<2>()
                   : steps_per_block == 3 ? of.operator()<3>()
                                          : of.operator()<4>();
  run(x, steps, fills, load(fill.data()), y, bytes);
}

}  // namespace convoy::ops::avx2
