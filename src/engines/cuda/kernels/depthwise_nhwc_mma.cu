// Depthwise fprop and dgrad of 16-bit NHWC tensors on the tensor cores. A product of matrices takes 16 pixels as rows
// of a, 8 channels of each of two taps as its 16 columns, and as b two diagonal matrices, these taps' weights. An
// eighth of the multiply-adds count, but no element has to be widened: for small windows that is less work than a lane
// a channel. A block copies the inputs of BLOCK_W x BLOCK_H tiles of IMAGES images, a slice of their channels, to
// shared memory, zeros beyond the edges, and the next ones while it works on them. A warp computes 8 * CHANNEL_TILES
// channels of two units at a time; a unit is 8 tiles beside one another, TILE_H rows high and a column wide (dgrad with
// a stride: as many as the stride).
#include "axis.cuh"
#include "epilogue.cuh"
#include "mma.cuh"
#include "one_output.cuh"
#include "overlap.cuh"
#include "patch_copy.cuh"
#include "problem.h"
#include "shared_copy.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

namespace {

constexpr int tile_w = TRANSPOSED ? STRIDE_W : 1;
using rows = Axis<IN_H, OUT_H, TAPS_H, STRIDE_H, DILATION_H, PAD_H, TILE_H, TRANSPOSED>;
using columns = Axis<IN_W, OUT_W, TAPS_W, STRIDE_W, DILATION_W, PAD_W, tile_w, TRANSPOSED>;
constexpr int span_h = rows::span();
constexpr int span_w = columns::span();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int unit_channels = 8 * CHANNEL_TILES;
constexpr int slice = CHANNEL_WARPS * unit_channels;  // channels of a block
constexpr int slices = ceil_div(OUT_C, slice);
constexpr int blocks_w = ceil_div(columns::tiles(), 8 * BLOCK_W);
constexpr int blocks_h = ceil_div(rows::tiles(), BLOCK_H);
constexpr int units = IMAGES * BLOCK_H * BLOCK_W;
constexpr int pixel_warps = THREADS / 32 / CHANNEL_WARPS;
constexpr int in_rows = (BLOCK_H - 1) * rows::step() + rows::position(span_h - 1) + 1;
constexpr int in_columns = (8 * BLOCK_W - 1) * columns::step() + columns::position(span_w - 1) + 1;
constexpr int places = blocks_w * blocks_h * ceil_div(BATCH, IMAGES);
constexpr int stage_bytes = IMAGES * in_rows * in_columns * PIXEL_PITCH;
constexpr int size = sizeof(ELEMENT);
using In = PixelGrid<IN_H, IN_W, IN_C, IN_STRIDE_N, IN_STRIDE_H, IN_STRIDE_W>;

// The k-th input that output column b of a tile meets, or -1.
__host__ __device__ constexpr int met(int b, int k) {
  int found = 0;
  for (int i = 0; i < span_w; ++i) {
    if (columns::tap(b, i) >= 0 && found++ == k) return i;
  }
  return -1;
}

using Lane = Raw<ELEMENT, 2 * CHANNEL_TILES>;

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue),
            (in, w, out, epilogue)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  const unsigned base = shared_address(shared);
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * slice;
  // A place after another; the next one is copied while one is worked on.
  const auto start = [&](int place, int stage) {
    if (place < places) {
      copy_patch<ELEMENT, In, THREADS, IMAGES, in_rows, in_columns, slice, PIXEL_PITCH>(
          base + stage * stage_bytes, in, place / (blocks_w * blocks_h) * IMAGES,
          place / blocks_w % blocks_h * BLOCK_H * rows::step() + rows::base(),
          place % blocks_w * 8 * BLOCK_W * columns::step() + columns::base(), first_channel);
    }
    cp_async_commit();
  };
  start(static_cast<int>(WORK_BLOCK / slices), 0);

  const int g = threadIdx.x % 32 / 4;
  const int t = threadIdx.x % 4;
  const int group = threadIdx.x / 32 % CHANNEL_WARPS;
  const int group_channel = first_channel + group * unit_channels;
  const int channel = group_channel + t * 2 * CHANNEL_TILES;  // first of this lane's
  // Row k and column n of channel tile j stand for channel k / 2 * 2 * CHANNEL_TILES + 2 * j + k % 2 of the group, so
  // that a lane's channels are neighbours.
  unsigned weights[taps][CHANNEL_TILES];
#pragma unroll
  for (int j = 0; j < CHANNEL_TILES; ++j) {
    const int c = group_channel + g / 2 * 2 * CHANNEL_TILES + 2 * j + g % 2;
    const bool diagonal = g / 2 == t && c < OUT_C;
    const char* filter = fixed_address(w + static_cast<long long>(diagonal ? c : 0) * W_STRIDE_K);
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
      const int r = FLIPPED ? TAPS_H - 1 - tap / TAPS_W : tap / TAPS_W;
      const int s = FLIPPED ? TAPS_W - 1 - tap % TAPS_W : tap % TAPS_W;
      weights[tap][j] = 0;
      if (diagonal) {
        weights[tap][j] =
            load_raw<ELEMENT, 1>(filter + (static_cast<long long>(r) * W_STRIDE_H + s * W_STRIDE_W) * size).bits
            << g % 2 * 16;
      }
    }
  }
  int stage = 0;
