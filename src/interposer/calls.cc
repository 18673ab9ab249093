// The functions of cuDNN that this library stands in front of. Each passes the call on, and tells the observer.
#include "interposer/fast_path.h"
#include "interposer/first.h"
#include "interposer/functions.h"
#include "interposer/inside.h"
#include "interposer/observer.h"
#include "interposer/real.h"
#include "interposer/variant_pack.h"
#include "interposer/words.h"

namespace {

using convoy::Pass;
using convoy::interposer::fast_path;
using convoy::interposer::LegacyCall;
using convoy::interposer::of_thread;
using convoy::interposer::real;

bool observing() { return !convoy::interposer::Inside::now() && convoy::interposer::observing(); }

// Nothing is learnt of an attribute of a variant pack.
bool of_variant_pack(cudnnBackendAttributeName_t name) {
  return name >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && name <= CUDNN_ATTR_VARIANT_PACK_WORKSPACE;
}

// Passes a call of the older interface on, which cuDNN may do by calls of its own.
template <class Call>
cudnnStatus_t pass_on(const LegacyCall& done, Call call) {
  const cudnnStatus_t status = [&] {
    const convoy::interposer::Inside inside;
    return call();
  }();
  if (status == CUDNN_STATUS_SUCCESS && observing()) convoy::interposer::called(done);
  return status;
}

constexpr cudnnStatus_t kMissing = CUDNN_STATUS_NOT_SUPPORTED;

// The linker's names for the two ends of CONVOY_FAST_PATH.
[[gnu::visibility("hidden")]] extern const char fast_path_begin[] asm("__start_convoy_fast_path");
[[gnu::visibility("hidden")]] extern const char fast_path_end[] asm("__stop_convoy_fast_path");

inline void fetch_fast_path() {
  for (const char* line = fast_path_begin; line < fast_path_end; line += 64) {
    __builtin_prefetch(line);
  }
}

// Calls that are not part of an execution on the fast path: while a program makes its plans.
__attribute__((noinline, cold)) cudnnStatus_t create_seldom(cudnnBackendDescriptorType_t type,
                                                            cudnnBackendDescriptor_t* descriptor) {
  if (real().BackendCreateDescriptor == nullptr) return kMissing;
  if (observing()) convoy::interposer::begin_fast_path();
  const cudnnStatus_t status = real().BackendCreateDescriptor(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS || !observing()) return status;
  if (type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    convoy::interposer::created(*descriptor, type);
  } else if (fast_path.create.load(std::memory_order_acquire) != nullptr) {
    convoy::interposer::pack_created(*descriptor);
  }
  return status;
}

__attribute__((noinline, cold)) cudnnStatus_t destroy_seldom(cudnnBackendDescriptor_t descriptor) {
  if (real().BackendDestroyDescriptor == nullptr) return kMissing;
  fast_path.plans.forget(descriptor);
  std::shared_ptr<void> last;
  if (observing()) last = convoy::interposer::destroying(descriptor);
  return real().BackendDestroyDescriptor(descriptor);
}

__attribute__((noinline, cold)) cudnnStatus_t set_seldom(cudnnBackendDescriptor_t descriptor,
                                                         cudnnBackendAttributeName_t name,
                                                         cudnnBackendAttributeType_t type, int64_t count,
                                                         const void* values) {
  if (real().BackendSetAttribute == nullptr) return kMissing;
  const cudnnStatus_t status = real().BackendSetAttribute(descriptor, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS && !of_variant_pack(name) && observing()) {
    convoy::interposer::set(descriptor, name, type, count, values);
  }
  return status;
}

__attribute__((noinline, cold)) cudnnStatus_t finalize_seldom(cudnnBackendDescriptor_t descriptor) {
  if (real().BackendFinalize == nullptr) return kMissing;
  return observing() ? convoy::interposer::finalize(descriptor) : real().BackendFinalize(descriptor);
}

__attribute__((noinline, cold)) cudnnStatus_t execute_seldom(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                                             cudnnBackendDescriptor_t variant_pack) {
  if (real().BackendExecute == nullptr) return kMissing;
  return observing() ? convoy::interposer::execute(handle, plan, variant_pack)
                     : real().BackendExecute(handle, plan, variant_pack);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

CONVOY_FAST_PATH cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                            cudnnBackendDescriptor_t* descriptor) {
  const auto create = fast_path.create.load(std::memory_order_acquire);
  if (type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || create == nullptr || convoy::interposer::Inside::now()) {
    return create_seldom(type, descriptor);
  }
  fetch_fast_path();
  fast_path.plans.fetch_expected(of_thread);
  const cudnnStatus_t status = create(type, descriptor);
  if (status == CUDNN_STATUS_SUCCESS) convoy::interposer::pack_created(*descriptor);
  return status;
}

CONVOY_FAST_PATH cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                        cudnnBackendAttributeName_t name,
                                                        cudnnBackendAttributeType_t type, int64_t count,
                                                        const void* values) {
  if (!convoy::interposer::is_pack(descriptor)) return set_seldom(descriptor, name, type, count, values);
  if (!fast_path.substituting.load(std::memory_order_relaxed)) {
    return fast_path.set_attribute(descriptor, name, type, count, values);
  }
  const cudnnStatus_t status = fast_path.set_attribute(descriptor, name, type, count, values);
  if (status == CUDNN_STATUS_SUCCESS) convoy::interposer::pack_set(descriptor, name, type, count, values);
  return status;
}

CONVOY_FAST_PATH cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return convoy::interposer::is_pack(descriptor) ? fast_path.finalize(descriptor) : finalize_seldom(descriptor);
}

