// What the banded kernels (depthwise_nhwc_bands.cu, .._wgrad.cu) share: which inputs meet which outputs, and how rows
// of NHWC pixels become planes of a channel.
//
// A block works on SLICE neighbouring channels of INSTANCES instances at a time. An instance is a band of BAND_UNITS
// units of an image's rows (a unit: a row; dgrad with a stride: as many as the stride), BLOCKS_W blocks of 8 columns
// wide (dgrad with a stride: 8 times the stride). The block walks down, a unit a substep: the rows of input that come
// new with it are copied to shared memory as they are, 16 bytes at a time, several steps ahead, and then transposed to
// planes [channel][row][instance][column], in chunks of 8 columns, 16 bytes. A block's window begins at a whole chunk.
#pragma once

#include "axis.cuh"
#include "problem.h"
#include "ptx.cuh"
#include "types.cuh"

namespace bands {

constexpr int pieces = SLICE / 8;  // 16 bytes of a pixel's channels
constexpr int pixel_bytes = pieces * 16;
constexpr int slices = ceil_div(OUT_C, SLICE);
constexpr int warps = THREADS / 32;

// Rows. At a substep `rows_in` rows of input come and meet `open` rows of output, of which the first `rows_out` are
// complete afterwards; the first `ahead` substeps of a band complete none.
constexpr int rows_in = TRANSPOSED ? 1 : STRIDE_H;
constexpr int rows_out = TRANSPOSED ? STRIDE_H : 1;
constexpr int reach_h = (TAPS_H - 1) * DILATION_H;
constexpr int open = TRANSPOSED ? max_of(reach_h + 1, STRIDE_H) : reach_h / STRIDE_H + 1;
constexpr int ahead = reach_h / STRIDE_H;
constexpr int start_h = TRANSPOSED ? -(PAD_H % STRIDE_H) : 0;
constexpr int units_h = ceil_div(OUT_H - start_h, rows_out);
constexpr int bands_h = ceil_div(units_h, BAND_UNITS);
// Row 0 of the input that comes with substep 0 of the band that begins with unit 0.
constexpr int first_row = TRANSPOSED ? PAD_H / STRIDE_H - ahead : -PAD_H;
// The tap through which row j of a substep's input meets open row `o`, or -1.
CONVOY_CONSTEXPR int tap_h(int o, int j) {
  const int distance = TRANSPOSED ? o : (open - 1 - o) * STRIDE_H + j;
  return distance % DILATION_H == 0 && distance / DILATION_H < TAPS_H ? distance / DILATION_H : -1;
}

// Columns. Column k of a block's window and column n of the block meet through tap s where s * DILATION_W is
// offset_w + per_k * k + per_n * n.
constexpr int blocks_n = TRANSPOSED ? STRIDE_W : 1;  // of 8 columns of output, for one window
constexpr int step_chunks = TRANSPOSED ? 1 : STRIDE_W;
constexpr int reach_w = (TAPS_W - 1) * DILATION_W;
constexpr int lead = TRANSPOSED ? reach_w / STRIDE_W : 0;
constexpr int offset_w = lead * STRIDE_W;
constexpr int per_k = TRANSPOSED ? -STRIDE_W : 1;
constexpr int per_n = TRANSPOSED ? 1 : -STRIDE_W;
constexpr int window = TRANSPOSED ? lead + 8 : 7 * STRIDE_W + reach_w + 1;
constexpr int window_chunks = ceil_div(window, 8);
constexpr int left = TRANSPOSED ? lead - PAD_W / STRIDE_W : PAD_W;  // a plane's columns before the input's first
constexpr int start_w = TRANSPOSED ? -(PAD_W % STRIDE_W) : 0;
constexpr int tiles_w = ceil_div(OUT_W - start_w, BLOCKS_W * 8 * blocks_n);
constexpr int tile_in = BLOCKS_W * 8 * step_chunks;  // columns from a tile to the next
constexpr int tile_out = BLOCKS_W * 8 * blocks_n;
constexpr int row_chunks = (BLOCKS_W - 1) * step_chunks + window_chunks;

constexpr int instances_all = BATCH * bands_h * tiles_w;
constexpr int places = ceil_div(instances_all, INSTANCES);
constexpr int groups = ceil_div(INSTANCES * BLOCKS_W, 16);  // products of matrices side by side: 16 blocks each

struct Instance {
  int image, unit, tile;  // unit: the band's first
  bool real;
};
__device__ __forceinline__ Instance instance_of(int place, int i) {
  const int index = place * INSTANCES + i;
  return {index / (bands_h * tiles_w), index / tiles_w % bands_h * BAND_UNITS, index % tiles_w, index < instances_all};
}

// An offset that the compiler keeps: it would compute it again for every step.
__device__ __forceinline__ unsigned kept(unsigned v) {
  asm("" : "+r"(v));
  return v;
}

// Pixels lie in shared memory one after another. Where the pieces of 8 pixels would share banks they are exchanged.
__device__ __forceinline__ int piece_of(int pixel, int piece) {
  constexpr int exchanged = pieces & -pieces;
  return piece ^ ((pixel * exchanged / 8) & (exchanged - 1));
}

// Copies the rows of a step, ROWS of each instance, CHUNKS * 8 columns wide, of which column FIRST is the tensor's
// first in tile 0 (TILE columns a tile). What lies beyond the tensor's columns is never written where there is one
// tile.
template <int HEIGHT, int WIDTH, int CHANNELS, long long STRIDE_N_, long long STRIDE_H_, long long STRIDE_W_, int ROWS,
          int CHUNKS, int FIRST, int TILE, int TILES>
struct StepCopy {
  static constexpr int begin = TILES == 1 ? max_of(0, FIRST) : 0;
  static constexpr int end = TILES == 1 ? min_of(8 * CHUNKS, FIRST + WIDTH) : 8 * CHUNKS;
  static constexpr int items_instance = max_of(0, end - begin) * pieces;
  static constexpr int items = INSTANCES * items_instance;
  static constexpr int per_thread = ceil_div(items, THREADS);
  static constexpr int row_bytes = INSTANCES * CHUNKS * 8 * pixel_bytes;
  static constexpr int none = -(1 << 30);