#pragma unroll 1
  for (int place = static_cast<int>(WORK_BLOCK / slices); place < places; place += SPLITS) {
    start(place + SPLITS, 1 - stage);
    cp_async_wait<1>();
    __syncthreads();
    const int first_tile_w = place % blocks_w * 8 * BLOCK_W;
    const int first_tile_h = place / blocks_w % blocks_h * BLOCK_H;
    const int first_image = place / (blocks_w * blocks_h) * IMAGES;
#pragma unroll 1
    for (int pair = threadIdx.x / 32 / CHANNEL_WARPS; 2 * pair < units; pair += pixel_warps) {
      unsigned addresses[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int unit = min_of(2 * pair + half, units - 1);
        const int row = unit / BLOCK_W % BLOCK_H * rows::step();
        const int column = (unit % BLOCK_W * 8 + g) * columns::step();
        addresses[half] = base + stage * stage_bytes +
                          ((unit / (BLOCK_W * BLOCK_H) * in_rows + row) * in_columns + column) * PIXEL_PITCH +
                          (group * 4 + t) * 4 * CHANNEL_TILES;
      }
      float sum[TILE_H][tile_w][CHANNEL_TILES][4];
#pragma unroll
      for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
        for (int b = 0; b < tile_w; ++b) {
#pragma unroll
          for (int j = 0; j < CHANNEL_TILES; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[a][b][j][e] = 0;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < span_h; ++i) {
        if (!rows::needed(i)) continue;
        Lane x[span_w][2];
#pragma unroll
        for (int k = 0; k < span_w; ++k) {
          if (!columns::needed(k)) continue;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            load_shared(x[k][half],
                        addresses[half] + (rows::position(i) * in_columns + columns::position(k)) * PIXEL_PITCH);
          }
        }
#pragma unroll
        for (int b = 0; b < tile_w; ++b) {
#pragma unroll
          for (int k = 0; k < TAPS_W; k += 2) {
            const int one = met(b, k);
            const int two = met(b, k + 1);
            if (one < 0) continue;
#pragma unroll
            for (int a = 0; a < TILE_H; ++a) {
              const int r = rows::tap(a, i);
              if (r < 0) continue;
#pragma unroll
              for (int j = 0; j < CHANNEL_TILES; ++j) {
                const unsigned first = weights[r * TAPS_W + columns::tap(b, one)][j];
                if (two >= 0) {
                  mma_k16<ELEMENT>(sum[a][b][j], word(x[one][0], j), word(x[one][1], j),
                                   word(x[two < 0 ? 0 : two][0], j), word(x[two < 0 ? 0 : two][1], j), first,
                                   weights[r * TAPS_W + (two < 0 ? 0 : columns::tap(b, two))][j]);
                } else {
                  mma_k8<ELEMENT>(sum[a][b][j], word(x[one][0], j), word(x[one][1], j), first);
                }
              }
            }
          }
        }
      }

      // An infinity or a NaN reaches sums of other channels, times zero: these outputs are computed one by one.
      bool lost = false;
#pragma unroll
      for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
        for (int b = 0; b < tile_w; ++b) {
#pragma unroll
          for (int j = 0; j < CHANNEL_TILES; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) lost |= sum[a][b][j][e] != sum[a][b][j][e];
          }
        }
      }
      if (lost) {
#pragma unroll 1
        for (int i = 0; i < 2 * TILE_H * tile_w * 2 * CHANNEL_TILES; ++i) {
          const int c = channel + i % (2 * CHANNEL_TILES);
          const int b = i / (2 * CHANNEL_TILES) % tile_w;
          const int a = i / (2 * CHANNEL_TILES * tile_w) % TILE_H;
          const int unit = 2 * pair + i / (2 * CHANNEL_TILES * tile_w * TILE_H);
          const int n = first_image + unit / (BLOCK_W * BLOCK_H);
          const int tile_row = first_tile_h + unit / BLOCK_W % BLOCK_H;
          const int tile_column = first_tile_w + unit % BLOCK_W * 8 + g;
          if (unit >= units || n >= BATCH || c >= OUT_C) continue;
          if (tile_row >= rows::tiles() || !rows::stored(a, tile_row)) continue;
          if (tile_column >= columns::tiles() || !columns::stored(b, tile_column)) continue;
          const int row = tile_row * TILE_H + rows::start() + a;
          const int column = tile_column * tile_w + columns::start() + b;
          const long long at = out_offset(n, c, 0, row, column);
          out[at] = finished<ELEMENT>(output_sum(in, w, n, c, 0, row, column), out, at, c, epilogue);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int unit = 2 * pair + half;
        const int n = first_image + unit / (BLOCK_W * BLOCK_H);
        const int tile_row = first_tile_h + unit / BLOCK_W % BLOCK_H;
        const int tile_column = first_tile_w + unit % BLOCK_W * 8 + g;
        if (lost || unit >= units || n >= BATCH || channel >= OUT_C) continue;
        const long long first = static_cast<long long>(n) * OUT_STRIDE_N +
                                static_cast<long long>(tile_row * TILE_H + rows::start()) * OUT_STRIDE_H +
                                static_cast<long long>(tile_column * tile_w + columns::start()) * OUT_STRIDE_W +
                                channel;
#pragma unroll
        for (int a = 0; a < TILE_H; ++a) {
          if (tile_row >= rows::tiles() || !rows::stored(a, tile_row)) continue;
#pragma unroll
          for (int b = 0; b < tile_w; ++b) {
            if (tile_column >= columns::tiles() || !columns::stored(b, tile_column)) continue;
            float v[2 * CHANNEL_TILES];
#pragma unroll
            for (int j = 0; j < CHANNEL_TILES; ++j) {
              v[2 * j] = sum[a][b][j][2 * half];
              v[2 * j + 1] = sum[a][b][j][2 * half + 1];
            }
            finish<ELEMENT, 2 * CHANNEL_TILES>(
                v, out, first + static_cast<long long>(a) * OUT_STRIDE_H + static_cast<long long>(b) * OUT_STRIDE_W,
                channel, epilogue);
          }
        }
      }
      __syncwarp();  // the next products are of all lanes
    }
    __syncthreads();
    stage = 1 - stage;
  }
}