CONVOY_FAST_PATH cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                                   cudnnBackendDescriptor_t variant_pack) {
  const auto* const settled = fast_path.plans.find(plan);
  if (settled == nullptr) return execute_seldom(handle, plan, variant_pack);
  fast_path.plans.follow(*settled, of_thread);
  const auto* const stand_in = settled->stand_in.load(std::memory_order_relaxed);
  if (stand_in != nullptr && convoy::interposer::stands_in(*stand_in, handle, variant_pack)) {
    return CUDNN_STATUS_SUCCESS;
  }
  return fast_path.execute(handle, plan, variant_pack);
}

CONVOY_FAST_PATH cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  if (!convoy::interposer::is_pack(descriptor)) return destroy_seldom(descriptor);
  convoy::interposer::pack_destroyed(descriptor);
  return fast_path.destroy(descriptor);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* values) {
  if (real().BackendGetAttribute == nullptr) return kMissing;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && count != nullptr &&
      observing()) {
    return convoy::interposer::offer(descriptor, requested, count, static_cast<cudnnBackendDescriptor_t*>(values));
  }
  const cudnnStatus_t status = real().BackendGetAttribute(descriptor, name, type, requested, count, values);
  if (status == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
      requested >= 1 && values != nullptr && fast_path.substituting.load(std::memory_order_relaxed) && observing()) {
    convoy::interposer::workspace(descriptor, static_cast<int64_t*>(values));
  }
  return status;
}

void cudnnGetLastErrorString(char* message, size_t max_size) { convoy::interposer::give_words(message, max_size); }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (real().Create == nullptr) return kMissing;
  return convoy::interposer::first_alone([&] { return real().Create(handle); });
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                      const void* x, const cudnnFilterDescriptor_t w_desc, const void* w,
                                      const cudnnConvolutionDescriptor_t window, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, size_t bytes, const void* beta,
                                      const cudnnTensorDescriptor_t y_desc, void* y) {
  if (real().ConvolutionForward == nullptr) return kMissing;
  const LegacyCall call{__func__, Pass::fprop, x_desc, y_desc, w_desc, x, w, y, window, algorithm, bytes, alpha, beta};
  return pass_on(call, [&] {
    return real().ConvolutionForward(handle, alpha, x_desc, x, w_desc, w, window, algorithm, workspace, bytes, beta,
                                     y_desc, y);
  });
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnFilterDescriptor_t w_desc, const void* w, const cudnnConvolutionDescriptor_t window,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const void* alpha2,
    const cudnnTensorDescriptor_t z_desc, const void* z, const cudnnTensorDescriptor_t bias_desc, const void* bias,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_desc, void* y) {
  if (real().ConvolutionBiasActivationForward == nullptr) return kMissing;
  LegacyCall call{__func__, Pass::fprop, x_desc, y_desc, w_desc, x, w, y, window, algorithm, bytes, alpha1, nullptr};
  call.z = z_desc;
  call.bias = bias_desc;
  call.alpha2 = alpha2;
  call.activation = activation;
  return pass_on(call, [&] {
    return real().ConvolutionBiasActivationForward(handle, alpha1, x_desc, x, w_desc, w, window, algorithm, workspace,
                                                   bytes, alpha2, z_desc, z, bias_desc, bias, activation, y_desc, y);
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           const cudnnFilterDescriptor_t w_desc, const void* w,
                                           const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           const cudnnConvolutionDescriptor_t window,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t bytes,
                                           const void* beta, const cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (real().ConvolutionBackwardData == nullptr) return kMissing;
  const LegacyCall call{__func__, Pass::dgrad, dx_desc,   dy_desc, w_desc, dx,  w,
                        dy,       window,      algorithm, bytes,   alpha,  beta};
  return pass_on(call, [&] {
    return real().ConvolutionBackwardData(handle, alpha, w_desc, w, dy_desc, dy, window, algorithm, workspace, bytes,
                                          beta, dx_desc, dx);
  });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             const cudnnTensorDescriptor_t x_desc, const void* x,
                                             const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             const cudnnConvolutionDescriptor_t window,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t bytes,
                                             const void* beta, const cudnnFilterDescriptor_t dw_desc, void* dw) {
  if (real().ConvolutionBackwardFilter == nullptr) return kMissing;
  const LegacyCall call{__func__, Pass::wgrad, x_desc,    dy_desc, dw_desc, x,   dw,
                        dy,       window,      algorithm, bytes,   alpha,   beta};
  return pass_on(call, [&] {
    return real().ConvolutionBackwardFilter(handle, alpha, x_desc, x, dy_desc, dy, window, algorithm, workspace, bytes,
                                            beta, dw_desc, dw);
  });
}

}  // extern "C"
#pragma GCC visibility pop

void* convoy::interposer::function_in_front(std::string_view name) {
#define CONVOY_ROW(function) \
  if (name == #function) return reinterpret_cast<void*>(&::function);
  CONVOY_ROW(cudnnBackendCreateDescriptor)
  CONVOY_ROW(cudnnBackendSetAttribute)
  CONVOY_ROW(cudnnBackendFinalize)
  CONVOY_ROW(cudnnBackendExecute)
  CONVOY_ROW(cudnnBackendDestroyDescriptor)
  CONVOY_ROW(cudnnBackendGetAttribute)
  CONVOY_ROW(cudnnGetLastErrorString)
  CONVOY_ROW(cudnnCreate)
  CONVOY_ROW(cudnnConvolutionForward)
  CONVOY_ROW(cudnnConvolutionBiasActivationForward)
  CONVOY_ROW(cudnnConvolutionBackwardData)
  CONVOY_ROW(cudnnConvolutionBackwardFilter)
#undef CONVOY_ROW
  return nullptr;
}
