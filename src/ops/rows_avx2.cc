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

#define CONVOY_MEMBER inline __attribute__((always_inline))

// ---- quantized bytes

CONVOY_AVX2 __m256i pack(__m256i low, __m256i high, std::uint8_t) { return _mm256_packus_epi16(low, high); }
CONVOY_AVX2 __m256i pack(__m256i low, __m256i high, std::int8_t) { return _mm256_packs_epi16(low, high); }

// Eight integers of 8 or 16 bits.
template <class Q>
CONVOY_AVX2 __m256i widened(const Q* p) {
  if constexpr (sizeof(Q) == 1) {
    return widen_bytes(p);
  } else {
    const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return Q(-1) < 0 ? _mm256_cvtepi16_epi32(words) : _mm256_cvtepu16_epi32(words);
  }
}

// The zero point is subtracted as an integer, which is exact as it is in f32 and leaves the floating-point adders free.
template <class Q>
CONVOY_AVX2 __m256 real(const Q* p, __m256 scale, __m256i zero) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(widened(p), zero)), scale);
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

// The same of 16 bits.
template <class Q>
void quantize_words(const float* x, float y_scale, std::int32_t y_zero, Q* y, std::int64_t count) {
  constexpr std::int64_t kWords = 16;
  const __m256 scale = _mm256_set1_ps(y_scale);
  const __m256i zero = _mm256_set1_epi32(y_zero), least = _mm256_set1_epi32(-1000000);
  const auto whole = [&](const float* from) __attribute__((always_inline)) {
    const __m256 scaled = _mm256_min_ps(_mm256_set1_ps(1e6F), _mm256_div_ps(_mm256_loadu_ps(from), scale));
    return _mm256_add_epi32(_mm256_max_epi32(_mm256_cvtps_epi32(scaled), least), zero);
  };
  const auto block = [&](const float* from, Q* to) {
    const __m256i low = whole(from), high = whole(from + kLanes);
    const __m256i words = Q(-1) < 0 ? _mm256_packs_epi32(low, high) : _mm256_packus_epi32(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(words, 0b11'01'10'00));
  };
  std::int64_t i = 0;
  for (; i + kWords <= count; i += kWords) block(x + i, y + i);
  if (i == count) return;
  float rest_x[kWords] = {};
  Q rest_y[kWords];
  std::memcpy(rest_x, x + i, static_cast<std::size_t>(count - i) * sizeof(float));
  block(rest_x, rest_y);
  std::memcpy(y + i, rest_y, static_cast<std::size_t>(count - i) * sizeof(Q));
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

template <class Q>
void dequantize_loop(const Q* x, float x_scale, std::int32_t x_zero, float* y, std::int64_t count) {
  const __m256 scale = _mm256_set1_ps(x_scale);
  const __m256i zero = _mm256_set1_epi32(x_zero);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) _mm256_storeu_ps(y + i, real(x + i, scale, zero));
  for (; i < count; ++i) y[i] = static_cast<float>(static_cast<std::int32_t>(x[i]) - x_zero) * x_scale;
}

// ---- selection

// As many bytes of ones as an element has where the condition holds: where its byte is not 0.
template <class T>
CONVOY_AVX2 __m256i mask_of(const std::uint8_t* condition) {
  const __m256i none = _mm256_setzero_si256();
  if constexpr (sizeof(T) == 1) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(condition));
    return _mm256_xor_si256(_mm256_cmpeq_epi8(bytes, none), _mm256_set1_epi8(-1));
  } else if constexpr (sizeof(T) == 2) {
    return _mm256_cmpgt_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(condition))), none);
  } else if constexpr (sizeof(T) == 4) {
    return _mm256_cmpgt_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(condition))), none);
  } else {
    std::int32_t four;
    std::memcpy(&four, condition, sizeof(four));
    return _mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)), none);
  }
}

template <class T>
CONVOY_AVX2 __m256i same(const T* x) {
  if constexpr (sizeof(T) == 1) return _mm256_set1_epi8(static_cast<char>(*x));
  if constexpr (sizeof(T) == 2) return _mm256_set1_epi16(static_cast<short>(*x));
  if constexpr (sizeof(T) == 4) return _mm256_set1_epi32(static_cast<int>(*x));
  return _mm256_set1_epi64x(static_cast<long long>(*x));
}

template <class T>
void select(const std::uint8_t* condition, const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y,
            std::int64_t count) {
  constexpr auto kCount = kBytes / static_cast<std::int64_t>(sizeof(T));
  const __m256i one_a = same(a), one_b = same(b);
  const auto load = [](const T* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); };
  std::int64_t i = 0;
  for (; i + kCount <= count; i += kCount) {
    const __m256i from_a = a_step == 0 ? one_a : load(a + i), from_b = b_step == 0 ? one_b : load(b + i);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        _mm256_blendv_epi8(from_b, from_a, mask_of<T>(condition + i)));
  }
  for (; i < count; ++i) {
    const T from_a = a[i * a_step], from_b = b[i * b_step];
    y[i] = condition[i] != 0 ? from_a : from_b;
  }
}

