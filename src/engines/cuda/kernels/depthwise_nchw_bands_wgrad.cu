// Depthwise wgrad of packed 16-bit NCHW tensors on the tensor cores. For a row of taps, a product of matrices adds over
// 16 blocks of 8 columns of dy: its a has x's windows as columns, its b dy's blocks as rows, so that d[i][j] is the sum
// of x's window column i times dy's column j; tap s is the sum of those that lie s apart. A row of x, loaded once,
// meets the last rows of dy, which are kept. Sums stay in registers over all blocks of a warp's share, then the
// diagonals are added in a fixed order into partial[split][k][tap]; `reduce` adds the splits.
#define WGRAD true
#include "mma.cuh"
#include "overlap.cuh"
#include "plane_bands.cuh"
#include "work_blocks.cuh"

namespace {

constexpr int columns = ceil_div(HALVES, 2);  // of 16, of a window
constexpr int first_in = -pad_h;
// Steps until the last row of dy has met all of its rows of x, or x's last row is reached.
constexpr int steps = bands > 1 ? BAND_ROWS + open - 1 : min_of(out_h + open - 1, (in_h - 1 + pad_h) / stride_h + 1);
constexpr bool one_group = groups <= CHANNEL_WARPS;  // of a warp
constexpr int turn = open > 8 ? 1 : open;            // steps after which the rows of dy lie in the same registers
constexpr int stage_bytes = IMAGES * (IN_PITCH + OUT_PITCH);
constexpr int exchanged = 16 * columns * 9;  // floats, of a warp

// The row of taps through which a step's row i of x meets the k-th newest row of dy, or -1.
CONVOY_CONSTEXPR int tap_h(int k, int i) { return tap_of(i + k * stride_h, dilation_h, taps_h); }

using XPlanes = Planes<IN_C, in_plane, IN_PITCH>;
using DyPlanes = Planes<OUT_C, out_plane, OUT_PITCH>;
using X = Places<4, in_h, in_w, in_plane, IN_PITCH, XPlanes>;
using Dy = Places<4, out_h, out_w, out_plane, OUT_PITCH, DyPlanes>;
constexpr bool bulk = XPlanes::bulk() && DyPlanes::bulk();

// A lane's four blocks of a group, the terms 2t, 2t + 1, 2t + 8 and 2t + 9 of its products, and what counts of them.
// Rows g and g + 8 of a are neighbouring columns of x, 2g and 2g + 1: a word of memory.
struct Group {
  X from_x;
  Dy from_dy;
  unsigned masks[columns][4];
  unsigned counted[2];  // of the words of b

  __device__ __forceinline__ Group(int group, int channel, int g, int t)
      : from_x(group, 2 * t, 8, channel, first_in, band_step_in, window_step, WINDOW + 2 * g),
        from_dy(group, 2 * t, 8, channel, 0, BAND_ROWS, 8, g) {
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      const bool real = group * 16 + 2 * t + block % 2 + block / 2 * 8 < IMAGES * bands * blocks_w;
#pragma unroll
      for (int m = 0; m < columns; ++m) masks[m][block] = real ? from_x.mask(block, 16 * m) : 0u;
      const unsigned half = real ? from_dy.mask(block, 0) & 0xffffu : 0u;
      counted[block / 2] = block % 2 == 0 ? half : counted[block / 2] | half << 16;
    }
    asm("" : "+r"(counted[0]), "+r"(counted[1]));  // else they are computed again in each step
  }
};

