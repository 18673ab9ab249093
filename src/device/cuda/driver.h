// The CUDA driver's functions that Convoy calls, loaded at run time from libcuda.so.1. A member has the driver's name
// without "cu": api->MemAlloc is cuMemAlloc, in the version that cuda.h's macros give it.
#pragma once

#include <cuda.h>

#include "device/cuda/libraries.h"

namespace convoy::cuda {

inline constexpr int kOldestDriver = 12000;  // CUDA 12.0: tensor maps, cuLaunchKernelEx, cuGetProcAddress_v2

// clang-format off
#define CONVOY_CUDA_DRIVER_FUNCTIONS(X) \
  X(Init) X(DriverGetVersion) X(GetErrorName) X(GetErrorString) \
  X(DeviceGet) X(DeviceGetCount) X(DeviceGetName) X(DeviceGetAttribute) X(DeviceTotalMem) X(DeviceGetUuid) \
  X(DeviceGetPCIBusId) X(DevicePrimaryCtxRetain) X(DevicePrimaryCtxRelease) X(DevicePrimaryCtxGetState) \
  X(DeviceGetDefaultMemPool) X(DeviceGetMemPool) X(DeviceCanAccessPeer) \
  X(CtxGetCurrent) X(CtxSetCurrent) X(CtxPushCurrent) X(CtxPopCurrent) X(CtxGetDevice) X(CtxSynchronize) \
  X(CtxGetLimit) X(CtxSetLimit) X(CtxGetStreamPriorityRange) \
  X(MemGetInfo) X(MemAlloc) X(MemFree) X(MemAllocHost) X(MemFreeHost) X(MemHostRegister) X(MemHostUnregister) \
  X(MemAllocManaged) X(MemAllocAsync) X(MemFreeAsync) X(MemAllocFromPoolAsync) X(MemGetAddressRange) \
  X(MemPoolCreate) X(MemPoolDestroy) X(MemPoolTrimTo) X(MemPoolSetAttribute) X(MemPoolGetAttribute) \
  X(PointerGetAttribute) X(PointerGetAttributes) \
  X(Memcpy) X(MemcpyAsync) X(MemcpyHtoD) X(MemcpyDtoH) X(MemcpyDtoD) \
  X(MemcpyHtoDAsync) X(MemcpyDtoHAsync) X(MemcpyDtoDAsync) \
  X(MemsetD8) X(MemsetD16) X(MemsetD32) X(MemsetD8Async) X(MemsetD16Async) X(MemsetD32Async) \
  X(StreamCreate) X(StreamCreateWithPriority) X(StreamDestroy) X(StreamSynchronize) X(StreamQuery) \
  X(StreamWaitEvent) X(StreamGetCtx) X(StreamGetFlags) X(StreamGetPriority) X(StreamIsCapturing) \
  X(StreamBeginCapture) X(StreamEndCapture) X(ThreadExchangeStreamCaptureMode) X(LaunchHostFunc) \
  X(EventCreate) X(EventDestroy) X(EventRecord) X(EventRecordWithFlags) X(EventSynchronize) X(EventQuery) \
  X(ModuleLoadDataEx) X(ModuleUnload) X(ModuleGetFunction) X(ModuleGetGlobal) X(ModuleGetLoadingMode) \
  X(FuncGetAttribute) X(FuncSetAttribute) X(FuncSetCacheConfig) X(FuncGetModule) \
  X(LaunchKernel) X(LaunchKernelEx) X(LaunchCooperativeKernel) \
  X(OccupancyMaxActiveBlocksPerMultiprocessor) X(OccupancyMaxPotentialBlockSize) X(OccupancyMaxActiveClusters) \
  X(OccupancyMaxPotentialClusterSize) X(TensorMapEncodeTiled) X(TensorMapEncodeIm2col) \
  X(GraphCreate) X(GraphDestroy) X(GraphGetNodes) X(GraphNodeGetType) X(GraphKernelNodeGetParams) \
  X(GraphChildGraphNodeGetGraph) X(GraphInstantiate) X(GraphExecDestroy) X(GraphLaunch) X(GraphUpload) \
  X(GraphDebugDotPrint)
// Null where the driver is older than CUDA 12.3.
#define CONVOY_CUDA_DRIVER_NEWER_FUNCTIONS(X) X(FuncGetName) X(KernelGetName) X(KernelGetFunction)
// clang-format on

struct DriverApi {
#define CONVOY_MEMBER(name) decltype(&::cu##name) name = nullptr;
  CONVOY_CUDA_DRIVER_FUNCTIONS(CONVOY_MEMBER)
  CONVOY_CUDA_DRIVER_NEWER_FUNCTIONS(CONVOY_MEMBER)
#undef CONVOY_MEMBER
  // cuda.h's macro asks for a version of CUDA 12.8; the first one does the same.
  decltype(&::cuEventElapsedTime) EventElapsedTime = nullptr;

  int version = 0;  // cuDriverGetVersion's: 13000 is CUDA 13.0
};

// The table, made on first use. Errors: why there is none (no driver, one that is too old). It does not mean that
// there is a device: device.h says that.
Result<const DriverApi*> driver();
const LibraryReport& driver_report();

// Unkept parts of driver(), for tests.
const LibraryNames& driver_names();
LoadedApi<DriverApi> load_driver(const std::vector<LibrarySource>& places);

}  // namespace convoy::cuda
