// The blocks that a kernel's work is cut into, and those that do them.
#pragma once

#include "problem.h"
#include "ptx.cuh"

// WORK_KERNEL(bounds, name, (parameters), (their names)) { .. } is a kernel whose body does block WORK_BLOCK of its
// work.
//
// Usually that is blockIdx.x. A plan that keeps to some of the SMs launches no more blocks than run there at once and
// defines WORK_BLOCKS, how many there are to do: each block does every gridDim.x-th, one after another. A body finds
// shared memory as another left it, with all copies into it and out of it done.
#ifndef WORK_BLOCKS

#define WORK_BLOCK blockIdx.x
#define WORK_KERNEL(bounds, name, parameters, arguments) extern "C" __global__ void bounds name parameters

// Whether it is the first that the block does.
__device__ __forceinline__ bool first_work(unsigned) { return true; }

#else

__device__ __forceinline__ bool first_work(unsigned block) { return block == blockIdx.x; }

__device__ __forceinline__ void end_work() {
  cp_async_wait<0>();
#if __CUDA_ARCH__ >= 900
  fence_proxy_async();  // the copy engine writes where threads have written and read
#endif
  __syncthreads();
}

#define WORK_BLOCK work_block
#define WORK_UNWRAPPED(...) __VA_ARGS__
#define WORK_KERNEL(bounds, name, parameters, arguments)                                                            \
  __device__ __forceinline__ void name##_work(unsigned work_block, WORK_UNWRAPPED parameters);                      \
  extern "C" __global__ void bounds name parameters {                                                               \
    _Pragma("unroll 1") for (unsigned work_block = blockIdx.x; work_block < WORK_BLOCKS; work_block += gridDim.x) { \
      name##_work(work_block, WORK_UNWRAPPED arguments);                                                            \
      end_work();                                                                                                   \
    }                                                                                                               \
  }                                                                                                                 \
  __device__ __forceinline__ void name##_work(unsigned work_block, WORK_UNWRAPPED parameters)

#endif
