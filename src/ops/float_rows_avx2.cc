#include "ops/float_rows_avx2.h"

#include <cstring>

#include "simd/avx2_elements.h"
#include "simd/simd.h"

namespace convoy::ops::avx2 {
namespace {

using convoy::avx2::Bf16;
using convoy::avx2::F16;
using convoy::avx2::kLanes;
using convoy::avx2::widen_bytes;
namespace simd = convoy::cpu::avx2;
using simd::Vf;

// ---- narrow types

template <class T>
void widen_halves(const std::uint16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    Vf low, high;
    T::widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)), low, high);
    simd::store(y + i, low);
    simd::store(y + i + kLanes, high);
  }
  for (; i < count; i += kLanes) {
    const std::int64_t rest = count - i < kLanes ? count - i : kLanes;
    std::uint16_t last[kLanes] = {};
    std::memcpy(last, x + i, static_cast<std::size_t>(rest) * sizeof(*x));
    simd::store(y + i, T::widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(last))),
                simd::first_lanes(static_cast<int>(rest)));
  }
}

template <class T>
void narrow_halves(const float* x, std::uint16_t* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    const __m256i narrow = T::narrow(simd::load(x + i), simd::load(x + i + kLanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), narrow);
  }
  for (; i < count; i += kLanes) {
    const std::int64_t rest = count - i < kLanes ? count - i : kLanes;
    std::uint16_t last[kLanes];
    const __m128i narrow = T::narrow(simd::load(x + i, simd::first_lanes(static_cast<int>(rest))));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(last), narrow);
    std::memcpy(y + i, last, static_cast<std::size_t>(rest) * sizeof(*y));
  }
}

template <class Q>
void widen_integers(const Q* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) simd::store(y + i, _mm256_cvtepi32_ps(widen_bytes(x + i)));
  for (; i < count; ++i) y[i] = static_cast<float>(x[i]);
}

double total(__m256d low, __m256d high) {
  double lanes[4];
  _mm256_storeu_pd(lanes, _mm256_add_pd(low, high));
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace

void widen_row(DataType type, const void* x, float* y, std::int64_t count) {
  switch (type) {
    case DataType::f16:
      return widen_halves<F16>(static_cast<const std::uint16_t*>(x), y, count);
    case DataType::bf16:
      return widen_halves<Bf16>(static_cast<const std::uint16_t*>(x), y, count);
    case DataType::u8:
      return widen_integers(static_cast<const std::uint8_t*>(x), y, count);
    default:
      return widen_integers(static_cast<const std::int8_t*>(x), y, count);
  }
}

void narrow_row(DataType type, const float* x, void* y, std::int64_t count) {
  if (type == DataType::f16) return narrow_halves<F16>(x, static_cast<std::uint16_t*>(y), count);
  narrow_halves<Bf16>(x, static_cast<std::uint16_t*>(y), count);
}

RowSums sums_row(const float* x, double center, std::int64_t count) {
  const __m256d centers = _mm256_set1_pd(center);
  __m256d sums[4] = {}, squares[4] = {};  // as many as hide the latency of a sum
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      const __m256d v = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * quarter)), centers);
      sums[quarter] = _mm256_add_pd(sums[quarter], v);
      squares[quarter] = _mm256_fmadd_pd(v, v, squares[quarter]);
    }
  }
  RowSums result{total(_mm256_add_pd(sums[0], sums[1]), _mm256_add_pd(sums[2], sums[3])),
                 total(_mm256_add_pd(squares[0], squares[1]), _mm256_add_pd(squares[2], squares[3]))};
  for (; i < count; ++i) {
    const double v = static_cast<double>(x[i]) - center;
    result.sum += v;
    result.squares += v * v;
  }
  return result;
}

void add_row(const float* x, const float* center, double* sums, double* squares, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256d v = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i)), _mm256_cvtps_pd(_mm_loadu_ps(center + i)));
    _mm256_storeu_pd(sums + i, _mm256_add_pd(_mm256_loadu_pd(sums + i), v));
    _mm256_storeu_pd(squares + i, _mm256_fmadd_pd(v, v, _mm256_loadu_pd(squares + i)));
  }
  for (; i < count; ++i) {
    const double v = static_cast<double>(x[i]) - static_cast<double>(center[i]);
    sums[i] += v;
    squares[i] += v * v;
  }
}

namespace {

// One as the C++ rows have it (elementwise/cast.cc).
std::int64_t truncated(float x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0F) return INT64_MAX;
  return x < -9223372036854775808.0F ? INT64_MIN : static_cast<std::int64_t>(x);
}

// Eight at a time that 32 bits hold, as almost all do: the instruction gives their lowest for what they do not.
template <class Whole, class Store>
CONVOY_AVX2 void truncate_to(const float* x, Whole* y, std::int64_t count, Store store) {
  const __m256i none = _mm256_set1_epi32(INT32_MIN);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256i whole = _mm256_cvttps_epi32(_mm256_loadu_ps(x + i));
    if (__builtin_expect(_mm256_testz_si256(_mm256_cmpeq_epi32(whole, none), _mm256_set1_epi32(-1)), 1)) {
      store(y + i, whole);
    } else {
      for (std::int64_t k = i; k < i + kLanes; ++k) y[k] = static_cast<Whole>(truncated(x[k]));
    }
  }
  for (; i < count; ++i) y[i] = static_cast<Whole>(truncated(x[i]));
}

}  // namespace

