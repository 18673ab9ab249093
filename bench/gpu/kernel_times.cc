// What a process runs on its GPU, in order, in the file that KERNEL_TIMES names: a line each kernel, copy and fill with
// its microseconds, and "wait" where the process waits for a stream. Told to CUDA by CUDA_INJECTION64_PATH, and
// preloaded, since programs may end without their atexit functions:
//   g++ -O1 -std=c++17 -shared -fPIC kernel_times.cc -o kernel_times.so -I CUDA/include -L CUDA/lib64 -lcupti
#include <cuda.h>
#include <cupti.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Line {
  unsigned correlation;  // counts the process's calls of the driver
  double microseconds;
  std::string what;
};
std::mutex mutex;
std::vector<Line> lines;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* records) {
  *size = 8 << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *records = 0;
}

template <class Activity>
void add(const CUpti_Activity* record, const std::string& what) {
  const auto& activity = *reinterpret_cast<const Activity*>(record);
  lines.push_back({activity.correlationId, 1e-3 * static_cast<double>(activity.end - activity.start), what});
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard<std::mutex> lock(mutex);
  for (CUpti_Activity* record = nullptr; cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS;) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      add<CUpti_ActivityKernel9>(record, reinterpret_cast<const CUpti_ActivityKernel9*>(record)->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      add<CUpti_ActivityMemcpy5>(record, "memcpy");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      add<CUpti_ActivityMemset4>(record, "memset");
    }
  }
  std::free(buffer);
}

void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  if (call.callbackSite != CUPTI_API_EXIT) return;
  const std::lock_guard<std::mutex> lock(mutex);
  lines.push_back({call.correlationId, 0, "wait"});
}

void finish() {
  static bool done = false;
  const char* const path = std::getenv("KERNEL_TIMES");
  if (done || path == nullptr) return;
  done = true;
  cuptiActivityFlushAll(1);
  if (std::FILE* file = std::fopen(path, "w")) {
    for (const Line& line : lines)
      std::fprintf(file, "%u\t%.3f\t%s\n", line.correlation, line.microseconds, line.what.c_str());
    std::fclose(file);
  }
}

}  // namespace

extern "C" {

int InitializeInjection() {
  static CUpti_SubscriberHandle subscriber;
  if (std::getenv("KERNEL_TIMES") == nullptr) return 1;
  int failed = cuptiSubscribe(&subscriber, called, nullptr);
  failed |= cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize);
  failed |= cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  for (const auto kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    failed |= cuptiActivityEnable(kind);
  }
  if (failed != 0) std::fprintf(stderr, "kernel_times: CUPTI refuses\n");
  std::atexit(finish);
  return 1;
}

void _exit(int code) {
  finish();
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}
void _Exit(int code) { _exit(code); }

}  // extern "C"
