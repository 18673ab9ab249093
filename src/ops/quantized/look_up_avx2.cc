#include <immintrin.h>

#include "ops/quantized/look_up.h"

namespace convoy::ops::avx2 {
namespace {

constexpr std::int64_t kBytes = sizeof(__m256i);

// Sixteen bytes of the table at a time: a shuffle takes those that the low four bits of an index name, and 0 where its
// highest bit is set. Indices of other sixteens get that bit by an addition that saturates.
inline __m256i looked_up(const __m256i* table, __m256i index) {
  __m256i result = _mm256_setzero_si256();
  for (int part = 0; part < 16; ++part) {
    const __m256i own = _mm256_sub_epi8(index, _mm256_set1_epi8(static_cast<char>(part * 16)));
    const __m256i at = _mm256_adds_epu8(own, _mm256_set1_epi8(0x70));
    result = _mm256_or_si256(result, _mm256_shuffle_epi8(table[part], at));
  }
  return result;
}

}  // namespace

void look_up_row(const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, std::int64_t count) {
  __m256i parts[16];
  for (int part = 0; part < 16; ++part) {
    parts[part] =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table.data() + part * 16)));
  }
  std::int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), looked_up(parts, index));
  }
  for (; i < count; ++i) y[i] = table[x[i]];
}

}  // namespace convoy::ops::avx2
