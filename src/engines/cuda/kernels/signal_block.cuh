// What blocks of the kernels for long filters of signals do alike (depthwise_signal*.cu): they take their filters and
// walk over the images of a split, copied to shared memory.
#pragma once

#include "ptx.cuh"
#include "signal_axis.cuh"
#include "types.cuh"

namespace {

// Starts copying image n, if there is one, by load(n, stage).
template <class Load>
__device__ __forceinline__ void start_image(const Load& load, int n, int stage) {
  if (n < BATCH) load(n, stage);
  cp_async_commit();
}

// work(n, stage) for each image. With two stages the first is under way, and the next is copied while one is worked on.
// wait() is for the threads that share what is copied.
template <class Load, class Wait, class Work>
__device__ __forceinline__ void for_images(int split, const Load& load, const Wait& wait, const Work& work) {
  int stage = 0;
#pragma unroll 1
  for (int n = split; n < BATCH; n += SPLITS) {
    if constexpr (STAGES == 2) {
      start_image(load, n + SPLITS, 1 - stage);
    } else {
      start_image(load, n, 0);
    }
    cp_async_wait<STAGES - 1>();
    wait();
    work(n, stage);
    wait();
    if constexpr (STAGES == 2) stage = 1 - stage;
  }
}

// put(channel, phase, step, weight) for the weights of a block's channels, in the order in which a phase's taps meet
// its inputs.
template <class Put>
__device__ __forceinline__ void for_weights(const ELEMENT* __restrict__ w, int first_channel, const Put& put) {
  constexpr long long w_step = along_h ? W_STRIDE_H : W_STRIDE_W;
  for (int i = threadIdx.x; i < PLANES * taps; i += THREADS) {
    const int channel = i / taps;
    const int tap = i % taps;
    if (first_channel + channel >= OUT_C) break;
    const int phase = tap % stride;
    const int step = tap / stride;
    put(channel, phase, TRANSPOSED ? (taps - phase + stride - 1) / stride - 1 - step : step,
        to_float(
            w[static_cast<long long>(first_channel + channel) * W_STRIDE_K + (FLIPPED ? taps - 1 - tap : tap) * w_step]));
  }
}

}  // namespace
