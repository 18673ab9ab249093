// fprop of few channels (a network's first layer) on the tensor cores: x of any strides, out channels last. The windows
// of a tile of TILE_H x TILE_W pixels lie in each other: a block copies the patch of x that they cover into shared
// memory, a pixel's channels side by side, PIXEL of them with zeros behind, and the lanes take their operands from
// there, four terms at once. The filters lie beside, in the order of the terms, while the block goes through its tiles.
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
constexpr int row_elements = span_w * IN_C, elements = TAPS_D * span_h * row_elements;
constexpr int held = (elements + threads - 1) / threads;  // of a thread
// A tile's patch is loaded while the one before is computed, where registers hold it.
#ifdef WORK_BLOCKS
constexpr bool ahead = false;  // the loop over work takes some
#else
constexpr bool ahead = held <= 20 && held + warp_m * warp_n / 32 + 80 <= 65536 / (MIN_BLOCKS * threads);
#endif
constexpr int at_once = PIXEL == 2 ? 1 : 2;  // words that are neighbours in the patch
static_assert(warp_m % 16 == 0 && warp_n % 8 == 0 && TILE_W % 8 == 0, "no whole products");

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

  // Element i of a tile's patch: where it goes, and what it is. Most patches lie inside the image.
  struct Tile {
    int nd, h, w;
    const ELEMENT* from;  // the patch's first pixel
    int in_d, in_h, in_w;
    bool whole;
  };
  const auto tile_at = [&](int tile) {
    Tile at;
    at.w = tile % sizes.tiles_w * TILE_W;
    at.h = tile / sizes.tiles_w % sizes.tiles_h * TILE_H;
    at.nd = tile / sizes.tiles_w / sizes.tiles_h;
    at.in_d = at.nd % sizes.pixels[0] * sizes.stride_d - sizes.pad[0];
    at.in_h = at.h * STRIDE_H - sizes.pad[1];
    at.in_w = at.w * STRIDE_W - sizes.pad[2];
    at.from = x + at.nd / sizes.pixels[0] * sizes.x_strides[0] + at.in_d * sizes.x_strides[1] +
              at.in_h * sizes.x_strides[2] + at.in_w * sizes.x_strides[3];
    at.whole = at.in_d >= 0 && at.in_d + (TAPS_D - 1) * sizes.dilation_d < sizes.in[0] && at.in_h >= 0 &&
               at.in_h + span_h <= sizes.in[1] && at.in_w >= 0 && at.in_w + span_w <= sizes.in[2];
    return at;
  };
  const int stride_d = static_cast<int>(sizes.x_strides[1]) * sizes.dilation_d,
            stride_h = static_cast<int>(sizes.x_strides[2]), stride_w = static_cast<int>(sizes.x_strides[3]);
  const auto column_of = [](int i) { return CHANNELS_LAST ? i % row_elements / IN_C : i % row_elements % span_w; };
  const auto channel_of = [](int i) { return CHANNELS_LAST ? i % row_elements % IN_C : i % row_elements / span_w; };
  const auto load = [&](const Tile& tile, int i) {
    const int column = column_of(i), line = i / row_elements, d = line / span_h, h = line % span_h;
    const ELEMENT* const from =
        tile.from + (d * stride_d + h * stride_h + column * stride_w + channel_of(i) * IN_STRIDE_C);
    bool inside = elements % threads == 0 || i < elements;
    if (!tile.whole) {
      inside = inside && static_cast<unsigned>(tile.in_d + d * sizes.dilation_d) < static_cast<unsigned>(sizes.in[0]) &&
               static_cast<unsigned>(tile.in_h + h) < static_cast<unsigned>(sizes.in[1]) &&
               static_cast<unsigned>(tile.in_w + column) < static_cast<unsigned>(sizes.in[2]);
    }
    return static_cast<unsigned short>(load_or_zero(from, inside));
  };
  const auto put = [&](int i, unsigned short value) {
    if (elements % threads != 0 && i >= elements) return;
    *reinterpret_cast<unsigned short*>(patch + i / row_elements * row_bytes + column_of(i) * pixel_bytes +
                                       2 * channel_of(i)) = value;
  };
  // The thread, anew for each tile: what its elements have in common with those of other tiles takes no registers.
  const auto self = [] {
    int thread = static_cast<int>(threadIdx.x);
    asm volatile("" : "+r"(thread));
    return thread;
  };
  unsigned short next[ahead ? held : 1];
  const auto load_ahead = [&](int tile) {
    if (!ahead || tile >= sizes.tiles) return;
    const Tile at = tile_at(tile);
    const int thread = self();
#pragma unroll
    for (int j = 0; j < (ahead ? held : 0); ++j) next[j] = load(at, thread + j * threads);
  };

  const int first = static_cast<int>(WORK_BLOCK / sizes.blocks_n);
  load_ahead(first);  // while the filters are fetched
