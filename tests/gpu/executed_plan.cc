// Preloaded into a program that uses cuDNN (LD_PRELOAD), it writes down by which engine and knobs each convolution ran,
// in Convoy's names (cudnn.eng20{k2=6,k3=0}, cudnn.legacy.wgrad0): a line each time it is another one than before,
// appended to the file that CONVOY_EXECUTED_PLANS names. For scripts/gpu-check, which asks PyTorch what it picked.
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
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

void write_down(const std::string& name) {
  const char* const path = std::getenv("CONVOY_EXECUTED_PLANS");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", name.c_str());
  std::fclose(file);
}

// Whether an execution is of another plan or algorithm than the one before: naming one at each would slow down what is
// timed.
bool changed(const void* plan, int algorithm = 0) {
  static std::mutex mutex;
  static const void* last_plan = nullptr;
  static int last_algorithm = -1;
  const std::lock_guard lock(mutex);
  if (plan == last_plan && algorithm == last_algorithm) return false;
  last_plan = plan;
  last_algorithm = algorithm;
  return true;
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
      knobs["k" + std::to_string(static_cast<int>(type))] =
          number<std::int64_t>(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64);
      CONVOY_NEXT(cudnnBackendDestroyDescriptor)(choice);
    }
    char before = '{';
    for (const auto& [knob, value] : knobs) {
      name += before + knob + "=" + std::to_string(value);
      before = ',';
    }
    if (!knobs.empty()) name += "}";
    CONVOY_NEXT(cudnnBackendDestroyDescriptor)(config);
  }
  return name;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  static const auto real = CONVOY_NEXT(cudnnBackendExecute);
  if (changed(plan)) write_down(name_of(plan));
  return real(handle, plan, pack);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t desc, cudnnConvolutionFwdAlgo_t algo,
                                      void* workspace, size_t bytes, const void* beta, cudnnTensorDescriptor_t y_desc,
                                      void* y) {
  static const auto real = CONVOY_NEXT(cudnnConvolutionForward);
  if (changed(desc, static_cast<int>(algo))) write_down("cudnn.legacy.fprop" + std::to_string(static_cast<int>(algo)));
  return real(handle, alpha, x_desc, x, w_desc, w, desc, algo, workspace, bytes, beta, y_desc, y);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                                           const void* w, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           cudnnConvolutionDescriptor_t desc, cudnnConvolutionBwdDataAlgo_t algo,
                                           void* workspace, size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  static const auto real = CONVOY_NEXT(cudnnConvolutionBackwardData);
  if (changed(desc, static_cast<int>(algo))) write_down("cudnn.legacy.dgrad" + std::to_string(static_cast<int>(algo)));
  return real(handle, alpha, w_desc, w, dy_desc, dy, desc, algo, workspace, bytes, beta, dx_desc, dx);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                             const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             cudnnConvolutionDescriptor_t desc, cudnnConvolutionBwdFilterAlgo_t algo,
                                             void* workspace, size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_desc, void* dw) {
  static const auto real = CONVOY_NEXT(cudnnConvolutionBackwardFilter);
  if (changed(desc, static_cast<int>(algo))) write_down("cudnn.legacy.wgrad" + std::to_string(static_cast<int>(algo)));
  return real(handle, alpha, x_desc, x, dy_desc, dy, desc, algo, workspace, bytes, beta, dw_desc, dw);
}

}  // extern "C"