// A tap of the warp's share by plain multiply-adds, its lanes' sums added in a fixed order.
__device__ __forceinline__ float plain_sum(const ELEMENT* x, const ELEMENT* dy, int channel, int begin, int end,
                                           int warp, int r, int s) {
  constexpr int per_image = bands * blocks_w * BAND_ROWS * 8;
  float sum = 0;
#pragma unroll 1
  for (int n = begin * IMAGES; n < min_of(BATCH, end * IMAGES); ++n) {
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < per_image; i += 32) {
      const int block = i / (8 * BAND_ROWS);
      if ((n % IMAGES * (bands * blocks_w) + block) / 16 % CHANNEL_WARPS != warp) continue;
      const int row = block / blocks_w * BAND_ROWS + i / 8 % BAND_ROWS;
      const int p = FOLDED ? 0 : row;
      const int q = (FOLDED ? row : block % blocks_w) * 8 + i % 8;
      const int h = p * STRIDE_H + r * DILATION_H - PAD_H;
      const int v = q * STRIDE_W + s * DILATION_W - PAD_W;
      if (p >= OUT_H || q >= OUT_W || h < 0 || h >= IN_H || v < 0 || v >= IN_W) continue;
      sum = fmaf(load_float(x + XPlanes::begin(n, channel) + h * IN_W + v),
                 load_float(dy + DyPlanes::begin(n, channel) + p * OUT_W + q), sum);
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
  extern __shared__ __align__(16) char shared[];
  __shared__ unsigned long long barriers[STAGES];
  const unsigned barrier = shared_address(barriers);
  if (bulk && threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      if (!first_work(WORK_BLOCK)) mbarrier_inval(barrier + 8 * i);
      mbarrier_init(barrier + 8 * i, 1);
    }
    fence_mbarrier_init();
  }
  overlap();
  __syncthreads();
  char* planes = shared + guard;
  const int first_channel = static_cast<int>(WORK_BLOCK % channel_groups) * CHANNELS;
  const int split = static_cast<int>(WORK_BLOCK / channel_groups);
  const int begin = split * units_split;
  const int end = min_of(units_all, begin + units_split);
  const auto start = [&](int unit) {
    const int images = min_of(IMAGES, BATCH - unit * IMAGES);
    const int stage = (unit - begin) % STAGES;
    char* to_x = planes + stage * stage_bytes;
    char* to_dy = to_x + IMAGES * IN_PITCH;
    // What is missing in the last unit counts as zeros.
    if (BATCH % IMAGES != 0 && unit < end && images < IMAGES) {
      for (int i = threadIdx.x * 16; i < stage_bytes; i += THREADS * 16) {
        const bool missing =
            i < IMAGES * IN_PITCH ? i >= images * IN_PITCH : i >= IMAGES * IN_PITCH + images * OUT_PITCH;
        if (missing) *reinterpret_cast<uint4*>(to_x + i) = make_uint4(0, 0, 0, 0);
      }
    }
    if constexpr (bulk) {
      if (threadIdx.x >= 32 || unit >= end) return;
      if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(barrier + 8 * stage, images * (XPlanes::bytes() + DyPlanes::bytes()));
      }
      __syncwarp();
      XPlanes::load_bulk(to_x, x, unit * IMAGES, images, first_channel, barrier + 8 * stage);
      DyPlanes::load_bulk(to_dy, dy, unit * IMAGES, images, first_channel, barrier + 8 * stage);
    } else {
      if (unit < end) {
        XPlanes::load(to_x, x, unit * IMAGES, images, first_channel);
        DyPlanes::load(to_dy, dy, unit * IMAGES, images, first_channel);
      }
      cp_async_commit();
    }
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) start(begin + i);

  const int warp = threadIdx.x / 32 % CHANNEL_WARPS;  // of its channel's
  const int mine = threadIdx.x / 32 / CHANNEL_WARPS;  // of the block's channels
  const int channel = first_channel + mine;
  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  float sum[taps_h][columns][4];
#pragma unroll
  for (int r = 0; r < taps_h; ++r) {
#pragma unroll
    for (int m = 0; m < columns; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[r][m][e] = 0;
    }
  }

  const auto work = [&](int unit, const Group& lane_blocks) {
    const X& from_x = lane_blocks.from_x;
    const Dy& from_dy = lane_blocks.from_dy;
    const int first_image = unit * IMAGES;
    const char* stage = planes + (unit - begin) % STAGES * stage_bytes;
    const char* source[4];
    const char* source_dy[4];
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      source[block] = from_x.at(stage, block, first_image, first_channel);
      source_dy[block] = from_dy.at(stage + IMAGES * IN_PITCH, block, first_image, first_channel);
    }
    unsigned row[step_in][columns][4];
    unsigned row_dy[4];
    const auto load = [&](int step) {
#pragma unroll
      for (int block = 0; block < 4; ++block) {
#pragma unroll
        for (int i = 0; i < step_in; ++i) {
#pragma unroll
          for (int m = 0; m < columns; ++m) {
            const bool inside = from_x.inside(block, first_in, step * step_in + i, 16 * m);
            const bool next = FOLDED ? from_x.inside(block, first_in, step * step_in + i, 16 * m + 1) : inside;
            row[i][m][block] = load_pair<in_pairs>(source[block] + (i * in_w + 16 * m) * size, inside, next) &
                               lane_blocks.masks[m][block];
          }
        }
        source[block] += step_in * in_w * size;
        const bool inside =
            step < BAND_ROWS && (!FOLDED && bands * BAND_ROWS == out_h || from_dy.inside(block, 0, step, 0));
        row_dy[block] = inside ? *reinterpret_cast<const unsigned short*>(source_dy[block]) : 0u;
        source_dy[block] += out_w * size;
      }
    };
    // Row of dy number n from the first lies in b[n % open], or, where steps are not taken in turns, in b[0] when it is
    // the newest.
    unsigned b[open][2];