// ---- windows

// How the neighbours of a vector, or every second one of them, are loaded: as many elements as 32 bytes have.
struct Neighbours {
  static constexpr std::int64_t stride = 1;
  template <class T>
  CONVOY_AVX2 __m256i load(const T* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
};
struct EverySecond {
  static constexpr std::int64_t stride = 2;
  // The even ones from p on, and the odd ones from p + 15 (p + 31) on: nothing beyond the last one is read.
  CONVOY_AVX2 __m256i load(const std::uint16_t* p) {
    const __m256i low = Neighbours::load(p), high = Neighbours::load(p + 15);
    const __m256i both =
        _mm256_packus_epi32(_mm256_and_si256(low, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(high, 16));
    return _mm256_permute4x64_epi64(both, 0xd8);
  }
  CONVOY_AVX2 __m256i load(const std::uint8_t* p) {
    const __m256i low = Neighbours::load(p), high = Neighbours::load(p + 31);
    const __m256i both =
        _mm256_packus_epi16(_mm256_and_si256(low, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(high, 8));
    return _mm256_permute4x64_epi64(both, 0xd8);
  }
};

// What becomes of a vector of taps. Of floats max_ps(a, b) is a > b ? a : b.
template <PoolFunction kFunction>
CONVOY_AVX2 __m256 pooled(__m256 acc, __m256 value) {
  return kFunction == PoolFunction::max ? _mm256_max_ps(value, acc) : _mm256_add_ps(acc, value);
}

template <PoolFunction kFunction>
struct FloatWindow {
  using Element = float;
  __m256 acc = _mm256_set1_ps(kFunction == PoolFunction::max ? -__builtin_inff() : 0.0F);

  CONVOY_MEMBER void step(__m256i v) { acc = pooled<kFunction>(acc, _mm256_castsi256_ps(v)); }
  CONVOY_MEMBER __m256i finish(__m256 divisor) const {
    return _mm256_castps_si256(kFunction == PoolFunction::max ? acc : _mm256_div_ps(acc, divisor));
  }
};

template <class T, PoolFunction kFunction>
struct HalfWindow {
  using Element = std::uint16_t;
  FloatWindow<kFunction> a, b;

  CONVOY_MEMBER void step(__m256i v) {
    __m256 low, high;
    T::widen_unordered(v, low, high);
    a.acc = pooled<kFunction>(a.acc, low);
    b.acc = pooled<kFunction>(b.acc, high);
  }
  CONVOY_MEMBER __m256i finish(__m256 divisor) const {
    if (kFunction == PoolFunction::max) return T::narrow_exact(a.acc, b.acc);
    return T::narrow_unordered(_mm256_div_ps(a.acc, divisor), _mm256_div_ps(b.acc, divisor));
  }
};

template <bool kSigned>
struct LargestByte {
  using Element = std::uint8_t;
  __m256i best = _mm256_set1_epi8(kSigned ? -128 : 0);

  CONVOY_MEMBER void step(__m256i v) { best = kSigned ? _mm256_max_epi8(best, v) : _mm256_max_epu8(best, v); }
  CONVOY_MEMBER __m256i finish(__m256) const { return best; }
};

// kTimes vectors of outputs from y on, `y_apart` elements from one to the next; of the taps `x_apart`, from the
// `first`-th element on.
template <class Window, class Load, int kTimes>
CONVOY_AVX2 void pool_vectors(const PoolWindows& w, std::int64_t first, std::int64_t x_apart, __m256 divisor,
                              typename Window::Element* y, std::int64_t y_apart) {
  using Element = typename Window::Element;
  Window windows[kTimes];
  for (std::int64_t k = 0; k < w.tap_count; ++k) {
    const Element* const tap = static_cast<const Element*>(w.taps[k]) + first;
    for (int t = 0; t < kTimes; ++t) windows[t].step(Load::load(tap + t * x_apart));
  }
  for (int t = 0; t < kTimes; ++t) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + t * y_apart), windows[t].finish(divisor));
  }
}

