// Depthwise fprop and dgrad of signals (1D) with long filters, on multiply-adds. A thread computes TILE neighbouring
// outputs of a channel, with a stride's dgrad as many of each phase, from rows in shared memory (signal_rows.cuh): four
// taps, read by all threads of the channel at once, meet a window of inputs that moves on by four, 4 * TILE
// multiply-adds for two loads of 16 bytes. A block keeps its channels' filters and walks over images; the next one's
// rows are copied while one is worked on.
#include "overlap.cuh"
#include "signal_block.cuh"
#include "signal_rows.cuh"
#include "work_blocks.cuh"

namespace {

static_assert(FAN_IN == 1 && !SPARSE && GROUP_TAPS == taps && (ROUND >= phase_taps || ROUND % TILE == 0));
constexpr int phase_weights = (phase_taps + 3) / 4 * 4;
constexpr int weights_pitch = (stride * phase_weights) | 4;  // other channels, other banks
constexpr int sums_phases = TRANSPOSED ? stride : 1;         // of a thread
// A plane's sums take the place of its inputs, and of no other's: warps may be at different planes.
constexpr int plane_pitch = max_of(Rows<In>::plane_pitch, Rows<Out>::plane_pitch);
constexpr int stage_floats = PLANES * plane_pitch;

// sum[q] += w[s] * x[q + ahead + s], s < count.
template <int count, int ahead>
__device__ __forceinline__ void accumulate(float (&sum)[TILE], const float* x, const float* w) {
  constexpr int window = (TILE + count - 1 + ahead + 3) / 4 * 4;
  constexpr int loaded = min_of(window, (TILE + ahead + 6) / 4 * 4);  // for the first four taps
  float v[window];
#pragma unroll
  for (int j = ahead / 4 * 4; j < loaded; j += 4) load_four(v + j, x + room_of(j));
#pragma unroll
  for (int s = 0; s < count; s += 4) {
    if (s > 0 && loaded + s - 4 < window) load_four(v + loaded + s - 4, x + room_of(loaded + s - 4));
    float f[4];
    load_four(f, w + s);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (s + i >= count) break;
#pragma unroll
      for (int q = 0; q < TILE; ++q) sum[q] = fmaf(v[q + ahead + s + i], f[i], sum[q]);
    }
  }
}

// More taps than ROUND go round a loop: straight code would be too long.
template <int count, int ahead>
__device__ __forceinline__ void accumulate_all(float (&sum)[TILE], const float* x, const float* w) {
  if constexpr (count > ROUND) {
#pragma unroll 1
    for (int i = 0; i < count / ROUND; ++i) {
      accumulate<ROUND, ahead>(sum, x, w);
      x += room_of(ROUND);
      w += ROUND;
    }
    if constexpr (count % ROUND > 0) accumulate<count % ROUND, ahead>(sum, x, w);
  } else if constexpr (count > 0) {
    accumulate<count, ahead>(sum, x, w);
  }
}

template <int phase>
__device__ __forceinline__ void accumulate_phases(float (&sum)[sums_phases][TILE], const float* x, const float* w) {
  if constexpr (phase < stride) {
    constexpr int count = taps_of_phase(phase);
    if constexpr (TRANSPOSED) {
      accumulate_all<count, lead + phase_taps - count>(sum[phase], x, w + phase * phase_weights);
    } else {
      accumulate_all<count, lead>(sum[0], x + phase * Rows<In>::phase_pitch, w + phase * phase_weights);
    }
    accumulate_phases<phase + 1>(sum, x, w);
  }
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out, const EpilogueArgs epilogue),
            (in, w, out, epilogue)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  float* stages = reinterpret_cast<float*>(shared);
  float* weights = stages + STAGES * stage_floats;
  const int first_channel = static_cast<int>(WORK_BLOCK % groups) * PLANES;
  const int segment = static_cast<int>(WORK_BLOCK / groups % segments);
  const int split = static_cast<int>(WORK_BLOCK / (groups * segments));

  const auto load = [&](int n, int stage) {
    Rows<In>::load(stages + stage * stage_floats, in, n, first_channel, segment, 0, plane_pitch);
  };
  if constexpr (STAGES == 2) start_image(load, split, 0);
  for_weights(w, first_channel, [&](int plane, int phase, int step, float weight) {
    weights[plane * weights_pitch + phase * phase_weights + step] = weight;
  });
  __syncthreads();

  const int plane = static_cast<int>(threadIdx.x) / items_plane;
  const int phase = static_cast<int>(threadIdx.x) % items_plane / TILES;
  const int tile = static_cast<int>(threadIdx.x) % TILES;
  const bool works = plane < PLANES && first_channel + plane < OUT_C;
  const float* filter = weights + plane * weights_pitch;

  const auto work = [&](int n, int stage) {
    float* rows = stages + stage * stage_floats;
    float sum[sums_phases][TILE];
#pragma unroll
    for (int p = 0; p < sums_phases; ++p) {
#pragma unroll
      for (int q = 0; q < TILE; ++q) sum[p][q] = 0;
    }
    if (works) {
      const float* x = rows + plane * plane_pitch + phase * Rows<In>::phase_pitch + tile * tile_pitch;
      accumulate_phases<0>(sum, x, filter);
    }
    wait_for_rows();  // nobody reads inputs any more: the sums take their place
    if (works) {
#pragma unroll
      for (int p = 0; p < sums_phases; ++p) {
        float* to = rows + plane * plane_pitch + (phase + p) * Rows<Out>::phase_pitch + tile * tile_pitch;
#pragma unroll
        for (int q = 0; q < TILE; q += 4) {
          *reinterpret_cast<float4*>(to + q) = make_float4(sum[p][q], sum[p][q + 1], sum[p][q + 2], sum[p][q + 3]);
        }
      }
    }
    wait_for_rows();
    Rows<Out>::store(out, rows, n, first_channel, segment, plane_pitch, epilogue);
  };
  for_images(split, load, wait_for_rows, work);
}
