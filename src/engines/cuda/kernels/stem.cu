// fprop of few channels (a network's first layer) on the tensor cores: x of any strides, out channels last. The windows
// of a tile of TILE_H x TILE_W pixels lie in each other: a block copies the patch of x that they cover into shared
// memory, a pixel's channels side by side, PIXEL of them with zeros behind, and the lanes take their operands from
// there, four terms at once. The filters lie beside, in the order of the terms, while the block goes through its tiles.
// A thread copies pixels of one column, so that the next pixel is a fixed distance away: little code, soon compiled.
#include "epilogue.cuh"
#include "mma.cuh"
#include "overlap.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "quad.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

struct Sizes {
  long long x_strides[4];        // N, D, H, W
  int n;                         // channels of out
  int tiles, tiles_h, tiles_w;   // of all images; of a plane
  int blocks_n, splits;          // blocks along the channels, and along the tiles
  int pixels[3], in[3], pad[3];  // D, H, W
  int stride_d, dilation_d;
};

namespace {

constexpr int threads = 32 * WARPS_M * WARPS_N;
constexpr int warp_m = TILE_H * TILE_W / WARPS_M, warp_n = TILE_N / WARPS_N;
constexpr int span_h = (TILE_H - 1) * STRIDE_H + DILATION_H * (TAPS_H - 1) + 1;
constexpr int span_w = (TILE_W - 1) * STRIDE_W + DILATION_W * (TAPS_W - 1) + 1;
constexpr int taps = TAPS_D * TAPS_H * TAPS_W;
constexpr int words = taps * PIXEL / 2;  // of a window: two terms each
constexpr int steps = (words + 7) / 8;   // of 16 terms, of which lane t of four has words 2t and 2t + 1
constexpr int pixel_bytes = 2 * PIXEL, row_bytes = span_w * pixel_bytes, plane_bytes = span_h * row_bytes;
constexpr int filters_bytes = steps * TILE_N * 32, patch_bytes = TAPS_D * plane_bytes;
// A thread's pixels of a patch: the columns that are `threads` apart, of every so many-th line.
constexpr int columns = (span_w + threads - 1) / threads;
constexpr int lines_at_once = span_w <= threads ? threads / span_w : 1;
constexpr int lines = (span_h + lines_at_once - 1) / lines_at_once;
constexpr int pixels = columns * lines * TAPS_D, held = pixels * IN_C;
// Rows of eight words of the filters: the lines of a thread.
constexpr int filters_at_once = threads / 8, filters = TILE_N / filters_at_once;
constexpr int taps_of_step = 16 / PIXEL;
// A tile's patch is loaded while the one before is computed, where registers hold it.
#ifdef WORK_BLOCKS
constexpr bool ahead = false;  // the loop over work takes some
#else
constexpr bool ahead = held <= 48 && held + warp_m * warp_n / 32 + 72 <= 65536 / (MIN_BLOCKS * threads);
#endif
constexpr int at_once = PIXEL == 2 ? 1 : 2;  // words that are neighbours in the patch
static_assert(warp_m % 16 == 0 && warp_n % 8 == 0 && TILE_W % 8 == 0, "no whole products");
static_assert(TILE_N % filters_at_once == 0, "no whole lines of filters");

// Where a window's word is, from its first on.
__device__ __forceinline__ int offset_of(int word) {
  const int tap = word / (PIXEL / 2), d = tap / (TAPS_H * TAPS_W), h = tap / TAPS_W % TAPS_H, w = tap % TAPS_W;
  return d * plane_bytes + h * (DILATION_H * row_bytes) + w * (DILATION_W * pixel_bytes) + word % (PIXEL / 2) * 4;
}

// Words 2t and 2t + 1 of a step of the window at `from`; none lies behind the window's last.
__device__ __forceinline__ uint2 terms_at(const char* from, const int (&offsets)[2], int word) {
  if constexpr (at_once == 2) {
    if (words % 8 != 0 && word >= words) return make_uint2(0, 0);
    return *reinterpret_cast<const uint2*>(from + offsets[0]);
  }
  const unsigned first = words % 8 != 0 && word >= words ? 0 : *reinterpret_cast<const unsigned*>(from + offsets[0]);
  const unsigned second =
      words % 8 != 0 && word + 1 >= words ? 0 : *reinterpret_cast<const unsigned*>(from + offsets[1]);
  return make_uint2(first, second);
}

__device__ __forceinline__ unsigned load_or_zero(const ELEMENT* p, bool inside) {
  return inside ? load_raw<ELEMENT, 1>(reinterpret_cast<const char*>(p)).bits : 0;
}

}  // namespace