  unsigned target[per_thread];  // from a stage's begin
  const char* source[per_thread];
  int row[per_thread];    // that comes next, counted from the first that may be read
  int limit[per_thread];  // how many may be read

  __device__ __forceinline__ void prepare() {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      const int item = threadIdx.x + i * THREADS;
      const int local = item % max_of(1, items_instance);
      const int pixel = item / max_of(1, items_instance) * (CHUNKS * 8) + begin + local / pieces;
      target[i] = kept(pixel * pixel_bytes + piece_of(pixel, local % pieces) * 16);
    }
  }

  // From row(unit) on; rows [low, high) of the band count.
  template <class Row, class Range>
  __device__ __forceinline__ void place(const ELEMENT* from, int place, int channel, Row row_of, Range range_of) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      const int item = threadIdx.x + i * THREADS;
      const int local = item % max_of(1, items_instance);
      const Instance at = instance_of(place, item / max_of(1, items_instance));
      const int piece = local % pieces;
      const int column = begin + local / pieces - FIRST + at.tile * TILE;
      const int first = row_of(at.unit);
      int low, high;
      range_of(at.unit, low, high);
      source[i] = reinterpret_cast<const char*>(from + at.image * STRIDE_N_ + first * STRIDE_H_ + column * STRIDE_W_ +
                                                channel + piece * 8);
      const bool real = at.real && channel + piece * 8 < CHANNELS && column >= 0 && column < WIDTH;
      row[i] = real ? first - low : none;
      limit[i] = high - low;
    }
  }

  __device__ __forceinline__ void start(unsigned stage) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      if (items % THREADS != 0 && i == per_thread - 1 && static_cast<int>(threadIdx.x) + i * THREADS >= items) break;
#pragma unroll
      for (int y = 0; y < ROWS; ++y) {
        const bool here = static_cast<unsigned>(row[i] + y) < static_cast<unsigned>(limit[i]);
        cp_async<16>(stage + target[i] + y * row_bytes, source[i] + y * (STRIDE_H_ * 2), here ? 16 : 0);
      }
      source[i] += ROWS * STRIDE_H_ * 2;
      row[i] += ROWS;
    }
  }
};

// Chunks of 8 pixels at `from`, one after another, to planes at `to`, `pitch` bytes from channel to channel. A lane's
// addresses are the same in all steps but for where these begin.
constexpr int whole_chunks = max_of(1, 4 / pieces);  // chunks are a multiple of it: a load is four matrices
template <int CHUNKS, int pitch>
struct Transpose {
  static constexpr int matrices = CHUNKS * pieces;
  static_assert(matrices % 4 == 0 && 4 * warps % pieces == 0);
  unsigned source, target;

  // Matrix m is piece m % pieces of chunk m / pieces.
  __device__ __forceinline__ void prepare() {
    const int lane = threadIdx.x % 32;
    const int base = threadIdx.x / 32 * 4;
    const int mine = base + lane / 8;
    source = kept((mine / pieces * 8 + lane % 8) * pixel_bytes + piece_of(lane % 8, mine % pieces) * 16);
    target = kept((base % pieces * 8 + lane / 4) * pitch + base / pieces * 16 + lane % 4 * 4);
  }
  __device__ __forceinline__ void run(unsigned from, unsigned to) const {
#pragma unroll
    for (int first = 0; first < matrices; first += 4 * warps) {
      if (first + 4 * warps > matrices && first + static_cast<int>(threadIdx.x) / 32 * 4 >= matrices) break;
      unsigned words[4];
      ldmatrix_trans(words, from + source + first / pieces * 8 * pixel_bytes);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        store_shared(to + target + i % pieces * 8 * pitch + (first / pieces + i / pieces) * 16, words[i]);
      }
    }
  }
};

// The least odd multiple of 16 bytes that holds `chunks` chunks: 8 channels' words lie in different banks.
CONVOY_CONSTEXPR int odd_pitch(int chunks) { return (chunks | 1) * 16; }

}  // namespace bands
