#include "interposer/real.h"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <string_view>
#include <vector>

namespace convoy::interposer {
namespace {

// The files of cuDNN that are in the process; the one that has all functions first.
std::vector<std::string> loaded_parts() {
  std::vector<std::string> parts;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& found = *static_cast<std::vector<std::string>*>(data);
        const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const std::string_view name = path.substr(path.rfind('/') + 1);
        if (name.starts_with("libcudnn.so")) found.insert(found.begin(), std::string(path));
        if (name.starts_with("libcudnn_")) found.emplace_back(path);
        return 0;
      },
      &parts);
  if (parts.empty()) parts.emplace_back("libcudnn.so.9");
  return parts;
}

cuda::CudnnApi* find() {
  auto* api = new cuda::CudnnApi;  // never destroyed: programs call cuDNN until they end
  struct Wanted {
    const char* name;
    void** function;
  };
  const Wanted wanted[] = {
#define CONVOY_ROW(name) {"cudnn" #name, reinterpret_cast<void**>(&api->name)},
      CONVOY_CUDNN_FUNCTIONS(CONVOY_ROW) CONVOY_CUDNN_NEWER_FUNCTIONS(CONVOY_ROW)
#undef CONVOY_ROW
  };
  for (const std::string& part : loaded_parts()) {
    void* library = dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    for (const Wanted& each : wanted) {
      if (*each.function == nullptr) *each.function = dlsym(library, each.name);
    }
  }
  if (api->GetVersion != nullptr) api->version = static_cast<int>(api->GetVersion());
  return api;
}

}  // namespace

const cuda::CudnnApi& real() {
  static const cuda::CudnnApi* const found = find();
  return *found;
}

}  // namespace convoy::interposer
