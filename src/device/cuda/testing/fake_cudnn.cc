// A cuDNN that has one engine for every problem, which does nothing; for testing/fake_driver.cc, whose rules its handle
// follows: cudnnCreate allocates memory, which a thread that captures a stream may not. Everything else succeeds
// (fake_cudnn_rest.cc).
#include <cuda.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

extern "C" {

size_t cudnnGetVersion() {
  const char* version = std::getenv("FAKE_CUDNN_VERSION");
  return version != nullptr ? std::strtoul(version, nullptr, 10) : 91900;
}
size_t cudnnGetCudartVersion() { return 13000; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
             ? "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
             : "CUDNN_STATUS_OTHER";
}
void cudnnGetLastErrorString(char* message, size_t most) {
  if (most > 0) std::snprintf(message, most, "cudaMalloc(&ctx->persistentBuffer");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  void* driver = dlopen(std::getenv("CONVOY_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  const auto allocate =
      driver != nullptr ? reinterpret_cast<decltype(&::cuMemAlloc)>(dlsym(driver, "cuMemAlloc_v2")) : nullptr;
  CUdeviceptr buffer = 0;
  if (allocate == nullptr || allocate(&buffer, 256) != CUDA_SUCCESS) {
    return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  }
  *handle = reinterpret_cast<cudnnHandle_t>(buffer);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new cudnnBackendDescriptorType_t(type);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<cudnnBackendDescriptorType_t*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t most, int64_t* count, void* elements) {
  const bool known = name == CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
  *count = known ? 1 : 0;
  if (known && most > 0) *static_cast<int64_t*>(elements) = 1;
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
