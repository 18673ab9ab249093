#include "ops/rows_avx2.h"

#include <cstring>

#include "simd/avx2_elements.h"

namespace convoy::ops::avx2 {
namespace {

using convoy::avx2::Bf16;
using convoy::avx2::F16;
using convoy::avx2::kLanes;
using convoy::avx2::widen_bytes;

constexpr std::int64_t kBytes = 32;  // bytes of a vector

// ---- quantized bytes

CONVOY_AVX2 __m256i pack(__m256i low, __m256i high, std::uint8_t) { return _mm256_packus_epi16(low, high); }
CONVOY_AVX2 __m256i pack(__m256i low, __m256i high, std::int8_t) { return _mm256_packs_epi16(low, high); }

// The zero point is subtracted as an integer, which is exact as it is in f32 and leaves the floating-point adders free.
template <class Q>
CONVOY_AVX2 __m256 real(const Q* p, __m256 scale, __m256i zero) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(widen_bytes(p), zero)), scale);
}

template <QLinearFunction kFunction>
CONVOY_AVX2 __m256 combined(__m256 a, __m256 b) {
  return kFunction == QLinearFunction::add ? _mm256_add_ps(a, b) : _mm256_mul_ps(a, b);
}

template <class Q>
struct Operand {
  const Q* data;
  bool broadcasts;
  __m256 scale;
  __m256i zero;
  __m256 constant;  // its value where it broadcasts

  explicit Operand(const QuantizedRow& row)
      : data(static_cast<const Q*>(row.data)),
        broadcasts(row.broadcasts),
        scale(_mm256_set1_ps(row.scale)),
        zero(_mm256_set1_epi32(row.zero)),
        constant(
            _mm256_mul_ps(_mm256_set1_ps(static_cast<float>(static_cast<std::int32_t>(*data) - row.zero)), scale)) {}
};

// 32 values, of which value(part) gives eight, quantized.
template <class Q, class Value>
CONVOY_AVX2 void quantized_block(__m256 scale, __m256i zero, Q* y, Value value) {
  __m256i rounded[4];
  for (int part = 0; part < 4; ++part) {
    const __m256 scaled = _mm256_div_ps(value(part), scale);
    // Conversion rounds to nearest even. What it can't represent (NaN, too small) becomes the least s32, which
    // saturates as it should; what is too large is bounded, below it stays as it is. min(bound, NaN) is NaN.
    rounded[part] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(1e6F), scaled));
  }
  // Saturated to s16 no zero point brings a value that was outside the type back into it.
  const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(rounded[0], rounded[1]), zero);
  const __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(rounded[2], rounded[3]), zero);
  // Each pack works within halves of 128 bits: groups of four bytes come out as 0 2 4 6 1 3 5 7 of the order wanted.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm256_permutevar8x32_epi32(pack(low, high, Q{}), order));
}

template <class Q, QLinearFunction kFunction, bool kBroadcastA, bool kBroadcastB>
CONVOY_AVX2 void qlinear_block(const Operand<Q>& a, const Operand<Q>& b, __m256 scale, __m256i zero, const Q* from_a,
                               const Q* from_b, Q* y) {
  quantized_block(
      scale, zero, y, [&](int part) __attribute__((always_inline)) {
        const __m256 left = kBroadcastA ? a.constant : real(from_a + part * kLanes, a.scale, a.zero);
        const __m256 right = kBroadcastB ? b.constant : real(from_b + part * kLanes, b.scale, b.zero);
        return combined<kFunction>(left, right);
      });
}

template <class Q>
void quantize_loop(const float* x, float y_scale, std::int32_t y_zero, Q* y, std::int64_t count) {
  const __m256 scale = _mm256_set1_ps(y_scale);
  const __m256i zero = _mm256_set1_epi16(static_cast<std::int16_t>(y_zero));
  const auto block = [&](const float* from, Q* to) {
    quantized_block(
        scale, zero,
        to, [&](int part) __attribute__((always_inline)) { return _mm256_loadu_ps(from + part * kLanes); });
  };
  std::int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) block(x + i, y + i);
  if (i == count) return;
  float rest_x[kBytes] = {};
  Q rest_y[kBytes];
  std::memcpy(rest_x, x + i, static_cast<std::size_t>(count - i) * sizeof(float));
  block(rest_x, rest_y);
  std::memcpy(y + i, rest_y, static_cast<std::size_t>(count - i));
}

