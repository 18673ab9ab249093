#include "device/cuda/testing/fake_modules.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Function {
  bool (*run)(void* const* arguments, unsigned grid, unsigned block, bool backwards);
  int parameters;
};
std::mutex mutex;
std::map<CUfunction, Function> functions;
std::mutex walking;  // a kernel's threads and its shared memory are static

}  // namespace

std::function<CUresult()> fake_launch(CUfunction function, const CUlaunchConfig& config, void** parameters) {
  const std::lock_guard lock(mutex);
  const auto found = functions.find(function);
  if (found == functions.end()) return {};
  std::vector<void*> values;
  for (int i = 0; i < found->second.parameters; ++i) values.push_back(*static_cast<void**>(parameters[i]));
  return [run = found->second.run, values, grid = config.gridDimX, block = config.blockDimX] {
    const std::lock_guard one_at_a_time(walking);
    return run(values.data(), grid, block, false) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
  };
}

extern "C" {

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  *module = static_cast<CUmodule>(dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL));
  return *module == nullptr ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }  // its functions stay known
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const std::string own(name);
  void* const run = dlsym(module, ("walk_" + own).c_str());
  void* const parameters = dlsym(module, ("walk_parameters_" + own).c_str());
  if (run == nullptr || parameters == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = static_cast<CUfunction>(run);
  const std::lock_guard lock(mutex);
  functions[*function] = {reinterpret_cast<decltype(Function::run)>(run), reinterpret_cast<int (*)()>(parameters)()};
  return CUDA_SUCCESS;
}

}  // extern "C"