void truncate_row(const float* x, std::int32_t* y, std::int64_t count) {
  truncate_to(x, y, count, [](std::int32_t* to, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); });
}

void truncate_row(const float* x, std::int64_t* y, std::int64_t count) {
  truncate_to(x, y, count, [](std::int64_t* to, __m256i v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4), _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
  });
}

void truncate_row(const float* x, void* y, std::int64_t count) {
  // As 32-bit integers: what those do not hold becomes their lowest, whose lowest byte is that of a multiple of 256, as
  // all f32 from 2^31 on are. From 2^63 on it is that of the highest 64-bit integer.
  const auto bytes = [](Vf v) {
    const __m256i whole = _mm256_cvttps_epi32(v);
    const Vf beyond = _mm256_cmp_ps(v, _mm256_set1_ps(9223372036854775808.0F), _CMP_GE_OQ);
    return _mm256_and_si256(_mm256_or_si256(whole, _mm256_castps_si256(beyond)), _mm256_set1_epi32(0xff));
  };
  const auto block = [&](const float* from, std::uint8_t* to) {
    const __m256i low = _mm256_packus_epi32(bytes(simd::load(from)), bytes(simd::load(from + kLanes)));
    const __m256i high =
        _mm256_packus_epi32(bytes(simd::load(from + 2 * kLanes)), bytes(simd::load(from + 3 * kLanes)));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order));
  };
  constexpr std::int64_t kBlock = 4 * kLanes;
  auto* to = static_cast<std::uint8_t*>(y);
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) block(x + i, to + i);
  if (i == count) return;
  float rest[kBlock] = {};
  std::uint8_t made[kBlock];
  std::memcpy(rest, x + i, static_cast<std::size_t>(count - i) * sizeof(float));
  block(rest, made);
  std::memcpy(to + i, made, static_cast<std::size_t>(count - i));
}

void nonzero_row(const std::int64_t* x, std::uint8_t* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] != 0 ? 1 : 0;
}

void longs_row(const std::int64_t* x, float* y, std::int64_t count) {
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
}

void nonzero_row(const float* x, std::uint8_t* y, std::int64_t count) {
  const auto lanes = [](const float* from) {
    return _mm256_castps_si256(_mm256_cmp_ps(_mm256_loadu_ps(from), _mm256_setzero_ps(), _CMP_NEQ_UQ));
  };
  constexpr std::int64_t kBlock = 4 * kLanes;
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const __m256i low = _mm256_packs_epi32(lanes(x + i), lanes(x + i + kLanes));
    const __m256i high = _mm256_packs_epi32(lanes(x + i + 2 * kLanes), lanes(x + i + 3 * kLanes));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i made = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm256_and_si256(made, _mm256_set1_epi8(1)));
  }
  for (; i < count; ++i) y[i] = x[i] != 0 ? 1 : 0;
}

namespace {

struct Pairs {
  Vf first, second;
};
// x[at[l]] and x[at[l] + 1]: a load for both, where a gather takes as long as eight of these.
Pairs pairs_at(const float* x, const std::int32_t* at) {
  const auto two = [&](int a, int b) {
    const __m128 low = _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64*>(x + at[a]));
    return _mm_loadh_pi(low, reinterpret_cast<const __m64*>(x + at[b]));
  };
  const __m256 even = _mm256_insertf128_ps(_mm256_castps128_ps256(two(0, 1)), two(4, 5), 1);
  const __m256 odd = _mm256_insertf128_ps(_mm256_castps128_ps256(two(2, 3)), two(6, 7), 1);
  return {_mm256_shuffle_ps(even, odd, 0x88), _mm256_shuffle_ps(even, odd, 0xdd)};
}

}  // namespace

void weighted_row(const float* x, const std::int32_t* base, const std::int32_t* index, const float* weight,
                  std::int64_t taps, std::int64_t count, float* y) {
  for (std::int64_t o = 0; o + kLanes <= count; o += kLanes) {
    const std::int32_t from = base[o / kLanes];
    if (from == kPairs) {
      const Pairs pairs = pairs_at(x, index + o);
      const Vf first = simd::mul(simd::load(weight + o), pairs.first);
      simd::store(y + o, simd::add(first, simd::mul(simd::load(weight + count + o), pairs.second)));
      continue;
    }
    const Vf window = simd::load(x + (from < 0 ? 0 : from), from < 0 ? simd::first_lanes(0) : simd::all_lanes());
    Vf sum = simd::zero();
    for (std::int64_t t = 0; t < taps; ++t) {
      const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index + t * count + o));
      const Vf value = from < 0 ? _mm256_i32gather_ps(x, at, 4)
                                : _mm256_permutevar8x32_ps(window, _mm256_sub_epi32(at, _mm256_set1_epi32(from)));
      sum = simd::add(sum, simd::mul(simd::load(weight + t * count + o), value));
    }
    simd::store(y + o, sum);
  }
}

void weighted_pair(const float* a, float a_weight, const float* b, float b_weight, std::int64_t count, float* y) {
  const Vf first = simd::broadcast(a_weight), second = simd::broadcast(b_weight);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    simd::store(y + i, simd::add(simd::mul(first, simd::load(a + i)), simd::mul(second, simd::load(b + i))));
  }
  for (; i < count; ++i) y[i] = a_weight * a[i] + b_weight * b[i];
}

}  // namespace convoy::ops::avx2