#pragma unroll 16
  for (int i = threadIdx.x; i < filters_bytes / 4; i += threads) {
    const int word = i / (8 * TILE_N) * 8 + i % 8, n = n0 + i / 8 % TILE_N;
    const int tap = word / (PIXEL / 2), c = word % (PIXEL / 2) * 2;
    const ELEMENT* const from = w + (static_cast<long long>(n) * taps + tap) * IN_C + c;
    const bool inside = n < sizes.n && tap < taps;
    reinterpret_cast<unsigned*>(shared)[i] =
        load_or_zero(from, inside && c < IN_C) | load_or_zero(from + 1, inside && c + 1 < IN_C) << 16;
  }
  for (int i = threadIdx.x; i < patch_bytes / 4; i += threads) reinterpret_cast<unsigned*>(patch)[i] = 0;

  int offsets[steps][2];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    offsets[step][0] = offset_of(8 * step + 2 * quad);
    offsets[step][1] = at_once == 2 ? 0 : offset_of(8 * step + 2 * quad + 1);
  }
  float* const biases = reinterpret_cast<float*>(patch + patch_bytes);
  for (int i = threadIdx.x; BIAS && i < TILE_N; i += threads) {
    biases[i] = n0 + i < sizes.n ? bias_of<ELEMENT>(args, n0 + i) : 0.0f;
  }

#pragma unroll 1
  for (int tile = first; tile < sizes.tiles; tile += sizes.splits) {
    const Tile here = tile_at(tile);
    __syncthreads();  // the windows of the tile before are read
    if (const int thread = self(); ahead) {
#pragma unroll
      for (int j = 0; j < (ahead ? held : 0); ++j) put(thread + j * threads, next[j]);
    } else {
#pragma unroll 8
      for (int i = thread; i < elements; i += threads) put(i, load(here, i));
    }
    __syncthreads();
    load_ahead(tile + sizes.splits);

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
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      uint2 right[warp_n / 8];
#pragma unroll
      for (int j = 0; j < warp_n / 8; ++j) {
        right[j] = *reinterpret_cast<const uint2*>(shared + (step * TILE_N + own_n + 8 * j + row) * 32 + 8 * quad);
      }
#pragma unroll
      for (int i = 0; i < warp_m / 16; ++i) {
        const uint2 upper = terms_at(windows[i][0], offsets[step], 8 * step + 2 * quad);
        const uint2 lower = terms_at(windows[i][1], offsets[step], 8 * step + 2 * quad);
#pragma unroll
        for (int j = 0; j < warp_n / 8; ++j) {
          mma_k16<ELEMENT>(sums[i][j], upper.x, lower.x, upper.y, lower.y, right[j].x, right[j].y);
        }
      }
    }

#pragma unroll
    for (int i = 0; i < warp_m / 16; ++i) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int m = own_m + 16 * i + 8 * lower + row, h = here.h + m / TILE_W, at = here.w + m % TILE_W;
        const bool inside = h < sizes.pixels[1] && at < sizes.pixels[2];
        const long long pixel =
            ((static_cast<long long>(here.nd) * sizes.pixels[1] + (inside ? h : 0)) * sizes.pixels[2] +
             (inside ? at : 0)) *
            sizes.n;
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
  }
}
