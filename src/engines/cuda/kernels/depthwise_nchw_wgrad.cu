// Depthwise wgrad of packed NCHW tensors. A block owns PLANES neighbouring channels (or strips of one channel) and
// walks over its share of the images, IMAGES at a time: x and dy of those channels are each one range of memory of an
// image, copied to shared memory while the images before are worked on. THREADS / PLANES threads share a channel; each
// keeps a filter in registers. Their sums are added in a fixed order and
// go to partial[split][k][tap]; `reduce` adds the splits.
#include "overlap.cuh"
#include "patch.cuh"
#include "problem.h"
#include "shared_copy.cuh"
#include "types.cuh"
#include "work_blocks.cuh"

namespace {

static_assert(!TRANSPOSED);
constexpr int tiles_w = columns::tiles();
constexpr int tiles_h = rows::tiles();
constexpr int taps = TAPS_H * TAPS_W;
constexpr int strips = ceil_div(tiles_h, STRIP_TILES);
constexpr int in_plane = IN_H * IN_W;
constexpr int out_plane = OUT_H * OUT_W;
constexpr long long in_all = static_cast<long long>(BATCH) * IN_C * in_plane;
constexpr long long out_all = static_cast<long long>(BATCH) * OUT_C * out_plane;
constexpr int strip_span = min_of(IN_H, (STRIP_TILES - 1) * rows::step() + rows::position(span_h - 1) + 1);
constexpr int in_planes = ceil_div(PLANES, MULTIPLIER);
constexpr int in_room = room<ELEMENT>(strips > 1 ? strip_span * IN_W : in_planes * in_plane);
constexpr int out_room = room<ELEMENT>(strips > 1 ? STRIP_TILES * TILE_H * OUT_W : PLANES * out_plane);
constexpr int groups = ceil_div(OUT_C, PLANES);
constexpr int team = THREADS / PLANES;  // threads of a channel: a power of two up to 32, or a multiple of 32
constexpr int items_image = STRIP_TILES * tiles_w;
constexpr int items = IMAGES * items_image;
constexpr int units_all = ceil_div(BATCH, IMAGES) * strips;
constexpr int units_split = ceil_div(units_all, SPLITS);
constexpr int element = sizeof(ELEMENT);

struct Ranges {
  long long in_begin, in_end, out_begin, out_end;
  int in_first, out_first;
};

__device__ __forceinline__ Ranges ranges_of(int unit, int image, int first_channel, int channels) {
  const int n = unit / strips * IMAGES + image;
  const int first_tile = unit % strips * STRIP_TILES;
  const long long in_origin = (static_cast<long long>(n) * IN_C + first_channel / MULTIPLIER) * in_plane;
  const long long out_origin = (static_cast<long long>(n) * OUT_C + first_channel) * out_plane;
  Ranges r;
  if constexpr (strips == 1) {
    r.in_first = 0;
    r.out_first = 0;
    r.in_begin = in_origin;
    r.in_end = in_origin + static_cast<long long>((channels + MULTIPLIER - 1) / MULTIPLIER) * in_plane;
    r.out_begin = out_origin;
    r.out_end = out_origin + static_cast<long long>(channels) * out_plane;
  } else {
    r.in_first = max_of(0, first_tile * rows::step() + rows::base());
    const int in_last =
        min_of(IN_H, (first_tile + STRIP_TILES - 1) * rows::step() + rows::base() + rows::position(span_h - 1) + 1);
    r.out_first = first_tile * TILE_H;
    r.in_begin = in_origin + static_cast<long long>(r.in_first) * IN_W;
    r.in_end = in_origin + static_cast<long long>(max_of(r.in_first, in_last)) * IN_W;
    r.out_begin = out_origin + static_cast<long long>(r.out_first) * OUT_W;
    r.out_end = out_origin + static_cast<long long>(min_of(OUT_H, (first_tile + STRIP_TILES) * TILE_H)) * OUT_W;
  }
  return r;
}

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise_wgrad,
            (const ELEMENT* __restrict__ x, const ELEMENT* __restrict__ dy, float* __restrict__ partial),
            (x, dy, partial)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  constexpr int image_bytes = in_room + out_room;
  const int first_channel = static_cast<int>(WORK_BLOCK % groups) * PLANES;
  const int split = static_cast<int>(WORK_BLOCK / groups);
  const int channels = min_of(PLANES, OUT_C - first_channel);
  const int mine = threadIdx.x / team;
  const int rank = threadIdx.x % team;
  const int begin = split * units_split;
  const int end = min_of(units_all, begin + units_split);

