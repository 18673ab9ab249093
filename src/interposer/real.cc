#include "interposer/real.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/shared_library.h"

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
  return parts;
}

// Those of them that can be opened, for good: programs call cuDNN until they end.
const std::vector<void*>& libraries() {
  static const auto* const opened = [] {
    auto* all = new std::vector<void*>;
    std::vector<std::string> parts = loaded_parts();
    if (parts.empty()) parts.emplace_back("libcudnn.so.9");
    for (const std::string& part : parts) {
      if (void* library = dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL)) all->push_back(library);
    }
    return all;
  }();
  return *opened;
}

cuda::CudnnApi* find() {
  auto* api = new cuda::CudnnApi;
#define CONVOY_ROW(name) api->name = reinterpret_cast<decltype(api->name)>(real_function("cudnn" #name));
  CONVOY_CUDNN_FUNCTIONS(CONVOY_ROW)
  CONVOY_CUDNN_NEWER_FUNCTIONS(CONVOY_ROW)
#undef CONVOY_ROW
  if (api->GetVersion != nullptr) api->version = static_cast<int>(api->GetVersion());
  return api;
}

}  // namespace

void* real_function(const char* name) {
  for (void* library : libraries()) {
    if (void* function = symbol_of(library, name)) return function;
  }
  return nullptr;
}

std::string loaded_file() {
  const std::vector<std::string> parts = loaded_parts();
  return parts.empty() ? "" : parts.front();
}

std::string real_file() {
  Dl_info info;
  // (A function that is in the process lies in a part of cuDNN, libcudnn_graph.so.9 for one, beside the whole.)
  if (dladdr(reinterpret_cast<void*>(real().GetVersion), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::filesystem::path file = std::filesystem::path(info.dli_fname).parent_path() / "libcudnn.so.9";
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(file, error);
  return error ? "" : whole.string();
}

const cuda::CudnnApi& real() {
  static const cuda::CudnnApi* const found = find();
  return *found;
}

}  // namespace convoy::interposer
