#include "ops/quantized/quantize_row.h"
#include "simd/simd.h"

namespace convoy::ops::avx512 {

using namespace cpu::CONVOY_CPU_ISA;

namespace {

template <class Q>
void quantize(const float* x, float scale, std::int32_t zero, Q* y, std::int64_t count) {
  constexpr bool kSigned = Q(-1) < 0;
  const Vf scales = broadcast(scale), most = broadcast(1e6F);
  const Vi zeros = _mm512_set1_epi32(zero), least = _mm512_set1_epi32(-1000000), none = _mm512_setzero_si512();
  // What 32 bits can't hold (NaN, too small) becomes their lowest, what is too large is bounded: min(bound, NaN) is
  // NaN.
  const auto whole = [&](Vf v) {
    const Vi rounded = _mm512_cvtps_epi32(min(most, div(v, scales)));
    const Vi sum = _mm512_add_epi32(_mm512_max_epi32(rounded, least), zeros);
    return kSigned ? sum : _mm512_max_epi32(sum, none);
  };
  const auto store = [&](std::int64_t at, Lanes lanes, Vi v) {
    if constexpr (sizeof(Q) == 1) {
      _mm_mask_storeu_epi8(y + at, lanes, kSigned ? _mm512_cvtsepi32_epi8(v) : _mm512_cvtusepi32_epi8(v));
    } else {
      _mm256_mask_storeu_epi16(y + at, lanes, kSigned ? _mm512_cvtsepi32_epi16(v) : _mm512_cvtusepi32_epi16(v));
    }
  };
  const auto some = [&](std::int64_t at, std::int64_t lanes) {
    const Lanes first = first_lanes(static_cast<int>(lanes));
    store(at, first, whole(load(x + at, first)));
  };
  // Up to a line of x: a load from two of them takes twice as long.
  const auto ahead = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(x) / sizeof(float) % kLanes);
  std::int64_t i = 0;
  if (ahead > 0 && ahead < count) {
    some(0, ahead);
    i = ahead;
  }
  for (; i + kLanes <= count; i += kLanes) store(i, first_lanes(kLanes), whole(load(x + i)));
  if (i < count) some(i, count - i);
}

}  // namespace

void quantize_row(DataType type, const float* x, float scale, std::int32_t zero, void* y, std::int64_t count) {
  switch (type) {
    case DataType::u8:
      return quantize(x, scale, zero, static_cast<std::uint8_t*>(y), count);
    case DataType::s8:
      return quantize(x, scale, zero, static_cast<std::int8_t*>(y), count);
    case DataType::u16:
      return quantize(x, scale, zero, static_cast<std::uint16_t*>(y), count);
    default:
      return quantize(x, scale, zero, static_cast<std::int16_t*>(y), count);
  }
}

}  // namespace convoy::ops::avx512
