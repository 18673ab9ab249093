// Depthwise fprop and dgrad of packed 16-bit NCHW tensors on the tensor cores. A product of matrices has as a the
// windows of 16 blocks of 8 output columns, a row each, and as b a row of taps as a banded matrix: column j is the
// taps, moved down by the stride j times. d is the 16 blocks' outputs. Each row of input, loaded once, straight from
// global memory to the registers that the product takes, meets all rows of taps: `open` rows of sums are at work at a
// time. sum[k] after a step belongs to the k-th output row from its first: moving on is free, since a product may read
// another sum than it writes.
#define WGRAD false
#include "epilogue.cuh"
#include "mma.cuh"
#include "one_output.cuh"
#include "overlap.cuh"
#include "plane_bands.cuh"
#include "work_blocks.cuh"

namespace {

// The first step is the first whose input can count, but no output may be left out.
constexpr int first_row = bands > 1 || pad_h < 0 ? floor_div(pad_h - reach_h, stride_h)
                                                 : max_of(0, floor_div(pad_h - reach_h, stride_h));
constexpr int first_out = TRANSPOSED  ? first_row * stride_h - pad_h
                          : bands > 1 ? -(open - 1)
                                      : min_of(0, max_of(-(open - 1), -floor_div(reach_h - pad_h, stride_h)));
constexpr int first_in = TRANSPOSED ? (first_out + pad_h) / stride_h : (first_out - 1) * stride_h + reach_h - pad_h + 1;
constexpr int steps = ceil_div(BAND_ROWS - first_out, step_out);
constexpr int silent = max_of(0, -first_out / step_out);  // first steps, that complete no output

// The row of taps through which a step's input row i meets its k-th output row, or -1.
CONVOY_CONSTEXPR int tap_h(int k, int i) {
  return tap_of(TRANSPOSED ? k : reach_h - (stride_h - 1) + i - k * stride_h, dilation_h, taps_h);
}

using InPlanes = Planes<IN_C, in_plane, IN_PITCH>;
using OutPlanes = Planes<OUT_C, out_plane, OUT_PITCH>;
using In = Places<2, in_h, in_w, in_plane, IN_PITCH, InPlanes>;
using Out = Places<2, out_h, out_w, out_plane, OUT_PITCH, OutPlanes>;
constexpr bool bulk_in = InPlanes::bulk();
constexpr bool bulk_out = OutPlanes::bulk();
constexpr int in_bytes = IMAGES * IN_PITCH;
constexpr int out_bytes = IMAGES * OUT_PITCH;
constexpr bool one_group = groups <= CHANNEL_WARPS;  // of a warp

// A lane's two blocks of a group, rows g and g + 8 of a and d, what counts of their windows and what is stored.
struct Group {
  In from;
  Out to;
  unsigned masks[HALVES][2];
  unsigned stored[2];

  __device__ __forceinline__ Group(int group, int channel, int g, int t)
      : from(group, g, 8, channel, first_in, band_step_in, window_step, WINDOW + 2 * t),
        to(group, g, 8, channel, first_out, BAND_ROWS, 8, 2 * t) {
#pragma unroll
    for (int block = 0; block < 2; ++block) {
#pragma unroll
      for (int half = 0; half < HALVES; ++half) masks[half][block] = from.mask(block, 8 * half);
      stored[block] = group * 16 + g + 8 * block < IMAGES * bands * blocks_w ? to.mask(block, 0) : 0u;
    }
  }
};

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue),
            (in, w, out, epilogue)) {
  extern __shared__ __align__(16) char shared[];
  __shared__ unsigned long long barriers[STAGES];
  const unsigned barrier = shared_address(barriers);
  if (bulk_in && threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      if (!first_work(WORK_BLOCK)) mbarrier_inval(barrier + 8 * i);
      mbarrier_init(barrier + 8 * i, 1);
    }
    fence_mbarrier_init();
  }
  overlap();
  __syncthreads();
  char* planes = shared + guard;
  char* staged = planes + STAGES * in_bytes + guard;
  const int first_channel = static_cast<int>(WORK_BLOCK % channel_groups) * CHANNELS;
  const int begin = static_cast<int>(WORK_BLOCK / channel_groups) * units_split;
  const int end = min_of(units_all, begin + units_split);
  const auto start = [&](int unit) {
    const int images = min_of(IMAGES, BATCH - unit * IMAGES);
    const int stage = (unit - begin) % STAGES;
    if constexpr (bulk_in) {
      if (threadIdx.x >= 32 || unit >= end) return;
      if (threadIdx.x == 0) mbarrier_arrive_expect_tx(barrier + 8 * stage, images * InPlanes::bytes());
      __syncwarp();
      InPlanes::load_bulk(planes + stage * in_bytes, in, unit * IMAGES, images, first_channel, barrier + 8 * stage);
    } else {
      if (unit < end) InPlanes::load(planes + stage * in_bytes, in, unit * IMAGES, images, first_channel);
      cp_async_commit();
    }
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) start(begin + i);

  const int warp = threadIdx.x / 32 % CHANNEL_WARPS;  // of its channel's
  const int mine = threadIdx.x / 32 / CHANNEL_WARPS;  // of the block's channels
  const int channel = first_channel + mine;
  const int g = threadIdx.x % 32 / 4;
  const int t = threadIdx.x % 4;
  // b of each row of taps: rows k, columns j.
  unsigned b[taps_h][HALVES];
