// Depthwise wgrad of signals (1D), on multiply-adds. A block owns PLANES channels, GROUP_TAPS taps of them and a
// segment of the signal, and walks over its share of the images, whose rows of x and dy it copies to shared memory
// (signal_rows.cuh). A thread keeps the sums of all those taps: TILE values of dy, in registers, meet a window of x
// that is read once, by 16 bytes. The block's sums are added in a fixed order and go to partial[split][k][tap];
// `reduce` adds the splits.
#include "overlap.cuh"
#include "signal_block.cuh"
#include "signal_rows.cuh"
#include "work_blocks.cuh"

namespace {

static_assert(!TRANSPOSED);
static_assert(tap_groups == 1 || (GROUP_TAPS % 4 == 0 && stride == 1 && !SPARSE));
constexpr int x_floats = PLANES * Rows<In>::plane_pitch;
constexpr int stage_floats = x_floats + PLANES * Rows<Out>::plane_pitch;
constexpr int exchange_pitch = THREADS + 1;
constexpr int exchanged = min_of(GROUP_TAPS, STAGES* stage_floats / exchange_pitch);  // taps handed over at a time
static_assert(exchanged > 0);

// sum[s * stride + phase] += g[q] * x[q + lead + s], s < count.
template <int phase>
__device__ __forceinline__ void accumulate_phases(float (&sum)[GROUP_TAPS], const float (&g)[TILE], const float* x) {
  if constexpr (phase < stride) {
    constexpr int count = taps_of_phase(phase);
#pragma unroll
    for (int j = lead / 4 * 4; j < TILE + count - 1 + lead; j += 4) {
      float v[4];
      load_four(v, x + phase * Rows<In>::phase_pitch + room_of(j));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int q = 0; q < TILE; ++q) {
          const int s = j + i - lead - q;
          if (s >= 0 && s < count) sum[s * stride + phase] = fmaf(g[q], v[i], sum[s * stride + phase]);
        }
      }
    }
    accumulate_phases<phase + 1>(sum, g, x);
  }
}

// Each tap by itself: no two read the same inputs.
template <int tap>
__device__ __forceinline__ void accumulate_sparse(float (&sum)[GROUP_TAPS], const float (&g)[TILE], const float* x) {
  if constexpr (tap < taps) {
    constexpr int ahead = lead + tap * dilation;
    constexpr int from = ahead / 4 * 4;
    float v[TILE + 4];
#pragma unroll
    for (int j = 0; j < TILE + (ahead > from ? 4 : 0); j += 4) load_four(v + j, x + room_of(from + j));
#pragma unroll
    for (int q = 0; q < TILE; ++q) sum[tap] = fmaf(g[q], v[q + ahead - from], sum[tap]);
    accumulate_sparse<tap + 1>(sum, g, x);
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise_wgrad,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, float* __restrict__ partial),
            (x, dy, partial)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  float* stages = reinterpret_cast<float*>(shared);
  const int first_channel = static_cast<int>(WORK_BLOCK % groups) * PLANES;
  const int tap_group = static_cast<int>(WORK_BLOCK / groups % tap_groups);
  const int segment = static_cast<int>(WORK_BLOCK / (groups * tap_groups) % segments);
  const int split = static_cast<int>(WORK_BLOCK / (groups * tap_groups * segments));
  const int shift = tap_group * (GROUP_TAPS * in_phases);

  const auto load = [&](int n, int stage) {
    float* to = stages + stage * stage_floats;
    Rows<In>::load(to, x, n, first_channel, segment, shift, Rows<In>::plane_pitch);
    Rows<Out>::load(to + x_floats, dy, n, first_channel, segment, 0, Rows<Out>::plane_pitch);
  };
  const int plane = static_cast<int>(threadIdx.x) / items_plane;
  const int phase = static_cast<int>(threadIdx.x) % items_plane / TILES;
  const int tile = static_cast<int>(threadIdx.x) % TILES;
  const bool works = plane < PLANES && first_channel + plane < OUT_C;

  float sum[GROUP_TAPS];
#pragma unroll
  for (int s = 0; s < GROUP_TAPS; ++s) sum[s] = 0;
  if constexpr (STAGES == 2) start_image(load, split, 0);
  const auto work = [&](int, int stage) {
    if (works) {
      const float* rows = stages + stage * stage_floats;
      const float* row =
          rows + x_floats + plane * Rows<Out>::plane_pitch + phase * Rows<Out>::phase_pitch + tile * tile_pitch;
      float g[TILE];
#pragma unroll
      for (int q = 0; q < TILE; q += 4) load_four(g + q, row + q);
      row = rows + plane * Rows<In>::plane_pitch + phase * Rows<In>::phase_pitch + tile * tile_pitch;
      if constexpr (SPARSE) {
        accumulate_sparse<0>(sum, g, row);
      } else {
        accumulate_phases<0>(sum, g, row);
      }
    }
  };
  for_images(split, load, wait_for_rows, work);
  cp_async_wait<0>();

  // Neighbouring threads add neighbouring taps' sums, each over the plane's threads in their order.
  float* exchange = stages;
#pragma unroll
  for (int first = 0; first < GROUP_TAPS; first += exchanged) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < exchanged; ++i) {
      if (first + i < GROUP_TAPS) exchange[i * exchange_pitch + threadIdx.x] = sum[first + i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < PLANES * exchanged; i += THREADS) {
      const int tap = tap_group * GROUP_TAPS + first + i % exchanged;
      const int k = first_channel + i / exchanged;
      if (first + i % exchanged >= GROUP_TAPS || tap >= taps || k >= OUT_C) continue;
      const float* mine = exchange + i % exchanged * exchange_pitch + i / exchanged * items_plane;
      float total = 0;
#pragma unroll 4
      for (int t = 0; t < items_plane; ++t) total += mine[t];
      partial[(static_cast<long long>(split * segments + segment) * OUT_C + k) * taps + tap] = total;
    }
  }
}
