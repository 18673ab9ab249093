// Rows of 1D tensors in shared memory, for depthwise_signal.cu and depthwise_signal_wgrad.cu.
//
// A block holds PLANES rows, a channel each, of the positions that a segment sees (signal_axis.cuh). They lie there as
// floats, four floats free behind every TILE of them: neighbouring threads then work on neighbouring tiles, and their
// 16-byte loads meet no bank of shared memory twice. Every phase is a row of its own, so that what is used together
// lies together.
#pragma once

#include "epilogue.cuh"
#include "ptx.cuh"
#include "signal_axis.cuh"
#include "types.cuh"

namespace {

CONVOY_CONSTEXPR int room_of(int positions) { return positions + positions / TILE * 4; }  // where one lies in its row
constexpr int tile_pitch = TILE + 4;
static_assert(TILE % 8 == 0, "an odd number of 16 bytes from tile to tile");

constexpr int team = THREADS / PLANES;  // threads that copy a plane
static_assert(team * PLANES == THREADS && items_plane <= team);

template <class R>
struct Rows {
  // Four elements at a time.
  static constexpr bool fours = R::step == 1 && R::phases == 1 && R::stride_n % 4 == 0 && R::stride_c % 4 == 0 &&
                                ALIGNMENT % (4 * sizeof(ELEMENT)) == 0;
  static constexpr int phase_pitch = ceil_div(R::positions, TILE) * tile_pitch;
  static constexpr int plane_pitch = R::phases * phase_pitch;
  static constexpr int all = R::positions * R::phases;
  static constexpr int piece = fours ? 4 : 1;
  static constexpr int pass = team * piece;  // positions that the threads of a plane copy at once
  static constexpr int passes = ceil_div(all, pass);
  static constexpr int unrolled = passes <= 24 ? passes : 8;

  // Where the position of a pass lies from the plane's first.
  __device__ static __forceinline__ int place(int first, int i) {
    if constexpr (pass % (R::phases * TILE) == 0) {
      return first % R::phases * phase_pitch + room_of(first / R::phases) + i * room_of(pass / R::phases);
    }
    const int j = first + i * pass;
    return j % R::phases * phase_pitch + room_of(j / R::phases);
  }

  // Whether all that a pass copies lies in the tensor, in every segment.
  CONVOY_CONSTEXPR bool interior(int i) {
    return tap_groups == 1 && OUT_C % PLANES == 0 && i * pass + R::base >= 0 && (i + 1) * pass <= all &&
           (segments - 1) * segment_tiles * R::phases + (i + 1) * pass + R::base <= R::length;
  }

