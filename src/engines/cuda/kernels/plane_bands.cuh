// What depthwise_nchw_bands.cu and its wgrad share. They treat a plane as blocks of 8 neighbouring columns of output
// and the window of input columns that such a block sees; 16 blocks of a channel, of rows, bands of BAND_ROWS rows and
// images that follow one another, are the 16 rows (or the 16 terms) of a product of matrices, and a warp walks down
// their rows side by side: `step_in` rows of input and `step_out` rows of output a step. A thread block owns CHANNELS
// neighbouring channels, CHANNEL_WARPS warps each, and goes from IMAGES images to the next ones, which are copied to
// shared memory meanwhile: an image's planes of these channels are one range of memory.
#pragma once

#include "axis.cuh"
#include "problem.h"
#include "shared_copy.cuh"
#include "types.cuh"

constexpr int size = sizeof(ELEMENT);
constexpr int channel_groups = ceil_div(OUT_C, CHANNELS);
constexpr int units_all = ceil_div(BATCH, IMAGES);
constexpr int units_split = ceil_div(units_all, SPLITS);
constexpr int taps = TAPS_H * TAPS_W;

// A signal is FOLDED into a plane: rows of 8 outputs and of the `fold` inputs that they begin at, WINDOW before the
// first of them; its taps are rows of taps, since a row of outputs sees several rows of inputs. wgrad takes 16 inputs a
// row, which overlap where fold is 8: every second row has all of them.
constexpr int in_plane = IN_H * IN_W;
constexpr int out_plane = OUT_H * OUT_W;
constexpr int fold = 8 * STRIDE_W;
constexpr int reach_w = (TAPS_W - 1) * DILATION_W;
constexpr int row_taps = WGRAD ? 16 : fold;  // of a folded row
constexpr int taps_h = FOLDED ? (7 * STRIDE_W + reach_w - PAD_W - WINDOW) / row_taps + 1 : TAPS_H;
constexpr int out_h = FOLDED ? ceil_div(OUT_W, 8) : OUT_H;
constexpr int out_w = FOLDED ? 8 : OUT_W;
constexpr int in_h = FOLDED ? out_h + (taps_h - 1) * (row_taps / fold) : IN_H;
constexpr int in_w = FOLDED ? fold : IN_W;
constexpr int stride_h = FOLDED ? 1 : STRIDE_H;
constexpr int dilation_h = FOLDED ? row_taps / fold : DILATION_H;
constexpr int pad_h = FOLDED ? 0 : PAD_H;

constexpr int blocks_w = ceil_div(out_w, 8);
constexpr int bands = ceil_div(out_h, BAND_ROWS);
constexpr int groups = ceil_div(IMAGES * bands * blocks_w, 16);  // of 16 blocks, of a channel and a unit

// Columns. Window column k is input column block * window_step + WINDOW + k; HALVES times 8 of them are looked at.
constexpr int window_step = TRANSPOSED ? 8 / STRIDE_W : 8 * STRIDE_W;
CONVOY_CONSTEXPR int tap_of(int distance, int dilation, int count) {
  return distance < 0 || distance % dilation != 0 || distance / dilation >= count ? -1 : distance / dilation;
}
// The tap of the filter's row r (folded: of that row of taps) through which window column k meets column j of its
// block, or -1.
CONVOY_CONSTEXPR int tap_w(int r, int k, int j) {
  return tap_of(TRANSPOSED ? j + PAD_W - STRIDE_W * (WINDOW + k)
                           : (FOLDED ? row_taps * r : 0) + WINDOW + k - j * STRIDE_W + PAD_W,
                DILATION_W, TAPS_W);
}

// Rows. Step t of a band is output rows first_out + t * step_out on, from the band's first, where they are complete
// (wgrad: where dy's newest is), and input rows first_in + t * step_in on.
constexpr int reach_h = (taps_h - 1) * dilation_h;
constexpr int step_in = TRANSPOSED ? 1 : stride_h;
constexpr int step_out = TRANSPOSED ? stride_h : 1;
constexpr int open = TRANSPOSED ? max_of(reach_h + 1, stride_h) : reach_h / stride_h + 1;  // rows at work at a time
constexpr int band_step_in = TRANSPOSED ? BAND_ROWS / stride_h : BAND_ROWS * stride_h;

// Elements are loaded and stored in pairs where rows and windows begin at even ones.
constexpr bool in_pairs = IN_W % 2 == 0 && WINDOW % 2 == 0 && window_step % 2 == 0;
constexpr bool out_pairs = OUT_W % 2 == 0;

// Whole units are copied by the copy engine where there is one and they are whole pieces of 16 bytes, else by threads.
#if __CUDA_ARCH__ >= 900
constexpr bool has_bulk_copies = true;
#else
constexpr bool has_bulk_copies = false;
#endif

