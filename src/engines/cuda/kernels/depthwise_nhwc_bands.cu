// Depthwise fprop and dgrad of 16-bit NHWC tensors on the tensor cores, a channel at a time. The rows of a product's a
// are 16 blocks of 8 neighbouring outputs, its columns the inputs of their windows; b is a row of taps as a banded
// matrix, each column shifted by the stride. pixel_bands.cuh says how rows of pixels become what a consists of. A row
// of input, loaded once, meets all rows of taps: the sums of all open rows of output stay in registers while a block
// walks down. Moving on costs nothing, since the first product of a sum reads its neighbour. Complete rows go back
// through shared memory, [channel][row][block], from where ldmatrix takes them as pixels.
#include "epilogue.cuh"
#include "mma.cuh"
#include "one_output.cuh"
#include "overlap.cuh"
#include "pixel_bands.cuh"
#include "work_blocks.cuh"

namespace {

using namespace bands;

constexpr int taps = TAPS_H * TAPS_W;
constexpr int substeps = BAND_UNITS + ahead;
// A band that is the whole image: rows above it meet nothing.
constexpr int skipped = bands_h > 1 || first_row >= 0 ? 0 : min_of(ahead, -first_row / rows_in);
constexpr int steps = ceil_div(substeps - skipped, UNROLL);
constexpr int step_rows = UNROLL * rows_in;
constexpr int step_chunks_all = ceil_div(step_rows * INSTANCES * row_chunks, whole_chunks) * whole_chunks;
constexpr int plane_pitch = odd_pitch(step_chunks_all + 1);  // the last load may be half beyond a window
constexpr int raw_bytes = step_chunks_all * 8 * pixel_bytes;

using Copy =
    StepCopy<IN_H, IN_W, IN_C, IN_STRIDE_N, IN_STRIDE_H, IN_STRIDE_W, step_rows, row_chunks, left, tile_in, tiles_w>;

// Chunks of complete outputs: of a row of 8 columns of each block. Rows of ldmatrix are two channels of one or several
// chunks; they lie in different banks.
constexpr int out_rows = UNROLL * rows_out * blocks_n;
constexpr int out_chunks = out_rows * 16 * groups;
constexpr int spread = pieces >= 4 ? 1 : 4 / pieces;
constexpr int out_pitch = ((out_chunks + 7 - spread) / 8 * 8 + spread) * 16;
constexpr int out_skew = pieces == 1 ? 0 : pieces == 2 ? 64 : 32;
constexpr int out_bytes = SLICE * out_pitch + pieces * out_skew;
__device__ __forceinline__ int out_plane(int c) { return c * out_pitch + c / 8 * out_skew; }

// A row of weights with zeros around and between.
constexpr int least = TRANSPOSED ? offset_w + per_k * (8 * window_chunks - 1) : per_n * 7;
constexpr int most = TRANSPOSED ? offset_w + 8 * blocks_n - 1 : 8 * window_chunks - 1;
constexpr int reach = most - least + 1;
constexpr int weights_bytes = (SLICE * TAPS_H * reach * 2 + 15) / 16 * 16;

// Two of planes and of results: a step transposes the next one's rows and stores the last one's.
constexpr int planes_bytes = SLICE * plane_pitch;
constexpr int planes_at = STAGES * raw_bytes;
constexpr int out_at = planes_at + 2 * planes_bytes;
constexpr int weights_at = (out_at + 2 * out_bytes + 15) / 16 * 16;
static_assert(weights_at + weights_bytes <= SHARED_BYTES);

struct Output {
  int n, row, column;
  bool real;
};
// Column `column` of block `block` of a place, in row `a` of the unit that substep `substep` completes.
__device__ __forceinline__ Output output_of(int place, int substep, int a, int block, int column) {
  const Instance at = instance_of(place, block / BLOCKS_W);
  const int unit = at.unit + substep - ahead;
  Output o{at.image, unit * rows_out + start_h + a,
           at.tile * tile_out + block % BLOCKS_W * 8 * blocks_n + column + start_w, false};
  o.real = at.real && block < INSTANCES * BLOCKS_W && substep >= ahead && substep < substeps && o.row >= 0 &&
           o.row < OUT_H && o.column >= 0 && o.column < OUT_W;
  return o;
}
__device__ __forceinline__ long long index_of(const Output& o, int channel) {
  return out_offset(o.n, channel, 0, o.row, o.column);
}

// Complete rows from shared memory to `out`: pieces of 8 channels, each lane of a warp one of a pixel.
struct Store {
  static constexpr int units = 16 * groups * pieces;  // of 8 pixels
  static constexpr int per_thread = ceil_div(units, 4 * warps);
  static constexpr long long unit_stride = rows_out * static_cast<long long>(OUT_STRIDE_H);
  unsigned source[per_thread];  // of a matrix's row
  ELEMENT* target[per_thread];  // in the row that comes next, were it one
  int row[per_thread];          // counted from the band's first that is one
  int limit[per_thread];
  int column[per_thread];