// The windows from the i-th on, less than a vector. Rarely needed, and its calls would cost all others registers.
template <class Window>
__attribute__((noinline)) void pool_rest(const PoolWindows& w, __m256 divisor, std::int64_t offset, std::int64_t i,
                                         typename Window::Element* y) {
  using Element = typename Window::Element;
  Window window;
  Element lanes[kBytes / sizeof(Element)] = {};
  const std::int64_t left = w.count - i;
  for (std::int64_t k = 0; k < w.tap_count; ++k) {
    const Element* const tap = static_cast<const Element*>(w.taps[k]) + offset + i * w.stride;
    if (w.stride == 1) std::memcpy(lanes, tap, static_cast<std::size_t>(left) * sizeof(Element));
    for (std::int64_t j = 0; w.stride != 1 && j < left; ++j) lanes[j] = tap[j * w.stride];
    window.step(Neighbours::load(lanes));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), window.finish(divisor));
  std::memcpy(y + i, lanes, static_cast<std::size_t>(left) * sizeof(Element));
}

template <class Window, class Load>
void pool_row(const PoolWindows& w, __m256 divisor, std::int64_t offset, typename Window::Element* y) {
  using Element = typename Window::Element;
  constexpr auto kCount = kBytes / static_cast<std::int64_t>(sizeof(Element));
  constexpr int kTimes = 2;
  const auto vectors = [&]<int kNumber>(std::int64_t i) __attribute__((always_inline)) {
    pool_vectors<Window, Load, kNumber>(w, offset + i * Load::stride, kCount * Load::stride, divisor, y + i, kCount);
  };
  std::int64_t i = 0;
  for (; i + kTimes * kCount <= w.count; i += kTimes * kCount) vectors.template operator()<kTimes>(i);
  for (; i + kCount <= w.count; i += kCount) vectors.template operator()<1>(i);
  if (i == w.count) return;
  if (w.count >= kCount) return vectors.template operator()<1>(w.count - kCount);  // some again
  pool_rest<Window>(w, divisor, offset, i, y);
}

// Rows of less than two vectors, as blocks of channels are in 16 bits: of several positions at once, else each vector's
// taps wait for one another. A second vector overlaps the first. (Of longer rows large tensors take longer so.)
template <class Window>
void pool_positions(const PoolWindows& w, __m256 divisor, typename Window::Element* y) {
  constexpr auto kCount = kBytes / static_cast<std::int64_t>(sizeof(*y));
  const auto positions = [&]<int kTimes>(std::int64_t p) __attribute__((always_inline)) {
    for (std::int64_t next = 0; next < w.count; next += kCount) {
      const std::int64_t i = next + kCount <= w.count ? next : w.count - kCount;
      pool_vectors<Window, Neighbours, kTimes>(w, p * w.step + i, w.step, divisor, y + p * w.y_step + i, w.y_step);
    }
  };
  std::int64_t p = 0;
  for (; p + 4 <= w.positions; p += 4) positions.template operator()<4>(p);
  for (; p < w.positions; ++p) positions.template operator()<1>(p);
}

// Rows of half a vector, two positions in each; longer ones, up to a vector, as two halves that overlap.
template <class Window>
void pool_halves(const PoolWindows& w, __m256 divisor, typename Window::Element* y) {
  using Element = typename Window::Element;
  constexpr auto kHalf = kBytes / 2 / static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t together = w.count == kHalf ? 2 : 1;
  for (std::int64_t p = 0; p < w.positions; p += together) {
    // From the first half to the second: the last position of an odd number is taken twice.
    const std::int64_t next = p + 1 < w.positions ? 1 : 0;
    const std::int64_t x_apart = together == 2 ? next * w.step : w.count - kHalf;
    const std::int64_t y_apart = together == 2 ? next * w.y_step : w.count - kHalf;
    Window window;
    for (std::int64_t k = 0; k < w.tap_count; ++k) {
      const Element* const tap = static_cast<const Element*>(w.taps[k]) + p * w.step;
      window.step(
          _mm256_loadu2_m128i(reinterpret_cast<const __m128i*>(tap + x_apart), reinterpret_cast<const __m128i*>(tap)));
    }
    Element* const to = y + p * w.y_step;
    _mm256_storeu2_m128i(reinterpret_cast<__m128i*>(to + y_apart), reinterpret_cast<__m128i*>(to),
                         window.finish(divisor));
  }
}

// Rows of a few elements, not far apart: windows at each element from the first row on, of which the rows are picked.
template <class Window>
void pool_all_between(const PoolWindows& w, __m256 divisor, typename Window::Element* y) {
  using Element = typename Window::Element;
  constexpr std::int64_t kMost = 2048;
  Element made[kMost];
  const std::int64_t together = (kMost - w.count) / w.step + 1;
  for (std::int64_t p = 0; p < w.positions; p += together) {
    const std::int64_t positions = together < w.positions - p ? together : w.positions - p;
    PoolWindows all = w;
    all.count = (positions - 1) * w.step + w.count;
    pool_row<Window, Neighbours>(all, divisor, p * w.step, made);
    for (std::int64_t i = 0; i < positions; ++i) {
      for (std::int64_t c = 0; c < w.count; ++c) y[(p + i) * w.y_step + c] = made[i * w.step + c];
    }
  }
}