  float sum[taps];
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) sum[tap] = 0;

  const auto start = [&](int unit) {
    if (unit < end) {
      char* stage = shared + (unit - begin) % STAGES * IMAGES * image_bytes;
#pragma unroll
      for (int image = 0; image < IMAGES; ++image) {
        if (IMAGES > 1 && unit / strips * IMAGES + image >= BATCH) break;
        const Ranges r = ranges_of(unit, image, first_channel, channels);
        copy_in<ELEMENT, THREADS>(stage + image * image_bytes, x, r.in_begin, r.in_end, in_all);
        copy_in<ELEMENT, THREADS>(stage + image * image_bytes + in_room, dy, r.out_begin, r.out_end, out_all);
      }
    }
    cp_async_commit();
  };
  if constexpr (STAGES > 1) {
    for (int i = 0; i < STAGES - 1; ++i) start(begin + i);
  }

#pragma unroll 1
  for (int unit = begin; unit < end; ++unit) {
    start(unit + STAGES - 1);
    cp_async_wait<STAGES - 1>();
    __syncthreads();
    const unsigned stage = shared_address(shared) + (unit - begin) % STAGES * IMAGES * image_bytes;
    const int first_tile = unit % strips * STRIP_TILES;
#pragma unroll 1
    for (int item = rank; item < items; item += team) {
      const int image = item / items_image;
      const int tile_w = item % tiles_w;
      const int tile_h = first_tile + item % items_image / tiles_w;
      if (mine >= channels || (IMAGES > 1 && unit / strips * IMAGES + image >= BATCH)) break;
      if (tile_h >= tiles_h) continue;
      const Ranges ranges = ranges_of(unit, image, first_channel, channels);
      const unsigned x_address = stage + image * image_bytes + phase<ELEMENT>(ranges.in_begin) * element;
      const unsigned dy_address = stage + image * image_bytes + in_room + phase<ELEMENT>(ranges.out_begin) * element;
      const unsigned patch =
          dy_address +
          static_cast<unsigned>((mine * out_plane + (tile_h * TILE_H - ranges.out_first) * OUT_W + tile_w * TILE_W) *
                                element);
      const unsigned base =
          x_address + static_cast<unsigned>((mine / MULTIPLIER * in_plane +
                                             (tile_h * rows::step() + rows::base() - ranges.in_first) * IN_W +
                                             tile_w * columns::step() + columns::base()) *
                                            element);
      float g[TILE_H][TILE_W];
#pragma unroll
      for (int a = 0; a < TILE_H; ++a) {
#pragma unroll
        for (int b = 0; b < TILE_W; ++b) {
          g[a][b] = 0;
          if (rows::stored(a, tile_h) && columns::stored(b, tile_w)) {
            g[a][b] = load_shared<ELEMENT>(patch + (a * OUT_W + b) * element);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < span_h; ++j) {
        if (!rows::needed(j) || !rows::ever_inside(j)) continue;
        const bool row_inside = rows::inside(j, tile_h);
        float v[span_w];
#pragma unroll
        for (int i = 0; i < span_w; ++i) {
          if (!columns::needed(i) || !columns::ever_inside(i)) continue;
          v[i] = 0;
          if (row_inside && columns::inside(i, tile_w))
            v[i] = load_shared<ELEMENT>(base + (rows::position(j) * IN_W + columns::position(i)) * element);
        }
        for_products_of_row(j, [&](int a, int b, int i, int tap) { sum[tap] = fmaf(v[i], g[a][b], sum[tap]); });
      }
    }
    __syncthreads();
  }
  cp_async_wait<0>();

  // Threads of a channel: within a warp by shuffles, then warps in their order.
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) {
#pragma unroll
    for (int step = min_of(team, 32) / 2; step > 0; step /= 2) sum[tap] += __shfl_xor_sync(0xffffffffu, sum[tap], step);
  }
  // Through shared memory, so that neighbouring threads write neighbouring sums.
  constexpr int warps = max_of(1, team / 32);
  float* exchange = reinterpret_cast<float*>(shared);  // [channel][warp][tap]
  __syncthreads();
  if (rank % 32 == 0) {
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) exchange[(mine * warps + rank / 32) * taps + tap] = sum[tap];
  }
  __syncthreads();
  float* target = partial + static_cast<long long>(split) * OUT_C * taps + static_cast<long long>(first_channel) * taps;
  for (int i = threadIdx.x; i < channels * taps; i += THREADS) {
    const int c = i / taps;
    float total = 0;
    for (int v = 0; v < warps; ++v) total += exchange[(c * warps + v) * taps + i % taps];
    target[i] = total;
  }
}
