#include "generate/testing/walk.h"

#include <dlfcn.h>

#include <vector>

#include "generate/testing/host_library.h"

namespace convoy::generate {

namespace fs = std::filesystem;

std::string text_of(std::span<const Kernel> kernels) {
  std::string text(Kernel::kInclude);
  for (const Kernel& kernel : kernels) {
    if (!kernel.text.empty()) text += kernel.text.substr(Kernel::kInclude.size());
  }
  return text;
}

Result<Walk> Walk::compile(std::span<const Kernel> kernels) {
  const fs::path folder = host_library_folder();
  const std::shared_ptr<void> cleanup(nullptr, [&](void*) { fs::remove_all(folder); });
  CONVOY_TRY(const fs::path file, host_library(text_of(kernels), kernel_files(), folder));
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorCode::internal, dlerror()};
  Walk walk;
  walk.library_ = {library, [](void* handle) { dlclose(handle); }};
  return walk;
}

Result<void> Walk::run(const Kernel& kernel, std::span<void* const> pointers, bool backwards) const {
  if (kernel.grid == 0) return {};
  const auto call = reinterpret_cast<HostKernel>(dlsym(library_.get(), ("walk_" + kernel.name).c_str()));
  if (call == nullptr) return Error{ErrorCode::not_found, kernel.name};
  std::vector<void*> arguments(pointers.begin(), pointers.end());
  arguments.push_back(reinterpret_cast<void*>(kernel.count));
  if (!call(arguments.data(), kernel.grid, kernel.block, backwards)) {
    return Error{ErrorCode::internal, kernel.name + ": threads of a block part at a barrier"};
  }
  return {};
}

}  // namespace convoy::generate
