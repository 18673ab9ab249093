// Preloaded into a program that uses cuDNN (LD_PRELOAD), it remembers by which plan or algorithm the last convolution
// ran; convoy_executed_plan() then names it as Convoy does (cudnn.eng20{k2=6,k3=0}, cudnn.legacy.wgrad0). For
// scripts/gpu-check, which asks PyTorch what it picked. Nothing is named or written before it is asked: that would slow
// down the executions by which PyTorch picks.
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

// cuDNN as the program has loaded it, which need not be in the scope of what is preloaded.
template <typename Function>
Function* next(const char* name) {
  static void* const library = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "executed_plan: no %s in a loaded libcudnn.so.9\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

#define CONVOY_NEXT(function) next<decltype(function)>(#function)

// Of the last execution: a plan of the graph API, or the older one's pass and algorithm. One thread runs convolutions.
cudnnBackendDescriptor_t last_plan = nullptr;
const char* last_pass = nullptr;
int last_algorithm = 0;

void remember(cudnnBackendDescriptor_t plan) {
  last_plan = plan;
  last_pass = nullptr;
}

void remember(const char* pass, int algorithm) {
  last_plan = nullptr;
  last_pass = pass;
  last_algorithm = algorithm;
}

std::vector<cudnnBackendDescriptor_t> descriptors(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t attribute,
                                                  cudnnBackendDescriptorType_t type, std::int64_t most) {
  std::vector<cudnnBackendDescriptor_t> found(static_cast<std::size_t>(most));
  for (auto& each : found) CONVOY_NEXT(cudnnBackendCreateDescriptor)(type, &each);
  std::int64_t count = 0;
  const auto status =
      CONVOY_NEXT(cudnnBackendGetAttribute)(of, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, found.data());
  if (status != CUDNN_STATUS_SUCCESS) count = 0;
  for (std::size_t i = static_cast<std::size_t>(count); i < found.size(); ++i)
    CONVOY_NEXT(cudnnBackendDestroyDescriptor)(found[i]);
  found.resize(static_cast<std::size_t>(std::min(count, most)));
  return found;
}

template <typename Value>
Value number(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type) {
  Value value{};
  std::int64_t count = 0;
  CONVOY_NEXT(cudnnBackendGetAttribute)(of, attribute, type, 1, &count, &value);
  return value;
}

std::string name_of(cudnnBackendDescriptor_t plan) {
  std::string name = "unknown";
  const auto configs =
      descriptors(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 1);
  for (const auto config : configs) {
    for (const auto engine : descriptors(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)) {
      name =
          "cudnn.eng" + std::to_string(number<std::int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64));
      CONVOY_NEXT(cudnnBackendDestroyDescriptor)(engine);
    }
    std::map<std::string, std::int64_t> knobs;  // in the order of their names, as Convoy's
    for (const auto choice : descriptors(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                         CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
      const auto type = number<cudnnBackendKnobType_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE);
      knobs[std::string("k").append(std::to_string(static_cast<int>(type)))] =
          number<std::int64_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64);
      CONVOY_NEXT(cudnnBackendDestroyDescriptor)(choice);
    }
    char before = '{';
    for (const auto& [knob, value] : knobs) {
      name.append(1, before).append(knob).append("=").append(std::to_string(value));
      before = ',';
    }
    if (!knobs.empty()) name += "}";
    CONVOY_NEXT(cudnnBackendDestroyDescriptor)(config);
  }
  return name;
}

}  // namespace

extern "C" {

// The name of what ran last, then forgotten; null where nothing ran since. Before its plan is destroyed. Valid until
// the next call.
const char* convoy_executed_plan() {
  static std::string name;
  if (last_plan == nullptr && last_pass == nullptr) return nullptr;
  name = last_plan != nullptr ? name_of(last_plan)
                              : std::string("cudnn.legacy.") + last_pass + std::to_string(last_algorithm);
  last_plan = nullptr;
  last_pass = nullptr;
  return name.c_str();
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  static const auto real = CONVOY_NEXT(cudnnBackendExecute);
  remember(plan);
  return real(handle, plan, pack);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t desc, cudnnConvolutionFwdAlgo_t algo,
                                      void* workspace, size_t bytes, const void* beta, cudnnTensorDescriptor_t y_desc,
                                      void* y) {
  static const auto real = CONVOY_NEXT(cudnnConvolutionForward);
  remember("fprop", static_cast<int>(algo));
  return real(handle, alpha, x_desc, x, w_desc, w, desc, algo, workspace, bytes, beta, y_desc, y);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                                           const void* w, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           cudnnConvolutionDescriptor_t desc, cudnnConvolutionBwdDataAlgo_t algo,
                                           void* workspace, size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  static const auto real = CONVOY_NEXT(cudnnConvolutionBackwardData);
  remember("dgrad", static_cast<int>(algo));
  return real(handle, alpha, w_desc, w, dy_desc, dy, desc, algo, workspace, bytes, beta, dx_desc, dx);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                             const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             cudnnConvolutionDescriptor_t desc, cudnnConvolutionBwdFilterAlgo_t algo,
                                             void* workspace, size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_desc, void* dw) {
  static const auto real = CONVOY_NEXT(cudnnConvolutionBackwardFilter);
  remember("wgrad", static_cast<int>(algo));
  return real(handle, alpha, x_desc, x, dy_desc, dy, desc, algo, workspace, bytes, beta, dw_desc, dw);
}

}  // extern "C"
