// Depthwise wgrad of 16-bit NHWC tensors on the tensor cores, a channel at a time. A product adds up 16 blocks of 8
// neighbouring columns of dy: its a is their windows of x (row i: column i of the window), its b the blocks themselves
// (column j), and of the sums d[i][j] those count where i and j meet through a tap. pixel_bands.cuh says how rows of
// pixels become what a and b consist of. A row of x, loaded once, meets all rows of dy that it can: the last ones are
// kept, and the sums of all taps stay in registers over all pixels of a block. Then the sums of each tap are added in a
// fixed order to partial[split][tap][k]; `reduce` adds the splits.
#include "mma.cuh"
#include "one_output.cuh"
#include "overlap.cuh"
#include "pixel_bands.cuh"
#include "work_blocks.cuh"

namespace {

using namespace bands;

constexpr int taps = TAPS_H * TAPS_W;
// A band that is the whole image: rows of x below it meet nothing, those above it neither.
constexpr int substeps = bands_h > 1 ? BAND_UNITS + ahead
                                     : max_of(1, min_of(BAND_UNITS + ahead, ceil_div(IN_H + PAD_H, STRIDE_H)));
constexpr int idle = bands_h > 1 || PAD_H < 0 ? 0 : PAD_H / STRIDE_H;
constexpr int steps = ceil_div(substeps, UNROLL);
constexpr int x_chunks = ceil_div(UNROLL * rows_in * INSTANCES * row_chunks, whole_chunks) * whole_chunks;
constexpr int dy_chunks = ceil_div(UNROLL * INSTANCES * BLOCKS_W, whole_chunks) * whole_chunks;
constexpr int x_pitch = odd_pitch(x_chunks + 1);    // the last load may be half beyond a window
constexpr int dy_pitch = odd_pitch(dy_chunks + 1);  // the last chunk is zero
constexpr int x_bytes = x_chunks * 8 * pixel_bytes;
constexpr int raw_bytes = x_bytes + dy_chunks * 8 * pixel_bytes;
constexpr int tiles_m = ceil_div(window_chunks, 2);
constexpr int x_at = STAGES * raw_bytes;
// Two of planes: a step transposes the next one's rows.
constexpr int dy_at = x_at + SLICE * x_pitch;
constexpr int planes_bytes = SLICE * (x_pitch + dy_pitch);
constexpr int sums_pitch = 9;  // of 8 columns: a diagonal lies in different banks
static_assert(x_at + 2 * planes_bytes <= SHARED_BYTES && warps * tiles_m * 16 * sums_pitch * 4 <= SHARED_BYTES);

using CopyX = StepCopy<IN_H, IN_W, IN_C, IN_STRIDE_N, IN_STRIDE_H, IN_STRIDE_W, UNROLL * rows_in, row_chunks, left,
                       tile_in, tiles_w>;
using CopyDy =
    StepCopy<OUT_H, OUT_W, OUT_C, OUT_STRIDE_N, OUT_STRIDE_H, OUT_STRIDE_W, UNROLL, BLOCKS_W, 0, tile_out, tiles_w>;

// The sum of tap (r, s) of a channel over a block's pixels, by a warp, one product after another: where an element
// beyond an edge, zero, met an infinity or a NaN.
__device__ float plain_sum(const ELEMENT* x, const ELEMENT* dy, int first_place, int channel, int r, int s) {
  float sum = 0;
#pragma unroll 1
  for (int place = first_place; place < places; place += SPLITS) {
#pragma unroll 1
    for (int i = 0; i < INSTANCES; ++i) {
      const Instance at = instance_of(place, i);
      if (!at.real) break;
#pragma unroll 1
      for (int p = at.unit; p < min_of(OUT_H, at.unit + BAND_UNITS); ++p) {
        const int h = p * STRIDE_H + r * DILATION_H - PAD_H;
        if (h < 0 || h >= IN_H) continue;
#pragma unroll 1
        for (int q = at.tile * tile_out + threadIdx.x % 32; q < min_of(OUT_W, (at.tile + 1) * tile_out); q += 32) {
          const int column = q * STRIDE_W + s * DILATION_W - PAD_W;
          if (column < 0 || column >= IN_W) continue;
          sum = fmaf(load_float(x + in_offset(at.image, channel, 0, h, column)),
                     load_float(dy + out_offset(at.image, channel, 0, p, q)), sum);
        }
      }
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  return sum;
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise_wgrad,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, float* __restrict__ partial),
            (x, dy, partial)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  const unsigned base = shared_address(shared);
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * SLICE;
  const int first_place = static_cast<int>(WORK_BLOCK / slices);

  // Columns beyond the edges are never written again, nor is the chunk of zeros.
  for (int i = threadIdx.x; i < STAGES * raw_bytes / 16; i += THREADS) {
    reinterpret_cast<uint4*>(shared)[i] = make_uint4(0, 0, 0, 0);
  }
  for (int i = threadIdx.x; i < 2 * SLICE; i += THREADS) {
    *reinterpret_cast<uint4*>(shared + dy_at + i / SLICE * planes_bytes + i % SLICE * dy_pitch + dy_chunks * 16) =
        make_uint4(0, 0, 0, 0);
  }
  __syncthreads();

  CopyX copy_x;
  CopyDy copy_dy;
  copy_x.prepare();
  copy_dy.prepare();
  Transpose<x_chunks, x_pitch> transpose_x;
  Transpose<dy_chunks, dy_pitch> transpose_dy;
  transpose_x.prepare();
  transpose_dy.prepare();
  int copied_place = first_place;
  int copied_step = 0;
  int copied_stage = 0;
  const auto copy_from = [&](int place) {
    copy_x.place(
        x, place, first_channel, [](int unit) { return unit * STRIDE_H - PAD_H; },
        [](int, int& low, int& high) {
          low = 0;
          high = IN_H;
        });
    copy_dy.place(
        dy, place, first_channel, [](int unit) { return unit; },
        [](int unit, int& low, int& high) {
          low = unit;
          high = min_of(OUT_H, unit + BAND_UNITS);
        });
  };
  const auto start = [&] {
    if (copied_place < places) {
      copy_x.start(base + copied_stage * raw_bytes);
      copy_dy.start(base + copied_stage * raw_bytes + x_bytes);
      copied_stage = copied_stage + 1 < STAGES ? copied_stage + 1 : 0;
      if (++copied_step == steps) {
        copied_step = 0;
        copied_place += SPLITS;
        if (copied_place < places) copy_from(copied_place);
      }
    }
    cp_async_commit();
  };
  copy_from(first_place);
#pragma unroll 1
  for (int i = 0; i < STAGES; ++i) start();

  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int warp_channel = threadIdx.x / 32 * WARP_CHANNELS;  // of the slice
  // Of x, matrices 0 and 1 of a load are two chunks of eight blocks, 2 and 3 those of the next eight; of dy, 0 and 1
  // are the blocks, 2 and 3 the next channel's.
  const auto window_of = [&](int group) {
    const int block = group * 16 + lane % 8 + lane / 16 * 8;
    const int chunk = block < INSTANCES * BLOCKS_W ? block / BLOCKS_W * row_chunks + block % BLOCKS_W * step_chunks : 0;
    return static_cast<unsigned>(warp_channel * x_pitch + (chunk + lane / 8 % 2) * 16);
  };
  const auto is_block = [&](int group) { return group * 16 + lane % 16 < INSTANCES * BLOCKS_W; };
  const auto block_of = [&](int group) {
    return static_cast<unsigned>((warp_channel + (WARP_CHANNELS > 1 ? lane / 16 : 0)) * dy_pitch +
                                 (is_block(group) ? group * 16 + lane % 16 : dy_chunks) * 16);
  };
  const unsigned first_window = kept(window_of(0));
  const unsigned first_block = kept(block_of(0));
  float sum[WARP_CHANNELS][TAPS_H][tiles_m][4];
#pragma unroll
  for (int c = 0; c < WARP_CHANNELS; ++c) {
#pragma unroll
    for (int r = 0; r < TAPS_H; ++r) {
#pragma unroll
      for (int m = 0; m < tiles_m; ++m) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[c][r][m][e] = 0;
      }
    }
  }

  const auto transpose_both = [&](int from, int to) {
    transpose_x.run(base + from * raw_bytes, base + x_at + to * planes_bytes);
    transpose_dy.run(base + from * raw_bytes + x_bytes, base + dy_at + to * planes_bytes);
  };
  cp_async_wait<STAGES - 1>();
  __syncthreads();
  transpose_both(0, 0);
  int stage = 1 % STAGES;  // of the next step's rows
  int half = 0;            // of planes
#pragma unroll 1
  for (int place = first_place; place < places; place += SPLITS) {
    unsigned b[WARP_CHANNELS][open][2];  // rows of dy, the newest last
#pragma unroll
    for (int c = 0; c < WARP_CHANNELS; ++c) {
#pragma unroll
      for (int o = 0; o < open; ++o) b[c][o][0] = b[c][o][1] = 0;
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      start();
      transpose_both(stage, 1 - half);
      stage = stage + 1 < STAGES ? stage + 1 : 0;

#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        const unsigned x_planes = base + x_at + half * planes_bytes + (groups > 1 ? window_of(group) : first_window);
        const unsigned block = groups > 1 ? block_of(group) : first_block;
        const unsigned dy_planes = base + dy_at + half * planes_bytes + block;
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
          for (int c = 0; c < WARP_CHANNELS; c += 2) {
            unsigned words[4];
            ldmatrix_trans(words,
                           dy_planes + c * dy_pitch + (u > 0 && is_block(group) ? u * INSTANCES * BLOCKS_W * 16 : 0));
#pragma unroll
            for (int i = 0; i < 2 && c + i < WARP_CHANNELS; ++i) {
#pragma unroll
              for (int o = 0; o + 1 < open; ++o) {
                b[c + i][o][0] = b[c + i][o + 1][0];
                b[c + i][o][1] = b[c + i][o + 1][1];
              }
              b[c + i][open - 1][0] = words[2 * i];
              b[c + i][open - 1][1] = words[2 * i + 1];
            }
          }
          if (idle > 0 && step * UNROLL + u < idle) continue;
#pragma unroll
          for (int c = 0; c < WARP_CHANNELS; ++c) {
#pragma unroll
            for (int j = 0; j < rows_in; ++j) {
#pragma unroll
              for (int m = 0; m < tiles_m; ++m) {
                unsigned a[4];
                ldmatrix_trans(a, x_planes + c * x_pitch + ((u * rows_in + j) * INSTANCES * row_chunks + 2 * m) * 16);
#pragma unroll
                for (int o = 0; o < open; ++o) {
                  const int r = tap_h(o, j);
                  if (r >= 0) {
                    mma_k16<ELEMENT>(sum[c][r < 0 ? 0 : r][m], a[0], a[1], a[2], a[3], b[c][o][0], b[c][o][1]);
                  }
                }
              }
            }
          }
        }
      }
      half = 1 - half;
    }
  }

  cp_async_wait<0>();
  __syncthreads();
  float* mine = reinterpret_cast<float*>(shared) + threadIdx.x / 32 * (tiles_m * 16 * sums_pitch);
