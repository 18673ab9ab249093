#include "generate/testing/walk.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace convoy::generate {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, std::string_view text) { std::ofstream(file) << text; }

}  // namespace

std::string text_of(std::span<const Kernel> kernels) {
  std::string text(Kernel::kInclude);
  for (const Kernel& kernel : kernels) {
    if (!kernel.text.empty()) text += kernel.text.substr(Kernel::kInclude.size());
  }
  return text;
}

Result<Walk> Walk::compile(std::span<const Kernel> kernels) {
  static std::atomic<int> count{0};
  const fs::path folder = fs::temp_directory_path() / fmt::format("convoy_walk_{}_{}", getpid(), count++);
  fs::create_directories(folder);
  const std::shared_ptr<void> cleanup(nullptr, [&](void*) { fs::remove_all(folder); });
  for (const KernelFile& file : kernel_files()) {
    if (std::string_view(file.name) != "machine.cuh") write(folder / file.name, file.text);
  }
  std::string text = text_of(kernels);
  for (const Kernel& kernel : kernels) {
    if (kernel.text.empty()) continue;
    text += fmt::format(
        "extern \"C\" bool walk_{0}(void* const* arguments, unsigned grid, unsigned block, bool backwards) {{\n"
        "  return walk::call(&{0}, arguments, grid, block, backwards);\n}}\n",
        kernel.name);
  }
  write(folder / "kernels.cc", text);
  const std::string command = fmt::format(
      "{0} -std=c++17 -O1 -w -fPIC -shared -fcf-protection=none -ffp-contract=off -I {1} -I {2} {1}/kernels.cc -o "
      "{1}/kernels.so 2> {1}/errors",
      CONVOY_CXX, folder.string(), CONVOY_WALK_FOLDER);
  if (std::system(command.c_str()) != 0) {
    std::ifstream in(folder / "errors");
    const std::string words(std::istreambuf_iterator<char>(in), {});
    return Error{ErrorCode::internal, words.substr(0, 4000)};
  }
  void* const library = dlopen((folder / "kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorCode::internal, dlerror()};
  Walk walk;
  walk.library_ = {library, [](void* handle) { dlclose(handle); }};
  return walk;
}

Result<void> Walk::run(const Kernel& kernel, std::span<void* const> pointers, bool backwards) const {
  if (kernel.grid == 0) return {};
  using Call = bool (*)(void* const*, unsigned, unsigned, bool);
  const auto call = reinterpret_cast<Call>(dlsym(library_.get(), ("walk_" + kernel.name).c_str()));
  if (call == nullptr) return Error{ErrorCode::not_found, kernel.name};
  if (!call(pointers.data(), kernel.grid, kernel.block, backwards)) {
    return Error{ErrorCode::internal, kernel.name + ": threads of a block part at a barrier"};
  }
  return {};
}

}  // namespace convoy::generate
