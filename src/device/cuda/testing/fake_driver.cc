// A CUDA driver without a GPU: two devices of 1 MiB, whose memory is the host's and whose streams are done at once. So
// the device layer's accounting, contexts, errors and selection on a device are tested everywhere. A capture records
// copies, fills, launches and functions of the host, which launching its graph runs, and forbids its thread to
// allocate, as CUDA's does, and what is not of the capture to be waited for in it. FAKE_DEVICES: how many devices
// cuInit finds. FAKE_MEMORY: bytes of a device. Tests find by dlsym: fake_captures, fake_graph_launches, fake_waits
// (calls that wait for a stream, an event or the device), fake_not_reached (events seem to be to come),
// fake_end_capture, which is what the next end of a capture returns, and fake_fail_at: of the calls that may fail in a
// run the fake_fail_at-th from now returns fake_failure.
#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda/testing/fake_modules.h"

namespace {

const std::size_t kMemory = [] {
  const char* bytes = std::getenv("FAKE_MEMORY");
  return bytes != nullptr ? std::strtoul(bytes, nullptr, 10) : std::size_t{1} << 20;
}();

struct Allocation {
  int device;
  std::size_t bytes;
};

struct Fake {
  std::mutex mutex;
  std::map<CUdeviceptr, Allocation> allocations;
  std::size_t used[2] = {};
  std::size_t pooled[2] = {};  // given back to a pool, not to the device
  CUresult lost = CUDA_SUCCESS;
};
Fake fake;
thread_local CUcontext current = nullptr;
thread_local bool capturing = false;
thread_local CUstream captured_stream = nullptr;
using Work = std::vector<std::function<void()>>;
thread_local Work captured;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;  // what the thread may do meanwhile

// Contexts and pools are addresses of nothing; a context's tells its device.
char contexts[2], pools[2];
int device_of(const void* context, const char* all) {
  return static_cast<int>(static_cast<const char*>(context) - all);
}
int current_device() { return current == nullptr ? -1 : device_of(current, contexts); }

// Of an event: the host's clock, in microseconds, and whether it was recorded in a capture.
struct Reached {
  double when = 0;
  bool captured = false;
};
Reached& reached(CUevent event) { return *reinterpret_cast<Reached*>(event); }

bool captures(CUstream stream) { return capturing && stream == captured_stream; }

CUresult failing();

CUresult allocate(CUdeviceptr* pointer, std::size_t bytes, int device) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  const std::lock_guard lock(fake.mutex);
  if (fake.lost != CUDA_SUCCESS) return fake.lost;
  if (capturing && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (fake.used[device] + fake.pooled[device] + bytes > kMemory) return CUDA_ERROR_OUT_OF_MEMORY;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *pointer = reinterpret_cast<CUdeviceptr>(data);
  fake.allocations[*pointer] = {device, bytes};
  fake.used[device] += bytes;
  return CUDA_SUCCESS;
}

// Done now, or when the graph that is being captured is launched.
CUresult enqueue(CUstream stream, std::function<void()> work) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  if (captures(stream)) {
    captured.push_back(std::move(work));
  } else {
    work();
  }
  return fake.lost;
}

