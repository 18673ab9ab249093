// Kernels that follow one another in a stream without a gap (Launch::overlapped).
#pragma once

// What every block does before it touches memory: the next kernel's blocks may take the places that this one's leave,
// and this one's wait until the kernels in front have ended and their results are there.
__device__ __forceinline__ void overlap() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