#pragma unroll
    for (int k = 0; k < open; ++k) b[k][0] = b[k][1] = 0;
    load(0);
#pragma unroll 1
    for (int first = 0; first < steps; first += turn) {
#pragma unroll
      for (int u = 0; u < turn; ++u) {
        if (u > 0 && first + u >= steps) break;
        if (turn == 1) {
#pragma unroll
          for (int k = open - 1; k > 0; --k) {
            b[k][0] = b[k - 1][0];
            b[k][1] = b[k - 1][1];
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          b[u][half] = __byte_perm(row_dy[2 * half], row_dy[2 * half + 1], 0x5410) & lane_blocks.counted[half];
        }
#pragma unroll
        for (int i = 0; i < step_in; ++i) {
#pragma unroll
          for (int m = 0; m < columns; ++m) {
            const unsigned* word = row[i][m];
            const unsigned a0 = __byte_perm(word[0], word[1], 0x5410);
            const unsigned a1 = __byte_perm(word[0], word[1], 0x7632);
            const unsigned a2 = __byte_perm(word[2], word[3], 0x5410);
            const unsigned a3 = __byte_perm(word[2], word[3], 0x7632);
#pragma unroll
            for (int k = 0; k < open; ++k) {
              const int r = tap_h(k, i);
              const int at = turn == 1 ? k : (u - k + open) % open;
              if (r >= 0) mma_k16<ELEMENT>(sum[r < 0 ? 0 : r][m], a0, a1, a2, a3, b[at][0], b[at][1]);
            }
          }
        }
        load(first + u + 1);
      }
    }
  };
  Group lane_blocks(warp, mine, g, t);
#pragma unroll 1
  for (int unit = begin; unit < end; ++unit) {
    start(unit + STAGES - 1);
    if constexpr (bulk) {
      mbarrier_wait(barrier + 8 * ((unit - begin) % STAGES), (unit - begin) / STAGES % 2);
    } else {
      cp_async_wait<STAGES - 1>();
    }
    if (!bulk || BATCH % IMAGES != 0) __syncthreads();
#pragma unroll 1
    for (int group = warp; group < groups && channel < OUT_C; group += CHANNEL_WARPS) {
      if (!one_group) lane_blocks = Group(group, mine, g, t);
      work(unit, lane_blocks);
    }
    __syncthreads();
  }
  if (channel >= OUT_C) return;

  // Taps' totals, in a fixed order: of a row of taps after another, through shared memory.
  float* exchange = reinterpret_cast<float*>(shared) + threadIdx.x / 32 * (exchanged + taps);
  float* totals = exchange + exchanged;
#pragma unroll
  for (int r = 0; r < taps_h; ++r) {
    __syncwarp();
#pragma unroll
    for (int m = 0; m < columns; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) exchange[(16 * m + 2 * g + e / 2) * 9 + 2 * t + e % 2] = sum[r][m][e];
    }
    __syncwarp();
#pragma unroll 1
    for (int s = lane; s < TAPS_W; s += 32) {
      float total = FOLDED && r > 0 ? totals[s] : 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int k = s * DILATION_W - PAD_W - WINDOW - (FOLDED ? row_taps * r : 0) + j * STRIDE_W;
        if (!FOLDED || (k >= 0 && k < 16 * columns)) total += exchange[k * 9 + j];
      }
      totals[FOLDED ? s : r * TAPS_W + s] = total;
    }
  }
  __syncwarp();
  float* target = partial + ((static_cast<long long>(split) * CHANNEL_WARPS + warp) * OUT_C + channel) * taps;
#pragma unroll 1
  for (int first = 0; first < taps; first += 32) {
    const int tap = first + lane;
    float total = tap < taps ? totals[tap] : 0;
    // Zeros beside the tensors meet infinities and NaNs: such sums are computed again, by the whole warp.
    unsigned lost = __ballot_sync(0xffffffffu, total != total);
    while (lost != 0) {
      const int which = __ffs(static_cast<int>(lost)) - 1;
      lost &= lost - 1;
      const float again =
          plain_sum(x, dy, channel, begin, end, warp, (first + which) / TAPS_W, (first + which) % TAPS_W);
      if (lane == which) total = again;
    }
    if (tap < taps) target[tap] = total;
  }
}