// A unit's planes, of a tensor of `channels` channels, in global and in shared memory, where images lie `pitch` bytes
// apart and keep their phase modulo 16 bytes.
template <int channels, int plane, int pitch>
struct Planes {
  CONVOY_CONSTEXPR bool aligned() { return channels * plane * size % 16 == 0 && CHANNELS * plane * size % 16 == 0; }
  CONVOY_CONSTEXPR bool bulk() { return has_bulk_copies && aligned() && channels % CHANNELS == 0; }
  CONVOY_CONSTEXPR int bytes() { return CHANNELS * plane * size; }
  CONVOY_CONSTEXPR int chunks() { return ceil_div(bytes() + (aligned() ? 0 : 14), 16); }  // of an image
  __device__ __forceinline__ static long long begin(int n, int channel) {                 // the first element
    return (static_cast<long long>(n) * channels + channel) * plane;
  }
  __device__ __forceinline__ static int offset(int n, int first_channel) {
    return aligned() ? 0 : phase<ELEMENT>(begin(n, first_channel)) * size;
  }
  // Starts copying the planes of `images` images from `first_image` on; cp_async_wait ends it.
  __device__ __forceinline__ static void load(char* shared, const ELEMENT* from, int first_image, int images,
                                              int first_channel) {
    constexpr long long all = static_cast<long long>(BATCH) * channels * plane * size;
    const int count = min_of(CHANNELS, channels - first_channel) * plane * size;
    const unsigned target = shared_address(shared);
#pragma unroll 1
    for (int i = threadIdx.x; i < images * chunks(); i += THREADS) {
      const int image = i / chunks();
      const int chunk = i % chunks() * 16;
      const int before = offset(first_image + image, first_channel);
      if (chunk >= before + count) continue;
      const long long at = begin(first_image + image, first_channel) * size - before + chunk;
      cp_async<16>(target + image * pitch + chunk, reinterpret_cast<const char*>(from) + at,
                   at + 16 <= all ? 16 : static_cast<int>(all - at));
    }
  }
  __device__ __forceinline__ static void store(ELEMENT* to, const char* shared, int first_image, int images,
                                               int first_channel) {
    const int count = min_of(CHANNELS, channels - first_channel) * plane * size;
#pragma unroll 1
    for (int i = threadIdx.x; i < images * chunks(); i += THREADS) {
      const int image = i / chunks();
      const int chunk = i % chunks() * 16;
      const int before = offset(first_image + image, first_channel);
      char* target = reinterpret_cast<char*>(to) + (begin(first_image + image, first_channel) * size - before + chunk);
      const char* source = shared + image * pitch + chunk;
      if (chunk >= before && chunk + 16 <= before + count) {
        *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
      } else {
        for (int e = 0; e < 16; e += size) {
          if (chunk + e < before || chunk + e >= before + count) continue;
          *reinterpret_cast<unsigned short*>(target + e) = *reinterpret_cast<const unsigned short*>(source + e);
        }
      }
    }
  }
  // The same by the copy engine, an image a lane of a warp: `barrier` gets the bytes, which have been announced; and
  // cp_async_bulk_wait_read waits for what was stored.
  __device__ __forceinline__ static void load_bulk(const char* shared, const ELEMENT* from, int first_image, int images,
                                                   int first_channel, unsigned barrier) {
    const int image = threadIdx.x % 32;
    if (image < images) {
      cp_async_bulk(shared_address(shared) + image * pitch, from + begin(first_image + image, first_channel), bytes(),
                    barrier);
    }
  }
  __device__ __forceinline__ static void store_bulk(ELEMENT* to, const char* shared, int first_image, int images,
                                                    int first_channel) {
    const int image = threadIdx.x % 32;
    if (image < images) {
      cp_async_bulk_store(to + begin(first_image + image, first_channel), shared_address(shared) + image * pitch,
                          bytes());
    }
    cp_async_bulk_commit();
  }
};

// Windows reach beyond their rows: what they read there is made zero, but it has to be memory of the block.
constexpr int guard = ceil_div((8 * HALVES + 16) * size, 16) * 16;

// A lane's place in some of a group's 16 blocks, of a tensor: in the first row of its first step.
template <int count, int height, int width, int plane, int pitch, class Range>
struct Places {
  int from[count];  // bytes from where the unit's planes lie in shared memory
  int image[count], row[count], column[count];

  // Blocks `first`, `first` + `further` of group `group`, or, of four, each with the one behind it.
  __device__ __forceinline__ Places(int group, int first, int further, int channel, int first_row, int band_step,
                                    int column_step, int first_column) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int block = group * 16 + first + (count == 2 ? i * further : i / 2 * further + i % 2);
      image[i] = min_of(block / (blocks_w * bands), IMAGES - 1);  // what is too much is computed, but not used
      row[i] = block / blocks_w % bands * band_step + first_row;
      column[i] = block % blocks_w * column_step + first_column;
      from[i] = image[i] * pitch + (channel * plane + row[i] * width + column[i]) * size;
    }
  }
  __device__ __forceinline__ const char* at(const char* shared, int i, int first_image, int first_channel) const {
    return shared + from[i] + Range::offset(first_image + image[i], first_channel);
  }
  // The halves of the word of columns `columns` and the next that lie in the row.
  __device__ __forceinline__ unsigned mask(int i, int columns) const {
    if constexpr (FOLDED) return ~0u;
    const int c = column[i] + columns;
    unsigned halves = (static_cast<unsigned>(c) < width ? 0x0000ffffu : 0u) |
                      (static_cast<unsigned>(c + 1) < width ? 0xffff0000u : 0u);
    asm("" : "+r"(halves));  // else it is computed again in each step
    return halves;
  }
  // Whether a row is the plane's: where there is one band, all lanes agree. Folded: whether column `columns` is the
  // signal's.
  __device__ __forceinline__ bool inside(int i, int first_row, int further, int columns) const {
    if constexpr (FOLDED) return static_cast<unsigned>(row[i] * width + column[i] + further * width + columns) < plane;
    return static_cast<unsigned>((bands > 1 ? row[i] : first_row) + further) < height;
  }
};

// The element at p and the next one, or zeros for those that aren't `inside`.
template <bool pairs>
__device__ __forceinline__ unsigned load_pair(const char* p, bool inside, bool next_inside) {
  if constexpr (pairs) {
    return inside ? *reinterpret_cast<const unsigned*>(p) : 0u;
  } else {
    const unsigned low = inside ? *reinterpret_cast<const unsigned short*>(p) : 0u;
    const unsigned high = next_inside ? *reinterpret_cast<const unsigned short*>(p + size) : 0u;
    return __byte_perm(low, high, 0x5410);
  }
}