CUresult release(CUdeviceptr pointer, bool to_pool) {
  const std::lock_guard lock(fake.mutex);
  const auto found = fake.allocations.find(pointer);
  if (found == fake.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  fake.used[found->second.device] -= found->second.bytes;
  if (to_pool) fake.pooled[found->second.device] += found->second.bytes;
  std::free(reinterpret_cast<void*>(pointer));
  fake.allocations.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

int fake_captures = 0, fake_graph_launches = 0, fake_waits = 0, fake_fail_at = 0;
bool fake_not_reached = false;
CUresult fake_end_capture = CUDA_SUCCESS, fake_failure = CUDA_ERROR_OUT_OF_MEMORY;

CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuInit(unsigned) {
  const char* devices = std::getenv("FAKE_DEVICES");
  return devices != nullptr && std::strcmp(devices, "0") == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult status, const char** name) {
  *name = status == CUDA_ERROR_NO_DEVICE         ? "CUDA_ERROR_NO_DEVICE"
          : status == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                                 : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "words of the driver";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 2;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, "Fake 9000", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* bus, int length, CUdevice device) {
  std::snprintf(bus, static_cast<std::size_t>(length), "fake:%02d:00.0", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                       : 7;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(&contexts[device]);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  ++fake_waits;
  return fake.lost;
}
CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  const int device = current_device();
  *free = kMemory - fake.used[device] - fake.pooled[device];
  *total = kMemory;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) { return allocate(pointer, bytes, current_device()); }
CUresult cuMemFree(CUdeviceptr pointer) { return release(pointer, false); }
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  *pool = reinterpret_cast<CUmemoryPool>(&pools[properties->location.id]);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void* value) {
  const int device = device_of(pool, pools);
  const bool used = which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
  *static_cast<cuuint64_t*>(value) = fake.used[device] + (used ? 0 : fake.pooled[device]);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t) {
  fake.pooled[device_of(pool, pools)] = 0;
  return CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, std::size_t bytes, CUmemoryPool pool, CUstream) {
  return allocate(pointer, bytes, device_of(pool, pools));
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream) { return release(pointer, true); }
CUresult cuPointerGetAttributes(unsigned, CUpointer_attribute*, void** values, CUdeviceptr pointer) {
  const std::lock_guard lock(fake.mutex);
  *static_cast<CUmemorytype*>(values[0]) = CUmemorytype{};
  *static_cast<unsigned*>(values[1]) = 0;
  for (const auto& [begin, allocation] : fake.allocations) {
    if (pointer < begin || pointer >= begin + allocation.bytes) continue;
    *static_cast<CUmemorytype*>(values[0]) = CU_MEMORYTYPE_DEVICE;
    *static_cast<int*>(values[2]) = allocation.device;
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  *stream = reinterpret_cast<CUstream>(new char);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  delete reinterpret_cast<char*>(stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  ++fake_waits;
  if (captures(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  return fake.lost;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = captures(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  if (stream == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // the default stream
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  if (capturing) return CUDA_ERROR_ILLEGAL_STATE;
  capturing = true;
  captured_stream = stream;
  captured.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (!captures(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  capturing = false;
  if (const CUresult failed = std::exchange(fake_end_capture, CUDA_SUCCESS); failed != CUDA_SUCCESS) return failed;
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  ++fake_captures;
  *graph = reinterpret_cast<CUgraph>(new Work(std::move(captured)));
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(capture_mode, *mode);
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, std::size_t* count) {
  *count = 0;
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<Work*>(graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  *executable = reinterpret_cast<CUgraphExec>(new Work(*reinterpret_cast<Work*>(graph)));
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  delete reinterpret_cast<Work*>(executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  ++fake_graph_launches;
  for (const auto& work : *reinterpret_cast<Work*>(executable)) work();
  return fake.lost;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return enqueue(stream, [=] { function(data); });
}
CUresult cuMemAllocHost(void** pointer, std::size_t bytes) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  if (capturing && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  if (captures(stream) != reached(event).captured) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  return fake.lost;
}
// Four blocks of 256 threads an SM.
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, std::size_t) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *blocks = 1024 / threads;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  *event = reinterpret_cast<CUevent>(new Reached);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  delete &reached(event);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (const CUresult failed = failing(); failed != CUDA_SUCCESS) return failed;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  reached(event) = {std::chrono::duration<double, std::micro>(now).count(), captures(stream)};
  return fake.lost;
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  if (flags != CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, [event] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    reached(event) = {std::chrono::duration<double, std::micro>(now).count(), false};
  });
}
CUresult cuEventSynchronize(CUevent) {
  ++fake_waits;
  return fake.lost;
}
// What is enqueued has run.
CUresult cuEventQuery(CUevent) { return fake_not_reached ? CUDA_ERROR_NOT_READY : fake.lost; }
#undef cuEventElapsedTime  // the table has its first version
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  if (reached(begin).captured || reached(end).captured) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = static_cast<float>((reached(end).when - reached(begin).when) * 1e-3);
  return fake.lost;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return enqueue(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return enqueue(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return enqueue(stream, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  return enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}
// Every kernel that is of no module reads where it must not.
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  if (config->blockDimX > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (const auto launch = fake_launch(function, *config, parameters)) {
    return enqueue(config->hStream, [launch] {
      if (const CUresult failed = launch(); failed != CUDA_SUCCESS) fake.lost = failed;
    });
  }
  fake.lost = CUDA_ERROR_ILLEGAL_ADDRESS;
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace {
CUresult failing() { return fake_fail_at > 0 && --fake_fail_at == 0 ? fake_failure : CUDA_SUCCESS; }
}  // namespace
