// Integer GEMM micro-kernels: c[r][n] = sum over k of a[r][k]*b[k][n], 32-bit sums that wrap, a register tile at a
// time, and the epilogue on such a tile. Plain data only: these structs are shared by units of every instruction set.
//
// One step takes 4 u8 values of each row of a against 4 s8 weights. VNNI adds the four products in 32 bits; without it
// pmaddubsw adds two of them in 16 bits, where it saturates. Weights for which it would are halved, and their steps are
// taken twice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/common/products.h"

namespace convoy::cpu::int8 {

enum class Act : std::int32_t { identity, relu, clip, leaky_relu };

// For each element, in double (exact for 32-bit sums):
//   s = c + column_terms[n] + row_terms[r] * (w_zeros ? w_zeros[n] : 1)            (32 bits, wrapping)
//   v = act(s + bias[n]) * scales[n * scale_stride]
//   result = clamp(round_to_nearest_even(v) + zero_point, low, high), or v itself as f32 when `to_float`
// or with a residual, z != null:
//   t = clamp(round_to_nearest_even(v), low - t_zero_point, high - t_zero_point)
//   result = clamp(round_to_nearest_even(t * t_scale + (z - z_zero_point) * z_scale) + zero_point, low, high)
// bias, scales, row_terms, w_zeros and z may be null.
struct Finish {
  const std::int32_t* column_terms;
  const std::int32_t* row_terms;  // kMaxRows of them, or null
  const std::int32_t* w_zeros;    // only with row_terms
  const double* bias;
  const float* scales;
  std::int64_t scale_stride;  // 0: one scale for all, 1: one a channel
  Act act;
  double a, b;
  double zero_point, low, high;
  bool to_float;
  const std::int32_t* z;  // placed like c
  double t_scale, t_zero_point, z_scale, z_zero_point;
};

// Results of 8 bits whose channels lie side by side, where the activation is none or relu and no row has a term: what
// Finish says, in f32, and stored. `terms` are the column terms and the bias, whose sums with c must not wrap.
struct FinishBytes {
  const std::int32_t* terms;
  const float* scales;  // one a channel
  int columns;          // results a row; terms and scales are readable for whole vectors
  bool relu, is_signed, has_residual;
  std::int32_t zero_point;
  std::int32_t z_zero_point;
  float t_scale, z_scale, t_low, t_high;
  // What values may at most differ from their rounded ones: what lies nearer to a half may be rounded otherwise in f32.
  float most_apart, most_apart_t;
};

// An output pixel of a depthwise convolution: of each tap a pointer, `x` from which in bytes its pixel's first channel
// lies. So pixels of a row share pointers.
struct Pixel {
  const std::byte* const* taps;
  std::int64_t x;
};
constexpr int kMostPixels = 128;  // of a call

struct Kernel {
  TileShape tile;
  bool pairs_in_16_bits;  // pmaddubsw: 255 * (w0 + w1) has to fit, with the weights of either sign alone
  Multiply<std::int32_t> multiply;
  void (*release)();  // after a thread's last multiply
  // Depthwise, where channels lie side by side: channels `first` to `first` + `count` (up to `columns`) of up to `rows`
  // pixels. w: [step of 2 taps][column][2], s16. An odd tap's partner has weights of 0 and no pointer.
  void (*multiply_channels)(const Pixel* pixels, int pixel_count, bool x_signed, std::int64_t first, int count,
                            std::int64_t taps, const void* w, std::int32_t* c);
  // The same of kMostPixels and finish_bytes in one, for s8 weights; null where there is no such kernel. w: quads, see
  // depthwise.cc; terms are for x' = x + 128 where x is s8. Pixel p goes to out + offsets[p]. Returns the count of
  // pixels whose results f32 might round otherwise than finish() does, and says which in `doubtful`; theirs have to be
  // done again.
  int (*channels_to_bytes)(const Pixel* pixels, int pixel_count, bool x_signed, std::int64_t first, std::int64_t taps,
                           const void* w, const FinishBytes& finish, void* out, const std::int64_t* offsets,
                           int* doubtful);
  // In place on `rows` rows of c, `columns` values each (the pointers of Finish are readable for that many); the result
  // is s32, or f32 bits when to_float.
  void (*finish)(std::int32_t* c, int rows, const Finish& finish);
  // Row r goes to out + offsets[r], its residual is at z + offsets[r]. Returns the count of rows that f32 might round
  // otherwise than finish() does, and says which in `doubtful`; these are not stored.
  int (*finish_bytes)(const std::int32_t* c, int rows, const FinishBytes& finish, const void* z, void* out,
                      const std::int64_t* offsets, int* doubtful);
};

extern const Kernel avx2_kernel;
extern const Kernel avx512_kernel;
extern const Kernel avx512_vnni_kernel;
extern const Kernel amx_kernel;

}  // namespace convoy::cpu::int8