template <class Window>
void pool(const PoolWindows& w, void* y) {
  using Element = typename Window::Element;
  constexpr std::int64_t kNear = 4, kCount = kBytes / static_cast<std::int64_t>(sizeof(Element));
  const __m256 divisor = _mm256_set1_ps(w.divisor);
  auto* const to = static_cast<Element*>(y);
  if (w.stride == 1 && w.count >= kCount && w.count < 2 * kCount && w.positions > 1) {
    return pool_positions<Window>(w, divisor, to);
  }
  if (w.stride == 1 && w.count >= kCount / 2 && w.count < kCount) return pool_halves<Window>(w, divisor, to);
  if (w.stride == 1 && w.count < kCount / 2 && w.positions > 1 && w.step <= kNear * w.count) {
    return pool_all_between<Window>(w, divisor, to);
  }
  for (std::int64_t p = 0; p < w.positions; ++p) {
    if constexpr (sizeof(Element) < sizeof(float)) {
      if (w.stride == 2) {
        pool_row<Window, EverySecond>(w, divisor, p * w.step, to + p * w.y_step);
        continue;
      }
    }
    pool_row<Window, Neighbours>(w, divisor, p * w.step, to + p * w.y_step);
  }
}

}  // namespace

void qlinear_row(DataType type, QLinearFunction function, const QuantizedRow& a, const QuantizedRow& b, float scale,
                 std::int32_t zero, void* y, std::int64_t count) {
  if (type == DataType::u8) return qlinear<std::uint8_t>(function, a, b, scale, zero, y, count);
  qlinear<std::int8_t>(function, a, b, scale, zero, y, count);
}

void quantize_row(DataType type, const float* x, float scale, std::int32_t zero, void* y, std::int64_t count) {
  switch (type) {
    case DataType::u8:
      return quantize_loop(x, scale, zero, static_cast<std::uint8_t*>(y), count);
    case DataType::s8:
      return quantize_loop(x, scale, zero, static_cast<std::int8_t*>(y), count);
    case DataType::u16:
      return quantize_words(x, scale, zero, static_cast<std::uint16_t*>(y), count);
    default:
      return quantize_words(x, scale, zero, static_cast<std::int16_t*>(y), count);
  }
}

void dequantize_row(DataType type, const void* x, float scale, std::int32_t zero, float* y, std::int64_t count) {
  switch (type) {
    case DataType::u8:
      return dequantize_loop(static_cast<const std::uint8_t*>(x), scale, zero, y, count);
    case DataType::s8:
      return dequantize_loop(static_cast<const std::int8_t*>(x), scale, zero, y, count);
    case DataType::u16:
      return dequantize_loop(static_cast<const std::uint16_t*>(x), scale, zero, y, count);
    default:
      return dequantize_loop(static_cast<const std::int16_t*>(x), scale, zero, y, count);
  }
}

bool has_pool_row(DataType type, PoolFunction function, std::int64_t stride) {
  switch (type) {
    case DataType::f32:
      return stride == 1;
    case DataType::f16:
    case DataType::bf16:
      return stride == 1 || stride == 2;
    case DataType::u8:
    case DataType::s8:
      return function == PoolFunction::max && (stride == 1 || stride == 2);
    default:
      return false;
  }
}

void pool_row(DataType type, PoolFunction function, const PoolWindows& windows, void* y) {
  const bool is_max = function == PoolFunction::max;
  switch (type) {
    case DataType::f32:
      return is_max ? pool<FloatWindow<PoolFunction::max>>(windows, y)
                    : pool<FloatWindow<PoolFunction::average>>(windows, y);
    case DataType::f16:
      return is_max ? pool<HalfWindow<F16, PoolFunction::max>>(windows, y)
                    : pool<HalfWindow<F16, PoolFunction::average>>(windows, y);
    case DataType::bf16:
      return is_max ? pool<HalfWindow<Bf16, PoolFunction::max>>(windows, y)
                    : pool<HalfWindow<Bf16, PoolFunction::average>>(windows, y);
    case DataType::u8:
      return pool<LargestByte<false>>(windows, y);
    default:
      return pool<LargestByte<true>>(windows, y);
  }
}

void select_row(std::size_t size, const std::uint8_t* condition, const void* a, std::int64_t a_step, const void* b,
                std::int64_t b_step, void* y, std::int64_t count) {
  const auto of = [&]<class T>(T) {
    select(condition, static_cast<const T*>(a), a_step, static_cast<const T*>(b), b_step, static_cast<T*>(y), count);
  };
  size == 1   ? of(std::uint8_t{})
  : size == 2 ? of(std::uint16_t{})
  : size == 4 ? of(std::uint32_t{})
              : of(std::uint64_t{});
}

}  // namespace convoy::ops::avx2
