#include <immintrin.h>

#include "ops/quantized/look_up.h"

namespace convoy::ops::avx512_vbmi {
namespace {

// A permutation takes the low seven bits of an index: one for the lower half of the table, one for the upper.
struct Halves {
  __m512i low, low_end, high, high_end;

  explicit Halves(const ByteTable& table)
      : low(_mm512_loadu_si512(table.data())),
        low_end(_mm512_loadu_si512(table.data() + 64)),
        high(_mm512_loadu_si512(table.data() + 128)),
        high_end(_mm512_loadu_si512(table.data() + 192)) {}

  __m512i operator()(__m512i index) const {
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), _mm512_permutex2var_epi8(low, index, low_end),
                                  _mm512_permutex2var_epi8(high, index, high_end));
  }
};

}  // namespace

void look_up_row(const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, std::int64_t count) {
  constexpr std::int64_t kBytes = sizeof(__m512i);
  const Halves halves(table);
  std::int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) _mm512_storeu_si512(y + i, halves(_mm512_loadu_si512(x + i)));
  if (i == count) return;
  const __mmask64 rest = ~__mmask64{0} >> (kBytes - (count - i));
  _mm512_mask_storeu_epi8(y + i, rest, halves(_mm512_maskz_loadu_epi8(rest, x + i)));
}

}  // namespace convoy::ops::avx512_vbmi
