// Kernels that follow one another in a stream without a gap (Launch::overlapped).
#pragma once

// The next kernel's blocks may take the places that this one's leave.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until the kernels in front have ended and their results are there.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// What every block does before it touches memory. The next kernel's blocks come when this one computes, not while it
// waits itself: blocks of several kernels that wait behind one another hold the places of those that could compute.
__device__ __forceinline__ void overlap() {
  wait_for_previous();
  let_next_start();
}
