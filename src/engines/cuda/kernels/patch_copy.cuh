// Patches of NHWC tensors in shared memory, 16 bytes at a time, zeros beyond the edges.
#pragma once

#include "problem.h"
#include "shared_copy.cuh"
#include "types.cuh"

// A tensor's sizes and strides in elements, channels innermost.
template <int height_, int width_, int channels_, long long n, long long h, long long w>
struct PixelGrid {
  static constexpr int height = height_, width = width_, channels = channels_;
  static constexpr long long stride_n = n, stride_h = h, stride_w = w;
};

// Starts copying `rows` x `columns` pixels from (row, column) on of `images` images from `image` on to `target`, pixels
// `pitch` bytes apart, of each `slice` channels from `channel` on.
template <class T, class Grid, int threads, int images, int rows, int columns, int slice, int pitch>
__device__ __forceinline__ void copy_patch(unsigned target, const T* from, int image, int row, int column,
                                           int channel) {
  constexpr int chunks = slice / 8;
  constexpr int items = columns * chunks;
  constexpr int together = items < threads ? threads / items : 1;  // rows copied at once
  for (int item = threadIdx.x; item < items * together; item += threads) {
    const int first = item / items;
    const int chunk = item % chunks;
    const int x = item / chunks % columns;
    const bool inside = column + x >= 0 && column + x < Grid::width && channel + chunk * 8 < Grid::channels;
#pragma unroll 1
    for (int i = 0; i < images; ++i) {
      const T* source = from + (image + i) * Grid::stride_n + (row + first) * Grid::stride_h +
                        (column + x) * Grid::stride_w + channel + chunk * 8;
      const bool here = inside && (images == 1 || image + i < BATCH);
      unsigned to = target + ((i * rows + first) * columns + x) * pitch + chunk * 16;
#pragma unroll 4
      for (int y = first; y < rows; y += together) {
        const int bytes = here && static_cast<unsigned>(row + y) < static_cast<unsigned>(Grid::height) ? 16 : 0;
        CP_ASYNC_16(to, source, bytes);
        source += together * Grid::stride_h;
        to += together * columns * pitch;
      }
    }
  }
}