template <class Q, QLinearFunction kFunction, bool kBroadcastA, bool kBroadcastB>
void qlinear_loop(const QuantizedRow& row_a, const QuantizedRow& row_b, float y_scale, std::int32_t y_zero, Q* y,
                  std::int64_t count) {
  const Operand<Q> a(row_a), b(row_b);
  const __m256 scale = _mm256_set1_ps(y_scale);
  const __m256i zero = _mm256_set1_epi16(static_cast<std::int16_t>(y_zero));
  std::int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    qlinear_block<Q, kFunction, kBroadcastA, kBroadcastB>(a, b, scale, zero, a.data + i, b.data + i, y + i);
  }
  if (i == count) return;
  Q rest_a[kBytes] = {}, rest_b[kBytes] = {}, rest_y[kBytes];
  const auto rest = static_cast<std::size_t>(count - i);
  if (!kBroadcastA) std::memcpy(rest_a, a.data + i, rest);
  if (!kBroadcastB) std::memcpy(rest_b, b.data + i, rest);
  qlinear_block<Q, kFunction, kBroadcastA, kBroadcastB>(a, b, scale, zero, rest_a, rest_b, rest_y);
  std::memcpy(y + i, rest_y, rest);
}

template <class Q, QLinearFunction kFunction>
void qlinear(const QuantizedRow& a, const QuantizedRow& b, float scale, std::int32_t zero, void* y,
             std::int64_t count) {
  auto* to = static_cast<Q*>(y);
  if (a.broadcasts) return qlinear_loop<Q, kFunction, true, false>(a, b, scale, zero, to, count);
  if (b.broadcasts) return qlinear_loop<Q, kFunction, false, true>(a, b, scale, zero, to, count);
  qlinear_loop<Q, kFunction, false, false>(a, b, scale, zero, to, count);
}

template <class Q>
void qlinear(QLinearFunction function, const QuantizedRow& a, const QuantizedRow& b, float scale, std::int32_t zero,
             void* y, std::int64_t count) {
  if (function == QLinearFunction::add) return qlinear<Q, QLinearFunction::add>(a, b, scale, zero, y, count);
  qlinear<Q, QLinearFunction::multiply>(a, b, scale, zero, y, count);
}

// ---- windows of 16-bit floats

// Eight elements of a tap, or one.
struct Neighbours {
  CONVOY_AVX2 __m128i load(const std::uint16_t* p, std::int64_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i));
  }
};
struct EverySecond {
  // Elements 0 2 4 6 are the even ones from p on, 8 10 12 14 the odd ones from p + 7 on: nothing beyond 14 is read.
  CONVOY_AVX2 __m128i load(const std::uint16_t* p, std::int64_t i) {
    const __m128i low = Neighbours::load(p, 2 * i), high = Neighbours::load(p, 2 * i + 7);
    return _mm_packus_epi32(_mm_and_si128(low, _mm_set1_epi32(0xffff)), _mm_srli_epi32(high, 16));
  }
};
struct Single {
  CONVOY_AVX2 __m128i load(const std::uint16_t* p, std::int64_t at) { return _mm_cvtsi32_si128(p[at]); }
};

template <class T, PoolFunction kFunction, class Load>
CONVOY_AVX2 __m128i pooled(const void* const* taps, std::int64_t tap_count, std::int64_t at, __m256 divisor) {
  constexpr bool is_max = kFunction == PoolFunction::max;
  __m256 acc = _mm256_set1_ps(is_max ? -__builtin_inff() : 0.0F);
  for (std::int64_t k = 0; k < tap_count; ++k) {
    const __m256 value = T::widen(Load::load(static_cast<const std::uint16_t*>(taps[k]), at));
    // max_ps(a, b) is a > b ? a : b.
    acc = is_max ? _mm256_max_ps(value, acc) : _mm256_add_ps(acc, value);
  }
  return T::narrow(is_max ? acc : _mm256_div_ps(acc, divisor));
}

template <class T, PoolFunction kFunction, class Load>
void pool_vectors(const void* const* taps, std::int64_t tap_count, std::int64_t stride, std::int64_t count,
                  __m256 divisor, std::uint16_t* y) {
  const auto store = [&](std::int64_t i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), pooled<T, kFunction, Load>(taps, tap_count, i, divisor));
  };
  if (count >= kLanes) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(i);
    if (i < count) store(count - kLanes);  // some once more
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const __m128i value = pooled<T, kFunction, Single>(taps, tap_count, i * stride, divisor);
    y[i] = static_cast<std::uint16_t>(_mm_extract_epi16(value, 0));  // a macro in clang
  }
}

template <class T, PoolFunction kFunction>
void pool(const void* const* taps, std::int64_t tap_count, std::int64_t stride, std::int64_t count, float divisor,
          void* y) {
  auto* to = static_cast<std::uint16_t*>(y);
  const __m256 divisors = _mm256_set1_ps(divisor);
  if (stride == 1) return pool_vectors<T, kFunction, Neighbours>(taps, tap_count, stride, count, divisors, to);
  pool_vectors<T, kFunction, EverySecond>(taps, tap_count, stride, count, divisors, to);
}