#pragma unroll
  for (int c = 0; c < WARP_CHANNELS; ++c) {
    const int channel = first_channel + warp_channel + c;
#pragma unroll
    for (int r = 0; r < TAPS_H; ++r) {
#pragma unroll
      for (int m = 0; m < tiles_m; ++m) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          mine[(m * 16 + e / 2 * 8 + g) * sums_pitch + 2 * t + e % 2] = sum[c][r][m][e];
        }
      }
      __syncwarp();
#pragma unroll 1
      for (int first = 0; first < TAPS_W; first += 32) {
        const int s = first + lane;
        float total = 0;
        if (s < TAPS_W) {
#pragma unroll
          for (int j = 0; j < 8; ++j) total += mine[(s * DILATION_W + j * STRIDE_W) * sums_pitch + j];
        }
        unsigned lost = __ballot_sync(0xffffffffu, total != total && channel < OUT_C);
        while (lost != 0) {
          const int one = __ffs(static_cast<int>(lost)) - 1;
          const float again = plain_sum(x, dy, first_place, channel, r, first + one);
          if (lane == one) total = again;
          lost &= lost - 1;
        }
        if (s < TAPS_W && channel < OUT_C) {
          partial[(static_cast<long long>(first_place) * taps + r * TAPS_W + s) * OUT_C + channel] = total;
        }
      }
      __syncwarp();
    }
  }
}
