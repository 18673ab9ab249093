// The functions of cuDNN that this library stands in front of. Each passes the call on, and tells the observer.
#include "interposer/observer.h"
#include "interposer/real.h"

namespace {

using convoy::interposer::observing;
using convoy::interposer::real;

// A variant pack lives for one execution: nothing is learnt from it, and it is made at every one.
bool of_variant_pack(cudnnBackendAttributeName_t name) {
  return name >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && name <= CUDNN_ATTR_VARIANT_PACK_WORKSPACE;
}

constexpr cudnnStatus_t kMissing = CUDNN_STATUS_NOT_SUPPORTED;

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  if (real().BackendCreateDescriptor == nullptr) return kMissing;
  const cudnnStatus_t status = real().BackendCreateDescriptor(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS && type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && observing()) {
    convoy::interposer::created(*descriptor, type);
  }
  return status;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  if (real().BackendDestroyDescriptor == nullptr) return kMissing;
  std::shared_ptr<void> last;
  if (observing()) last = convoy::interposer::destroying(descriptor);
  return real().BackendDestroyDescriptor(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (real().BackendSetAttribute == nullptr) return kMissing;
  const cudnnStatus_t status = real().BackendSetAttribute(descriptor, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS && !of_variant_pack(name) && observing()) {
    convoy::interposer::set(descriptor, name, type, count, values);
  }
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* values) {
  if (real().BackendGetAttribute == nullptr) return kMissing;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && count != nullptr &&
      observing()) {
    return convoy::interposer::offer(descriptor, requested, count, static_cast<cudnnBackendDescriptor_t*>(values));
  }
  return real().BackendGetAttribute(descriptor, name, type, requested, count, values);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  if (real().BackendFinalize == nullptr) return kMissing;
  return observing() ? convoy::interposer::finalize(descriptor) : real().BackendFinalize(descriptor);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  if (real().BackendExecute == nullptr) return kMissing;
  const cudnnStatus_t status = real().BackendExecute(handle, plan, variant_pack);
  if (status == CUDNN_STATUS_SUCCESS && observing()) convoy::interposer::executed(plan);
  return status;
}

}  // extern "C"
#pragma GCC visibility pop
