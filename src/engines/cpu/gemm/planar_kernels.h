// The microkernel of cpu.gemm for planar tensors (nchw), lanes along positions:
//   acc[m][q] = sum over i < count:  w[i][m] * x[steps[i] + q]
// for M output channels and V vectors of neighbouring positions q. Plain data only: per-ISA units include this.
#pragma once

#include <cstdint>

#include "engines/cpu/common/epilogue_args.h"

namespace convoy::cpu {

constexpr int kMaxPlanarChannels = 14;
constexpr int kMaxPlanarVectors = 6;

// Neighbouring positions of a tile that are neighbours in the output too.
struct PlanarSegment {
  std::int64_t begin;  // position in the tile
  std::int64_t count;
  std::int64_t out;  // offset in a channel's plane of out
};

template <class Real>
struct PlanarArgsOf {
  const Real* x;
  const std::int64_t* steps;
  std::int64_t count;
  const Real* w;          // packed [count][M]
  std::int64_t channels;  // valid ones of the M
  std::int64_t channel;   // the first, for bias and slopes
  const PlanarSegment* segments;
  std::int64_t segment_count;
  std::int64_t out_step;     // elements between neighbouring positions of out
  std::int64_t out_channel;  // elements between channels of out
  Real* out;                 // of channel 0's plane
  const Real* z;
  const EpilogueArgsOf<Real>* epilogue;
};

struct PlanarKernel {
  int channels;                   // M
  int vectors;                    // V
  void (*run)(const void* args);  // a PlanarArgsOf the kernels' elements
};

struct PlanarKernels {
  int lanes;
  int element_bytes;
  const PlanarKernel* kernels;
  int count;
  int vector_bytes() const { return lanes * element_bytes; }
};

namespace avx2 {
extern const PlanarKernels planar_kernels;
}
namespace avx512 {
extern const PlanarKernels planar_kernels;
}
namespace avx2_f64 {
extern const PlanarKernels planar_kernels;
}
namespace avx512_f64 {
extern const PlanarKernels planar_kernels;
}

}  // namespace convoy::cpu