WORK_KERNEL(__launch_bounds__(threads, MIN_BLOCKS), stem,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs args,
             const Sizes sizes),
            (x, w, out, args, sizes)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  char* const patch = shared + filters_bytes;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int row = lane / 4, quad = lane % 4;  // of the tensor cores' operands
  const int n0 = static_cast<int>(WORK_BLOCK % sizes.blocks_n) * TILE_N;
  const int own_m = warp / WARPS_N * warp_m, own_n = warp % WARPS_N * warp_n;

  struct Tile {
    int nd, h, w;
    const ELEMENT* from;  // the patch's first pixel
    int in_d, in_h, in_w;
  };
  float* const biases = reinterpret_cast<float*>(patch + patch_bytes);
  int* const words_at = reinterpret_cast<int*>(biases + TILE_N);
  const auto tile_at = [&](int tile) {
    Tile at;
    const unsigned line = static_cast<unsigned>(tile) / static_cast<unsigned>(sizes.tiles_w);
    const unsigned plane = line / static_cast<unsigned>(sizes.tiles_h);
    const unsigned image = plane / static_cast<unsigned>(sizes.pixels[0]);
    at.w = static_cast<int>(tile - line * sizes.tiles_w) * TILE_W;
    at.h = static_cast<int>(line - plane * sizes.tiles_h) * TILE_H;
    at.nd = static_cast<int>(plane);
    at.in_d = static_cast<int>(plane - image * sizes.pixels[0]) * sizes.stride_d - sizes.pad[0];
    at.in_h = at.h * STRIDE_H - sizes.pad[1];
    at.in_w = at.w * STRIDE_W - sizes.pad[2];
    at.from = x + image * sizes.x_strides[0] + at.in_d * sizes.x_strides[1] + at.in_h * sizes.x_strides[2] +
              at.in_w * sizes.x_strides[3];
    return at;
  };
  const int stride_d = static_cast<int>(sizes.x_strides[1]) * sizes.dilation_d,
            stride_h = static_cast<int>(sizes.x_strides[2]), stride_w = static_cast<int>(sizes.x_strides[3]);
  // Pixel i of a thread's: its place in the patch, and whether it has one.
  struct Place {
    int d, h, w;
    bool there;
  };
  const auto place_of = [](int thread, int i) {
    Place at;
    const int line = i / columns;
    at.w = (span_w <= threads ? thread % span_w : thread) + i % columns * threads;
    at.h = (span_w <= threads ? thread / span_w : 0) + line % lines * lines_at_once;
    at.d = line / lines;
    at.there = (span_w > threads || threads % span_w == 0 || thread < lines_at_once * span_w) &&
               (span_h % lines_at_once == 0 || at.h < span_h) && (columns == 1 || at.w < span_w);
    return at;
  };
  const auto load = [&](const Tile& tile, const Place& at, unsigned short* values) {
    const ELEMENT* const from = tile.from + (at.d * stride_d + at.h * stride_h + at.w * stride_w);
    const auto within = [&](int place, int dim) {
      return static_cast<unsigned>(place) < static_cast<unsigned>(sizes.in[dim]);
    };
    const bool inside = at.there && within(tile.in_d + at.d * sizes.dilation_d, 0) && within(tile.in_h + at.h, 1) &&
                        within(tile.in_w + at.w, 2);
#pragma unroll
    for (int c = 0; c < IN_C; ++c) {
      values[c] = static_cast<unsigned short>(load_or_zero(from + c * IN_STRIDE_C, inside));
    }
  };
  const auto put = [&](const Place& at, const unsigned short* values) {
    if (!at.there) return;
    Raw<ELEMENT, PIXEL> pixel;
#pragma unroll
    for (int c = 0; c < PIXEL; c += 2) {
      set_word(pixel, c / 2, (c < IN_C ? values[c] : 0u) | (c + 1 < IN_C ? values[c + 1] : 0u) << 16);
    }
    *reinterpret_cast<Raw<ELEMENT, PIXEL>*>(patch + at.d * plane_bytes + at.h * row_bytes + at.w * pixel_bytes) = pixel;
  };
  // The thread, anew for each tile: what its pixels have in common with those of other tiles takes no registers.
  const auto self = [] {
    int thread = static_cast<int>(threadIdx.x);
    asm volatile("" : "+r"(thread));
    return thread;
  };
  // What all tiles have in common: the filters, the biases, and where a window's words are.
  const auto prepare = [&] {
    const int own = static_cast<int>(threadIdx.x) / 8, part = static_cast<int>(threadIdx.x) % 8;
    const int own_tap = part / (PIXEL / 2), c = part % (PIXEL / 2) * 2;
    const ELEMENT* const from = w + (static_cast<long long>(n0 + own) * taps + own_tap) * IN_C + c;
    unsigned* const to = reinterpret_cast<unsigned*>(shared) + threadIdx.x;
#pragma unroll (filters > 8 ? 1 : 8 / filters)
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int i = 0; i < filters; ++i) {
        const ELEMENT* const at = from + (i * filters_at_once * taps + step * taps_of_step) * IN_C;
        const bool inside = n0 + own + i * filters_at_once < sizes.n && step * taps_of_step + own_tap < taps;
        to[(step * TILE_N + i * filters_at_once) * 8] =
            load_or_zero(at, inside && c < IN_C) | load_or_zero(at + 1, inside && c + 1 < IN_C) << 16;
      }
    }
    for (int i = threadIdx.x; BIAS && i < TILE_N; i += threads) {
      biases[i] = n0 + i < sizes.n ? bias_of<ELEMENT>(args, n0 + i) : 0.0f;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < 8 * steps; i += threads) words_at[i] = offset_of(i);
  };
  const auto compute = [&](const Tile& here) {
    const char* windows[warp_m / 16][2];
#pragma unroll
    for (int i = 0; i < warp_m / 16; ++i) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int m = own_m + 16 * i + 8 * lower + row;
        windows[i][lower] = patch + m / TILE_W * (STRIDE_H * row_bytes) + m % TILE_W * (STRIDE_W * pixel_bytes);
      }
    }
    float sums[warp_m / 16][warp_n / 8][4] = {};
    int offsets[2] = {words_at[2 * quad], words_at[2 * quad + 1]};
    const auto multiply = [&](int step, bool whole) {
      const int word = 8 * step + 2 * quad;
      uint2 right[warp_n / 8];
#pragma unroll
      for (int j = 0; j < warp_n / 8; ++j) {
        right[j] = *reinterpret_cast<const uint2*>(shared + (step * TILE_N + own_n + 8 * j + row) * 32 + 8 * quad);
      }
#pragma unroll
      for (int i = 0; i < warp_m / 16; ++i) {
        const uint2 upper = terms_at(windows[i][0], offsets, whole ? 0 : word);
        const uint2 lower = terms_at(windows[i][1], offsets, whole ? 0 : word);
#pragma unroll
        for (int j = 0; j < warp_n / 8; ++j) {
          mma_k16<ELEMENT>(sums[i][j], upper.x, lower.x, upper.y, lower.y, right[j].x, right[j].y);
        }
      }
    };
