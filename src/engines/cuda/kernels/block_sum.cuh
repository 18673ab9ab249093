// The first stage of wgrad's sum: the sums that a block's threads hold for the same channels, added in the threads'
// order, so that the result doesn't depend on timing.
#pragma once

// sum[tap][v] of thread (pixel, lane) belongs to channel first_channel + lane*V + v; target[tap*channels + channel].
template <int taps, int V, int threads, int channel_threads>
__device__ __forceinline__ void block_sum(const float (&sum)[taps][V], float* target, int first_channel, int channels) {
  constexpr int exchanged = 8;  // sums a thread hands over at a time
  constexpr int pixel_threads = threads / channel_threads;
  __shared__ float exchange[exchanged][threads];
#pragma unroll
  for (int first = 0; first < taps * V; first += exchanged) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < exchanged; ++i) {
      if (first + i < taps * V) exchange[i][threadIdx.x] = sum[(first + i) / V][(first + i) % V];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < exchanged * channel_threads; i += threads) {
      const int which = first + i / channel_threads;
      const int c = first_channel + i % channel_threads * V + which % V;
      if (which >= taps * V || c >= channels) continue;
      float total = 0;
#pragma unroll 4
      for (int p = 0; p < pixel_threads; ++p) {
        total += exchange[i / channel_threads][p * channel_threads + i % channel_threads];
      }
      target[which / V * static_cast<long long>(channels) + c] = total;
    }
  }
}
