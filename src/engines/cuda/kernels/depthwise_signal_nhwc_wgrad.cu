// Depthwise wgrad of channels-last signals (1D), on multiply-adds. A block owns PLANES channels, GROUP_TAPS taps of
// them and a segment of the signal, and walks over its share of the images, whose x and dy it copies to shared memory
// (signal_channels.cuh). A thread keeps the sums of all those taps: TILE values of dy, in registers, meet a window of x
// that is read once. The block's sums are added in a fixed order and go to partial[split][tap][k]; `reduce` adds the
// splits.
#include "overlap.cuh"
#include "signal_block.cuh"
#include "signal_channels.cuh"
#include "work_blocks.cuh"

namespace {

static_assert(!TRANSPOSED && MULTIPLIER == 1 && !SPARSE);
static_assert(tap_groups == 1 || (GROUP_TAPS % 4 == 0 && stride == 1));
constexpr int stage_bytes = Channels<In>::bytes + Channels<Out>::bytes;
constexpr int step_bytes = in_phases * row_bytes;  // from a phase's position to its next
constexpr int exchanged = min_of(GROUP_TAPS, STAGES* stage_bytes / (THREADS * 4));  // taps handed over at a time
static_assert(exchanged > 0);

// sum[s * stride + phase] += g[q] * x[q + lead + s].
template <int phase>
__device__ __forceinline__ void accumulate_phases(float (&sum)[GROUP_TAPS], const float (&g)[TILE], const char* x) {
  if constexpr (phase < stride) {
    constexpr int count = taps_of_phase(phase);
#pragma unroll
    for (int j = 0; j < TILE + count - 1; ++j) {
      const float v = load_element(x + phase * row_bytes + (j + lead) * step_bytes);
#pragma unroll
      for (int q = 0; q < TILE; ++q) {
        const int s = j - q;
        if (s >= 0 && s < count) sum[s * stride + phase] = fmaf(g[q], v, sum[s * stride + phase]);
      }
    }
    accumulate_phases<phase + 1>(sum, g, x);
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise_wgrad,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, float* __restrict__ partial),
            (x, dy, partial)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  const int first_channel = static_cast<int>(WORK_BLOCK % groups) * PLANES;
  const int tap_group = static_cast<int>(WORK_BLOCK / groups % tap_groups);
  const int segment = static_cast<int>(WORK_BLOCK / (groups * tap_groups) % segments);
  const int split = static_cast<int>(WORK_BLOCK / (groups * tap_groups * segments));
  const int shift = tap_group * (GROUP_TAPS * in_phases);

  const auto load = [&](int n, int stage) {
    char* to = shared + stage * stage_bytes;
    Channels<In>::load(to, x, n, first_channel, segment, shift);
    Channels<Out>::load(to + Channels<In>::bytes, dy, n, first_channel, segment, 0);
  };
  const int lane = static_cast<int>(threadIdx.x) % PLANES;
  const int phase = static_cast<int>(threadIdx.x) / PLANES % item_phases;
  const int tile = static_cast<int>(threadIdx.x) / (PLANES * item_phases);
  const bool works = threadIdx.x < tile_threads && first_channel + lane < OUT_C;
  const char* position =
      shared + (tile * (TILE * in_phases) + phase) * row_bytes + lane * static_cast<int>(sizeof(ELEMENT));
  const char* gradient = shared + Channels<In>::bytes + (tile * (TILE * out_phases) + phase) * row_bytes +
                         lane * static_cast<int>(sizeof(ELEMENT));

  float sum[GROUP_TAPS];
#pragma unroll
  for (int s = 0; s < GROUP_TAPS; ++s) sum[s] = 0;
  if constexpr (STAGES == 2) start_image(load, split, 0);
  const auto work = [&](int, int stage) {
    if (works) {
      float g[TILE];
#pragma unroll
      for (int q = 0; q < TILE; ++q) {
        g[q] = load_element(gradient + stage * stage_bytes + q * (out_phases * row_bytes));
      }
      accumulate_phases<0>(sum, g, position + stage * stage_bytes);
    }
  };
  for_images(split, load, [] { __syncthreads(); }, work);
  cp_async_wait<0>();

  // Neighbouring threads add neighbouring channels' sums, each over the channel's threads in their order.
  float* exchange = reinterpret_cast<float*>(shared);
  const long long share = split * segments + segment;
#pragma unroll
  for (int begin = 0; begin < GROUP_TAPS; begin += exchanged) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < exchanged; ++i) {
      if (begin + i < GROUP_TAPS) exchange[i * THREADS + threadIdx.x] = sum[begin + i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < PLANES * exchanged; i += THREADS) {
      const int tap = tap_group * GROUP_TAPS + begin + i / PLANES;
      const int k = first_channel + i % PLANES;
      if (begin + i / PLANES >= GROUP_TAPS || tap >= taps || k >= OUT_C) continue;
      const float* mine = exchange + i / PLANES * THREADS + i % PLANES;
      float total = 0;
#pragma unroll 4
      for (int t = 0; t < items_plane; ++t) total += mine[t * PLANES];
      partial[(share * taps + tap) * OUT_C + k] = total;
    }
  }
}