  __device__ __forceinline__ static int unit_of(int i) {
    return i * 4 * warps + threadIdx.x / 32 * 4 + threadIdx.x % 4;
  }
  __device__ __forceinline__ void prepare() {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      // Row r of matrix m is channel 2 * m + r % 2 of the piece that lane r / 2 of four stores.
      const int lane = threadIdx.x % 32;
      const int given = min_of(i * 4 * warps + threadIdx.x / 32 * 4 + lane % 8 / 2, units - 1);
      source[i] = kept(out_plane(given % pieces * 8 + lane / 8 * 2 + lane % 2) + given / pieces * 16);
    }
  }
  __device__ __forceinline__ void place(ELEMENT* out, int place, int first_channel) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      const int unit = unit_of(i);
      const int block = unit / pieces;
      const int channel = first_channel + unit % pieces * 8;
      const Instance at = instance_of(place, block / BLOCKS_W);
      column[i] = at.tile * tile_out + block % BLOCKS_W * 8 * blocks_n + threadIdx.x % 32 / 4 + start_w;
      const int first = at.unit * rows_out + start_h;
      const int low = max_of(0, first);
      const int row_now = first + (skipped - ahead) * rows_out;
      target[i] = out + out_offset(at.image, channel, 0, row_now, column[i]);
      row[i] = row_now - low;
      limit[i] = at.real && block < INSTANCES * BLOCKS_W && channel < OUT_C
                     ? min_of(OUT_H, first + BAND_UNITS * rows_out) - low
                     : 0;
    }
  }

  // `lost`: some sum may be one that an infinity or a NaN reached times zero. These are computed one by one.
  __device__ __forceinline__ void run(unsigned from, bool lost, const ELEMENT* in, const ELEMENT* w, const ELEMENT* out,
                                      int place, int substep, int first_channel, const EpilogueArgs& args) {
#pragma unroll
    for (int i = 0; i < per_thread; ++i) {
      if (units % (4 * warps) != 0 && i == per_thread - 1 && i * 4 * warps + threadIdx.x / 32 * 4 >= units) break;
      const unsigned address = from + source[i];
      const int unit = unit_of(i);
#pragma unroll
      for (int y = 0; y < UNROLL * rows_out; ++y) {
        const bool here = static_cast<unsigned>(row[i] + y) < static_cast<unsigned>(limit[i]);
#pragma unroll
        for (int nb = 0; nb < blocks_n; ++nb) {
          unsigned words[4];
          ldmatrix_trans(words, address + (y * blocks_n + nb) * (16 * groups * 16));
          const bool inside = here && column[i] + 8 * nb >= 0 && column[i] + 8 * nb < OUT_W;
          if (lost && inside) {
            const Output o =
                output_of(place, substep + y / rows_out, y % rows_out, unit / pieces, threadIdx.x % 32 / 4 + 8 * nb);
#pragma unroll 1
            for (int e = 0; e < 8; ++e) {
              const int c = first_channel + unit % pieces * 8 + e;
              const unsigned old = e / 2 == 0 ? words[0] : e / 2 == 1 ? words[1] : e / 2 == 2 ? words[2] : words[3];
              const float value = half_to_float<ELEMENT>(old, e % 2);
              if (value == value) continue;
              const unsigned done =
                  finished<ELEMENT>(output_sum(in, w, o.n, c, 0, o.row, o.column), out, index_of(o, c), c, args).bits;
              const unsigned both = e % 2 == 0 ? (old & 0xffff0000u) | done : (old & 0xffffu) | done << 16;
#pragma unroll
              for (int k = 0; k < 4; ++k) words[k] = e / 2 == k ? both : words[k];
            }
          }
          if (inside) {
            *reinterpret_cast<uint4*>(target[i] + y * static_cast<long long>(OUT_STRIDE_H) +
                                      nb * 8 * static_cast<long long>(OUT_STRIDE_W)) =
                make_uint4(words[0], words[1], words[2], words[3]);
          }
        }
      }
      target[i] += UNROLL * unit_stride;
      row[i] += UNROLL * rows_out;
    }
  }
};

}  // namespace