#pragma unroll 2
    for (int step = 0; step < words / 8; ++step) {
      const int coming[2] = {words_at[8 * step + 2 * quad + 8], words_at[8 * step + 2 * quad + 9]};
      multiply(step, true);
      offsets[0] = coming[0], offsets[1] = coming[1];
    }
    if (words % 8 != 0) multiply(words / 8, false);

#pragma unroll
    for (int i = 0; i < warp_m / 16; ++i) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int m = own_m + 16 * i + 8 * lower + row, h = here.h + m / TILE_W, at = here.w + m % TILE_W;
        const bool inside = h < sizes.pixels[1] && at < sizes.pixels[2];
        const long long pixel =
            ((static_cast<long long>(here.nd) * sizes.pixels[1] + h) * sizes.pixels[2] + at) * sizes.n;
        unsigned found[warp_n / 8];
#pragma unroll
        for (int j = 0; j < warp_n / 8; ++j) {
          const int channel = n0 + own_n + 8 * j + 2 * quad;
          float v[2] = {sums[i][j][2 * lower], sums[i][j][2 * lower + 1]};
          if constexpr (OUT_VECTOR > 1) {
            Beside<ELEMENT, 2> beside;
            if (inside && channel < sizes.n) beside.load(out, pixel + channel, args);
            float bias[2] = {};
            if constexpr (BIAS) bias[0] = biases[channel - n0], bias[1] = biases[channel - n0 + 1];
            epilogue<ELEMENT, 2>(v, beside, bias, channel < sizes.n ? channel : 0, args);
            found[j] = pack_halves<ELEMENT>(v[0], v[1]);
            if (OUT_VECTOR == 8 && warp_n % 32 == 0) continue;
            if (inside && channel < sizes.n) *reinterpret_cast<unsigned*>(out + pixel + channel) = found[j];
          } else {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              if (inside && channel + e < sizes.n) {
                const float sum[1] = {v[e]};
                finish<ELEMENT, 1>(sum, out, pixel + channel + e, channel + e, args);
              }
            }
          }
        }
        if constexpr (OUT_VECTOR == 8 && warp_n % 32 == 0) {
#pragma unroll
          for (int j = 0; j < warp_n / 8; j += 4) {
            unsigned eight[4] = {found[j], found[j + 1], found[j + 2], found[j + 3]};
            transpose_quad(eight);
            const int channel = n0 + own_n + 8 * (j + quad);
            if (inside && channel < sizes.n) {
              *reinterpret_cast<uint4*>(out + pixel + channel) = make_uint4(eight[0], eight[1], eight[2], eight[3]);
            }
          }
        }
      }
    }
  };

  const int first = static_cast<int>(WORK_BLOCK / sizes.blocks_n);
  Tile here{};
#pragma unroll 1
  for (int tile = first - sizes.splits;; tile += sizes.splits) {
    const bool more = tile + sizes.splits < sizes.tiles;
    const Tile coming = tile_at(tile + sizes.splits);
    unsigned short next[ahead ? held : 1];
    if (const int thread = self(); ahead && more) {
#pragma unroll
      for (int i = 0; i < (ahead ? pixels : 0); ++i) load(coming, place_of(thread, i), next + i * IN_C);
    }
    if (tile < first) {
      prepare();
    } else {
      compute(here);
    }
    if (!more) break;
    __syncthreads();  // the windows of the tile are read
    if (const int thread = self(); ahead) {
#pragma unroll
      for (int i = 0; i < (ahead ? pixels : 0); ++i) put(place_of(thread, i), next + i * IN_C);
    } else {
#pragma unroll (IN_C > 4 ? 2 : 16 / IN_C)
      for (int i = 0; i < pixels; ++i) {
        const Place at = place_of(thread, i);
        unsigned short values[IN_C];
        load(coming, at, values);
        put(at, values);
      }
    }
    __syncthreads();
    here = coming;
  }
}