#pragma unroll
  for (int r = 0; r < taps_h; ++r) {
#pragma unroll
    for (int half = 0; half < HALVES; ++half) {
      b[r][half] = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int s = tap_w(r, 8 * half + 2 * t + e, g);
        if (s < 0 || channel >= OUT_C) continue;
        b[r][half] |= load_global_nc_u16(w + static_cast<long long>(channel) * W_STRIDE_K +
                                         (FOLDED    ? 0
                                          : FLIPPED ? TAPS_H - 1 - r
                                                    : r) *
                                             W_STRIDE_H +
                                         static_cast<long long>(FLIPPED ? TAPS_W - 1 - s : s) * W_STRIDE_W)
                      << 16 * e;
      }
    }
  }

  const auto work = [&](int unit, int group, const Group& lane_blocks) {
    const In& from = lane_blocks.from;
    const Out& to = lane_blocks.to;
    const int first_image = unit * IMAGES;
    const char* source[2];
    char* target[2];
    long long at[2];
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      source[block] = from.at(planes + (unit - begin) % STAGES * in_bytes, block, first_image, first_channel);
      target[block] = const_cast<char*>(
          to.at(staged + (bulk_out ? (unit - begin) % 2 * out_bytes : 0), block, first_image, first_channel));
      at[block] = OutPlanes::begin(first_image + to.image[block], channel) + to.row[block] * out_w + to.column[block];
    }
    float sum[open][4];
#pragma unroll
    for (int k = 0; k < open; ++k) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[k][e] = 0;
    }
    float lost = 0;
    unsigned row[step_in][HALVES][2];
    const auto load = [&](int step) {
#pragma unroll
      for (int i = 0; i < step_in; ++i) {
#pragma unroll
        for (int block = 0; block < 2; ++block) {
#pragma unroll
          for (int half = 0; half < HALVES; ++half) {
            const bool inside = from.inside(block, first_in, step * step_in + i, 8 * half);
            const bool next = FOLDED ? from.inside(block, first_in, step * step_in + i, 8 * half + 1) : inside;
            row[i][half][block] = load_pair<in_pairs>(source[block] + (i * in_w + 8 * half) * size, inside, next) &
                                  lane_blocks.masks[half][block];
          }
        }
      }
      source[0] += step_in * in_w * size;
      source[1] += step_in * in_w * size;
    };
    // The sums of a step, and the next one's rows.
    const auto multiply = [&](int step) {
#pragma unroll
      for (int k = 0; k < open; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sum[k][e] = k + step_out < open ? sum[k + step_out < open ? k + step_out : k][e] : 0;
        }
#pragma unroll
        for (int i = 0; i < step_in; ++i) {
          const int r = tap_h(k, i);
          if (r < 0) continue;
#pragma unroll
          for (int half = 0; half < HALVES; half += 2) {
            const unsigned* low = row[i][half];
            if (half + 1 < HALVES) {
              const unsigned* high = row[i][half + 1 < HALVES ? half + 1 : half];
              mma_k16<ELEMENT>(sum[k], low[0], low[1], high[0], high[1], b[r][half],
                               b[r][half + 1 < HALVES ? half + 1 : half]);
            } else {
              mma_k8<ELEMENT>(sum[k], low[0], low[1], b[r][half]);
            }
          }
        }
      }
      load(step + 1);
    };
    load(0);
#pragma unroll 1
    for (int step = 0; step < silent; ++step) multiply(step);
    target[0] += silent * step_out * out_w * size;
    target[1] += silent * step_out * out_w * size;