  // Starts copying the rows of image n that `segment` sees, `shift` positions on, zeros beyond the edges; cp_async_wait
  // ends it. Planes lie `pitch` floats apart.
  __device__ static __forceinline__ void load(float* shared, const ELEMENT* from, int n, int first_channel, int segment,
                                              int shift, int pitch) {
    const int mine = threadIdx.x / team;
    const int begin = threadIdx.x % team * piece;  // position of the first pass
    const int channel = first_channel + mine;
    const int origin = begin + segment * (segment_tiles * R::phases) + R::base + shift;  // element of the first pass
    const ELEMENT* row = from + n * R::stride_n + channel / R::sharing * R::stride_c + origin * R::step;
    float* target = shared + mine * pitch;
    const bool inside = channel < OUT_C;
    if constexpr (sizeof(ELEMENT) == 4) {
      const unsigned address = shared_address(target);
#pragma unroll unrolled
      for (int i = 0; i < passes; ++i) {
        if ((i + 1) * pass > all && begin + i * pass >= all) break;
        const ELEMENT* source = row + i * (pass * R::step);
        const unsigned to = address + 4 * place(begin, i);
        const int at = origin + i * pass;
        if (interior(i)) {
          cp_async<4 * piece>(to, source);
        } else {
          const int elements = R::length % piece == 0 ? piece : min_of(piece, R::length - at);
          cp_async<4 * piece>(to, source, inside && at >= 0 && at < R::length ? 4 * elements : 0);
        }
      }
    } else {
      constexpr int ahead = 8;
#pragma unroll 1
      for (int i = 0; i < passes; i += ahead) {
        Raw<ELEMENT, piece> raw[ahead];
#pragma unroll
        for (int k = 0; k < ahead; ++k) {
          clear(raw[k]);
          const int at = origin + (i + k) * pass;
          if (i + k >= passes || !inside || at < 0 || at >= R::length) continue;
          const ELEMENT* source = row + (i + k) * (pass * R::step);
          if constexpr (piece == 1) {
            raw[k] = load_raw<ELEMENT, 1>(reinterpret_cast<const char*>(source));
          } else if (at + piece <= R::length) {
            raw[k] = load_raw<ELEMENT, piece>(reinterpret_cast<const char*>(source));
          } else {
            float v[piece];
#pragma unroll
            for (int e = 0; e < piece; ++e) v[e] = at + e < R::length ? load_float(source + e) : 0.0f;
            raw[k] = pack<ELEMENT, piece>(v);
          }
        }
#pragma unroll
        for (int k = 0; k < ahead; ++k) {
          if (begin + (i + k) * pass >= all) break;
          float v[piece];
          unpack<ELEMENT, piece>(raw[k], v);
          float* to = target + place(begin, i + k);
          if constexpr (piece == 1) {
            *to = v[0];
          } else {
            *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
          }
        }
      }
    }
  }

  // Writes rows of sums, with the epilogue.
  __device__ static __forceinline__ void store(ELEMENT* out, const float* shared, int n, int first_channel, int segment,
                                               int pitch, const EpilogueArgs& epilogue_args) {
    const int mine = threadIdx.x / team;
    const int begin = threadIdx.x % team * piece;  // position of the first pass
    const int channel = first_channel + mine;
    if (OUT_C % PLANES != 0 && channel >= OUT_C) return;
    const int origin = begin + segment * (segment_tiles * R::phases) + R::base;
    const long long row = n * R::stride_n + channel * R::stride_c;
    const float* source = shared + mine * pitch;
#pragma unroll unrolled
    for (int i = 0; i < passes; ++i) {
      if ((i + 1) * pass > all && begin + i * pass >= all) break;
      const int at = origin + i * pass;
      if (!interior(i) && (at < 0 || at >= R::length)) continue;
      const long long target = row + at * R::step;
      const float* sums = source + place(begin, i);
      if constexpr (piece == 1) {
        out[target] = finished<ELEMENT>(*sums, out, target, channel, epilogue_args);
      } else {
        const float4 four = *reinterpret_cast<const float4*>(sums);
        const float v[piece] = {four.x, four.y, four.z, four.w};
        if (interior(i) || R::length % piece == 0 || at + piece <= R::length) {
          float finished_sums[piece];
#pragma unroll
          for (int e = 0; e < piece; ++e) {
            float one[1] = {v[e]};
            epilogue<ELEMENT, 1>(one, out, target + e, channel, epilogue_args);
            finished_sums[e] = one[0];
          }
          store_raw<ELEMENT, piece>(out + target, pack<ELEMENT, piece>(finished_sums));
        } else {
#pragma unroll
          for (int e = 0; e < piece; ++e) {
            if (at + e < R::length) out[target + e] = finished<ELEMENT>(v[e], out, target + e, channel, epilogue_args);
          }
        }
      }
    }
  }
};

// Whether a warp copies exactly what its threads work on: then nobody else has to wait.
constexpr bool warps_alone = 32 % team == 0 && items_plane == team;
__device__ __forceinline__ void wait_for_rows() {
  if constexpr (warps_alone) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

__device__ __forceinline__ void load_four(float* v, const float* from) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  v[0] = four.x;
  v[1] = four.y;
  v[2] = four.z;
  v[3] = four.w;
}

}  // namespace
