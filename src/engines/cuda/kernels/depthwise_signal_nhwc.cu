// Depthwise fprop and dgrad of channels-last signals (1D) with long filters, on multiply-adds. A thread computes TILE
// outputs of a channel, with a stride's dgrad as many of each phase, from positions in shared memory
// (signal_channels.cuh): an input meets all taps that it can, and the window of taps moves on by one, TILE
// multiply-adds for two loads. A block keeps its channels' filters and walks over images; the next one is copied while
// one is worked on.
#include "epilogue.cuh"
#include "overlap.cuh"
#include "signal_block.cuh"
#include "signal_channels.cuh"
#include "work_blocks.cuh"

namespace {

static_assert(FAN_IN == 1 && MULTIPLIER == 1 && !SPARSE && GROUP_TAPS == taps);
constexpr int sums_phases = TRANSPOSED ? stride : 1;  // of a thread
constexpr int stage_bytes = Channels<In>::bytes;
constexpr int step_bytes = in_phases * row_bytes;  // from a phase's position to its next

// sum[q] += w[s] * x[q + ahead + s], s < count.
template <int count, int ahead>
__device__ __forceinline__ void accumulate(float (&sum)[TILE], const char* x, const float* w) {
  float f[count];
#pragma unroll
  for (int j = 0; j < TILE + count - 1; ++j) {
    const float v = load_element(x + (j + ahead) * step_bytes);
    if (j < count) f[j] = w[j * PLANES];
      // Multiply-adds that follow one another share an operand, or they take two cycles: inputs outside, taps inside.
#pragma unroll
    for (int q = 0; q < TILE; ++q) {
      const int s = j - q;
      if (s >= 0 && s < count) sum[q] = fmaf(v, f[s], sum[q]);
    }
  }
}

// More taps than ROUND go round a loop: straight code would be too long.
template <int count, int ahead>
__device__ __forceinline__ void accumulate_all(float (&sum)[TILE], const char* x, const float* w) {
  if constexpr (count > ROUND) {
#pragma unroll 1
    for (int i = 0; i < count / ROUND; ++i) {
      accumulate<ROUND, ahead>(sum, x, w);
      x += ROUND * step_bytes;
      w += ROUND * PLANES;
    }
    if constexpr (count % ROUND > 0) accumulate<count % ROUND, ahead>(sum, x, w);
  } else if constexpr (count > 0) {
    accumulate<count, ahead>(sum, x, w);
  }
}

template <int phase>
__device__ __forceinline__ void accumulate_phases(float (&sum)[sums_phases][TILE], const char* x, const float* w) {
  if constexpr (phase < stride) {
    constexpr int count = taps_of_phase(phase);
    const float* filter = w + phase * phase_taps * PLANES;
    if constexpr (TRANSPOSED) {
      accumulate_all<count, lead + phase_taps - count>(sum[phase], x, filter);
    } else {
      accumulate_all<count, lead>(sum[0], x + phase * row_bytes, filter);
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
  float* weights = reinterpret_cast<float*>(shared + STAGES * stage_bytes);  // [phase][step][channel]
  const int first_channel = static_cast<int>(WORK_BLOCK % groups) * PLANES;
  const int segment = static_cast<int>(WORK_BLOCK / groups % segments);
  const int split = static_cast<int>(WORK_BLOCK / (groups * segments));

  const auto load = [&](int n, int stage) {
    Channels<In>::load(shared + stage * stage_bytes, in, n, first_channel, segment, 0);
  };
  if constexpr (STAGES == 2) start_image(load, split, 0);
  for_weights(w, first_channel, [&](int plane, int phase, int step, float weight) {
    weights[(phase * phase_taps + step) * PLANES + plane] = weight;
  });

  const int lane = static_cast<int>(threadIdx.x) % PLANES;
  const int phase = static_cast<int>(threadIdx.x) / PLANES % item_phases;
  const int tile = static_cast<int>(threadIdx.x) / (PLANES * item_phases);
  const int channel = first_channel + lane;
  const bool works = threadIdx.x < tile_threads && channel < OUT_C;
  // The first output of the thread's first phase.
  const int first = segment * (segment_tiles * out_phases) + tile * (TILE * out_phases) + phase + out_base;
  const char* position =
      shared + (tile * (TILE * in_phases) + phase) * row_bytes + lane * static_cast<int>(sizeof(ELEMENT));

  const auto work = [&](int n, int stage) {
    if (works) {
      float sum[sums_phases][TILE];
#pragma unroll
      for (int p = 0; p < sums_phases; ++p) {
#pragma unroll
        for (int q = 0; q < TILE; ++q) sum[p][q] = 0;
      }
      accumulate_phases<0>(sum, position + stage * stage_bytes, weights + lane);
      const long long at = n * Out::stride_n + first * Out::step + channel * Out::stride_c;
#pragma unroll
      for (int p = 0; p < sums_phases; ++p) {
#pragma unroll
        for (int q = 0; q < TILE; ++q) {
          const int o = first + q * out_phases + p;
          if (o >= Out::length || (out_base < 0 && o < 0)) continue;
          const float value[1] = {sum[p][q]};
          finish<ELEMENT, 1>(value, out, at + (q * out_phases + p) * Out::step, channel, epilogue);
        }
      }
    }
  };
  for_images(split, load, [] { __syncthreads(); }, work);
}