#pragma unroll 2
    for (int step = silent; step < steps; ++step) {
      multiply(step);
#pragma unroll
      for (int k = 0; k < step_out; ++k) {
        const int done = first_out + step * step_out + k;  // of the band
        if (first_out + silent * step_out < 0 && done < 0) continue;
        if (first_out + steps * step_out > BAND_ROWS && done >= BAND_ROWS) continue;
#pragma unroll
        for (int block = 0; block < 2; ++block) {
          if (!FOLDED && bands * BAND_ROWS > out_h && to.row[block] + step * step_out + k >= out_h) continue;
          if (FOLDED && !to.inside(block, 0, step, 0)) continue;
          const bool second = !FOLDED || to.inside(block, 0, step, 1);
          ELEMENT* pair = reinterpret_cast<ELEMENT*>(target[block]) + k * out_w;
          ELEMENT result[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float v = sum[k][2 * block + e];
            lost = fmaf(v, 0.0f, lost);
            result[e] = finished<ELEMENT>(v, out, at[block] + (step * step_out + k) * out_w + e, channel, epilogue);
          }
          if constexpr (out_pairs) {
            if (lane_blocks.stored[block] != 0) {
              *reinterpret_cast<unsigned*>(pair) = result[0].bits | static_cast<unsigned>(result[1].bits) << 16;
            }
          } else {
            if (lane_blocks.stored[block] != 0) pair[0] = result[0];
            if (lane_blocks.stored[block] == ~0u && second) pair[1] = result[1];
          }
        }
      }
      target[0] += step_out * out_w * size;
      target[1] += step_out * out_w * size;
    }
    // An infinity or a NaN reaches sums that it doesn't belong to, times zero: a lane's are computed one by one.
    if (lost == lost) return;
#pragma unroll 1
    for (int i = 0; i < 4 * BAND_ROWS; ++i) {
      const int block = i / 2 % 2;
      const int image = first_image + (block == 0 ? to.image[0] : to.image[1]);
      const int row = (block == 0 ? to.row[0] : to.row[1]) - first_out + i / 4;
      const int column = (block == 0 ? to.column[0] : to.column[1]) + i % 2;
      const int p = FOLDED ? 0 : row;
      const int q = FOLDED ? row * 8 + column : column;
      if (image >= BATCH || p >= OUT_H || q >= OUT_W || group * 16 + g + 8 * block >= IMAGES * bands * blocks_w)
        continue;
      const char* planes_out = staged + (bulk_out ? (unit - begin) % 2 * out_bytes : 0);
      const char* from_block = block == 0 ? to.at(planes_out, 0, first_image, first_channel)
                                          : to.at(planes_out, 1, first_image, first_channel);
      *reinterpret_cast<ELEMENT*>(const_cast<char*>(from_block) + ((i / 4 - first_out) * out_w + i % 2) * size) =
          finished<ELEMENT>(output_sum(in, w, image, channel, 0, p, q), out,
                            OutPlanes::begin(image, channel) + p * OUT_W + q, channel, epilogue);
    }
  };
  Group lane_blocks(warp, mine, g, t);
#pragma unroll 1
  for (int unit = begin; unit < end; ++unit) {
    start(unit + STAGES - 1);
    if constexpr (bulk_in) {
      mbarrier_wait(barrier + 8 * ((unit - begin) % STAGES), (unit - begin) / STAGES % 2);
    } else {
      cp_async_wait<STAGES - 1>();
    }
    if (bulk_out && threadIdx.x < 32) cp_async_bulk_wait_read<1>();
    __syncthreads();
#pragma unroll 1
    for (int group = warp; group < groups && channel < OUT_C; group += CHANNEL_WARPS) {
      if (!one_group) lane_blocks = Group(group, mine, g, t);
      work(unit, group, lane_blocks);
    }
    if (bulk_out) fence_proxy_async();
    __syncthreads();
    const int images = min_of(IMAGES, BATCH - unit * IMAGES);
    if constexpr (bulk_out) {
      if (threadIdx.x < 32) {
        OutPlanes::store_bulk(out, staged + (unit - begin) % 2 * out_bytes, unit * IMAGES, images, first_channel);
      }
    } else {
      OutPlanes::store(out, staged, unit * IMAGES, images, first_channel);
    }
  }
  if (bulk_out && threadIdx.x < 32) cp_async_bulk_wait_read<0>();
}