WORK_KERNEL(__launch_bounds__(THREADS, MIN_BLOCKS), depthwise,
            (const ELEMENT* __restrict__ in, const ELEMENT* __restrict__ w, ELEMENT* out,
             const EpilogueArgs epilogue_args),
            (in, w, out, epilogue_args)) {
  overlap();
  extern __shared__ __align__(16) char shared[];
  const unsigned base = shared_address(shared);
  const int first_channel = static_cast<int>(WORK_BLOCK % slices) * SLICE;
  const int first_place = static_cast<int>(WORK_BLOCK / slices);

  constexpr int filters_thread = ceil_div(SLICE * taps, THREADS);
  unsigned short filters[filters_thread];
#pragma unroll
  for (int i = 0; i < filters_thread; ++i) {
    const int item = threadIdx.x + i * THREADS;
    const int c = first_channel + item / taps;
    filters[i] = 0;
    if (item < SLICE * taps && c < OUT_C) {
      filters[i] = w[filter_offset(c, 0, item % taps / TAPS_W, item % TAPS_W)].bits;
    }
  }
  // Columns beyond the edges are never written again.
  for (int i = threadIdx.x; i < STAGES * raw_bytes / 16; i += THREADS) {
    reinterpret_cast<uint4*>(shared)[i] = make_uint4(0, 0, 0, 0);
  }
  for (int i = threadIdx.x; i < weights_bytes / 16; i += THREADS) {
    reinterpret_cast<uint4*>(shared + weights_at)[i] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();

  Copy copy;
  copy.prepare();
  Transpose<step_chunks_all, plane_pitch> transpose;
  transpose.prepare();
  int copied_place = first_place;
  int copied_step = 0;
  int copied_stage = 0;
  const auto copy_from = [&](int place) {
    copy.place(
        in, place, first_channel, [](int unit) { return (unit + skipped) * rows_in + first_row; },
        [](int, int& low, int& high) {
          low = 0;
          high = IN_H;
        });
  };
  const auto start = [&] {
    if (copied_place < places) {
      copy.start(base + copied_stage * raw_bytes);
      copied_stage = copied_stage + 1 < STAGES ? copied_stage + 1 : 0;
      if (++copied_step == steps) {
        copied_step = 0;
        copied_place += SPLITS;
        if (copied_place < places) copy_from(copied_place);
      }
    }
    cp_async_commit();
  };
  copy_from(first_place);
#pragma unroll 1
  for (int i = 0; i < STAGES; ++i) start();

  unsigned short* weights = reinterpret_cast<unsigned short*>(shared + weights_at);
#pragma unroll
  for (int i = 0; i < filters_thread; ++i) {
    const int item = threadIdx.x + i * THREADS;
    const int at = item % TAPS_W * DILATION_W - least;
    if (item < SLICE * taps && at >= 0 && at < reach) weights[item / TAPS_W * reach + at] = filters[i];
  }
  cp_async_wait<STAGES - 1>();
  __syncthreads();
  transpose.run(base, base + planes_at);

  const int lane = threadIdx.x % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int warp_channel = threadIdx.x / 32 * WARP_CHANNELS;  // of the slice
  unsigned b[WARP_CHANNELS][TAPS_H][blocks_n][window_chunks];
#pragma unroll
  for (int c = 0; c < WARP_CHANNELS; ++c) {
#pragma unroll
    for (int r = 0; r < TAPS_H; ++r) {
      const unsigned short* row =
          weights + ((warp_channel + c) * TAPS_H + r) * reach - least + offset_w + per_k * 2 * t + per_n * g;
#pragma unroll
      for (int nb = 0; nb < blocks_n; ++nb) {
#pragma unroll
        for (int k = 0; k < window_chunks; ++k) {
          const int at = per_k * 8 * k + per_n * 8 * nb;
          b[c][r][nb][k] = row[at] | static_cast<unsigned>(row[at + per_k]) << 16;
        }
      }
    }
  }

  // Matrices 0 and 1 of a load are the blocks, 2 and 3 the same of the next chunk.
  const auto window_of = [&](int group) {
    const int block = group * 16 + lane % 16;
    const int chunk = block < INSTANCES * BLOCKS_W ? block / BLOCKS_W * row_chunks + block % BLOCKS_W * step_chunks : 0;
    return static_cast<unsigned>(warp_channel * plane_pitch + (chunk + lane / 16) * 16);
  };
  const unsigned first_window = kept(window_of(0));
  const unsigned first_result = kept(out_plane(warp_channel) + g * 16 + t * 4);
  float sum[WARP_CHANNELS][open][blocks_n][4];
  Store store;
  store.prepare();
  int stage = 1 % STAGES;  // of the next step's rows
  int half = 0;            // of planes and results
  bool lost = false;
  bool pending = false;
  int stored_place = first_place;
  int stored_substep = skipped;
#pragma unroll 1
  for (int place = first_place; place < places; place += SPLITS) {
#pragma unroll
    for (int c = 0; c < WARP_CHANNELS; ++c) {
#pragma unroll
      for (int o = 0; o < open; ++o) {
#pragma unroll
        for (int nb = 0; nb < blocks_n; ++nb) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[c][o][nb][e] = 0;
        }
      }
    }
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      cp_async_wait<STAGES - 2>();
      const bool some_lost = __syncthreads_or(lost);
      start();
      transpose.run(base + stage * raw_bytes, base + planes_at + (1 - half) * planes_bytes);
      stage = stage + 1 < STAGES ? stage + 1 : 0;
      if (pending) {
        store.run(base + out_at + (1 - half) * out_bytes, some_lost, in, w, out, stored_place, stored_substep,
                  first_channel, epilogue_args);
      }
      if (step == 0) {
        asm volatile("");  // a branch, not a choice between values
        store.place(out, place, first_channel);
      }
      pending = true;
      lost = false;
      stored_place = place;
      stored_substep = step * UNROLL + skipped;

#pragma unroll 1
      for (int group = 0; group < groups; ++group) {
        const unsigned planes = base + planes_at + half * planes_bytes + (groups > 1 ? window_of(group) : first_window);
        const unsigned results = base + out_at + half * out_bytes + first_result + group * 256;
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
          for (int c = 0; c < WARP_CHANNELS; ++c) {
            // In ascending order, so that a neighbour is read before it is moved itself.
#pragma unroll
            for (int j = 0; j < rows_in; ++j) {
#pragma unroll
              for (int k = 0; k < window_chunks; k += 2) {
                unsigned a[4];
                ldmatrix(a, planes + c * plane_pitch + ((u * rows_in + j) * INSTANCES * row_chunks + k) * 16);
#pragma unroll
                for (int o = 0; o < open; ++o) {
                  const int r = tap_h(o, j);
                  const bool moves = j == 0 && k == 0;
                  if (r < 0 && !moves) continue;
#pragma unroll
                  for (int nb = 0; nb < blocks_n; ++nb) {
                    if (moves) {
#pragma unroll
                      for (int e = 0; e < 4; ++e) {
                        sum[c][o][nb][e] =
                            o + rows_out < open ? sum[c][o + rows_out < open ? o + rows_out : o][nb][e] : 0.0f;
                      }
                    }
                    if (r < 0) continue;
                    if (k + 1 < window_chunks) {
                      mma_k16<ELEMENT>(sum[c][o][nb], a[0], a[1], a[2], a[3], b[c][r < 0 ? 0 : r][nb][k],
                                       b[c][r < 0 ? 0 : r][nb][k + 1 < window_chunks ? k + 1 : k]);
                    } else {
                      mma_k8<ELEMENT>(sum[c][o][nb], a[0], a[1], b[c][r < 0 ? 0 : r][nb][k]);
                    }
                  }
                }
              }
            }
            const int channel = first_channel + warp_channel + c;
#pragma unroll
            for (int a = 0; a < rows_out; ++a) {
#pragma unroll
              for (int nb = 0; nb < blocks_n; ++nb) {
#pragma unroll
                for (int side = 0; side < 2; ++side) {
                  float v[2] = {sum[c][a][nb][2 * side], sum[c][a][nb][2 * side + 1]};
                  lost |= v[0] != v[0] || v[1] != v[1];
#pragma unroll
                  for (int e = 0; e < 2; ++e) {
                    long long at = 0;
                    if constexpr (BETA != 0.0f || GAMMA != 0.0f) {
                      const Output o =
                          output_of(place, stored_substep + u, a, group * 16 + side * 8 + g, nb * 8 + 2 * t + e);
                      if (!o.real || channel >= OUT_C) continue;
                      at = index_of(o, channel);
                    }
                    float one[1] = {v[e]};
                    epilogue<ELEMENT, 1>(one, out, at, min_of(channel, OUT_C - 1), epilogue_args);
                    v[e] = one[0];
                  }
                  store_shared(
                      results + c * out_pitch + (((u * rows_out + a) * blocks_n + nb) * 16 * groups + side * 8) * 16,
                      pack_halves<ELEMENT>(v[0], v[1]));
                }
              }
            }
          }
        }
      }
      half = 1 - half;
    }
  }
  const bool some_lost = __syncthreads_or(lost);
  store.run(base + out_at + (1 - half) * out_bytes, some_lost, in, w, out, stored_place, stored_substep, first_channel,
            epilogue_args);
}