template <class T>
void pool(PoolFunction function, const void* const* taps, std::int64_t tap_count, std::int64_t stride,
          std::int64_t count, float divisor, void* y) {
  if (function == PoolFunction::max) return pool<T, PoolFunction::max>(taps, tap_count, stride, count, divisor, y);
  pool<T, PoolFunction::average>(taps, tap_count, stride, count, divisor, y);
}

// ---- windows of bytes

struct ByteNeighbours {
  CONVOY_AVX2 __m256i load(const std::uint8_t* p, std::int64_t i) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i));
  }
};
struct EverySecondByte {
  // The even ones from p on, and the odd ones from p + 31 on: nothing beyond p + 62 is read.
  CONVOY_AVX2 __m256i load(const std::uint8_t* p, std::int64_t i) {
    const __m256i low = ByteNeighbours::load(p, 2 * i), high = ByteNeighbours::load(p, 2 * i + 31);
    const __m256i both =
        _mm256_packus_epi16(_mm256_and_si256(low, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(high, 8));
    return _mm256_permute4x64_epi64(both, 0xd8);
  }
};

template <bool kSigned, class Load>
void largest_bytes(const void* const* taps, std::int64_t tap_count, std::int64_t stride, std::int64_t count,
                   std::uint8_t* y) {
  const auto at = [&](std::int64_t k) { return static_cast<const std::uint8_t*>(taps[k]); };
  const auto larger = [](std::uint8_t a, std::uint8_t b) {
    return kSigned ? static_cast<std::int8_t>(b) > static_cast<std::int8_t>(a) : b > a;
  };
  const auto store = [&](std::int64_t i) {
    __m256i best = _mm256_set1_epi8(kSigned ? -128 : 0);
    for (std::int64_t k = 0; k < tap_count; ++k) {
      const __m256i value = Load::load(at(k), i);
      best = kSigned ? _mm256_max_epi8(best, value) : _mm256_max_epu8(best, value);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), best);
  };
  if (count >= kBytes) {
    std::int64_t i = 0;
    for (; i + kBytes <= count; i += kBytes) store(i);
    if (i < count) store(count - kBytes);  // some once more
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t best = kSigned ? 0x80 : 0;
    for (std::int64_t k = 0; k < tap_count; ++k) {
      const std::uint8_t value = at(k)[i * stride];
      best = larger(best, value) ? value : best;
    }
    y[i] = best;
  }
}

template <bool kSigned>
void largest_bytes(const void* const* taps, std::int64_t tap_count, std::int64_t stride, std::int64_t count, void* y) {
  auto* to = static_cast<std::uint8_t*>(y);
  if (stride == 1) return largest_bytes<kSigned, ByteNeighbours>(taps, tap_count, stride, count, to);
  largest_bytes<kSigned, EverySecondByte>(taps, tap_count, stride, count, to);
}

}  // namespace

void qlinear_row(DataType type, QLinearFunction function, const QuantizedRow& a, const QuantizedRow& b, float scale,
                 std::int32_t zero, void* y, std::int64_t count) {
  if (type == DataType::u8) return qlinear<std::uint8_t>(function, a, b, scale, zero, y, count);
  qlinear<std::int8_t>(function, a, b, scale, zero, y, count);
}

void quantize_row(DataType type, const float* x, float scale, std::int32_t zero, void* y, std::int64_t count) {
  if (type == DataType::u8) return quantize_loop(x, scale, zero, static_cast<std::uint8_t*>(y), count);
  quantize_loop(x, scale, zero, static_cast<std::int8_t*>(y), count);
}

bool has_pool_row(DataType type, PoolFunction function, std::int64_t stride) {
  const bool byte = type == DataType::u8 || type == DataType::s8;
  return (stride == 1 || stride == 2) &&
         (type == DataType::f16 || type == DataType::bf16 || (byte && function == PoolFunction::max));
}

void pool_row(DataType type, PoolFunction function, const void* const* taps, std::int64_t tap_count,
              std::int64_t stride, std::int64_t count, float divisor, void* y) {
  switch (type) {
    case DataType::f16:
      return pool<F16>(function, taps, tap_count, stride, count, divisor, y);
    case DataType::bf16:
      return pool<Bf16>(function, taps, tap_count, stride, count, divisor, y);
    case DataType::u8:
      return largest_bytes<false>(taps, tap_count, stride, count, y);
    default:
      return largest_bytes<true>(taps, tap_count, stride, count, y);
  }
}

}  // namespace convoy::ops::avx2
