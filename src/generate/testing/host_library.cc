#include "generate/testing/host_library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace convoy::generate {

namespace fs = std::filesystem;

fs::path host_library_folder() {
  static std::atomic<int> count{0};
  fs::path folder = fs::temp_directory_path() / fmt::format("convoy_walk_{}_{}", getpid(), count++);
  fs::create_directories(folder);
  return folder;
}

std::string no_host_compiler() {
  if (!fs::exists(CONVOY_WALK_FOLDER)) return "no source tree here";
  const std::string command = fmt::format("command -v {} > /dev/null 2>&1", CONVOY_CXX);
  return std::system(command.c_str()) == 0 ? "" : fmt::format("no compiler here ({})", CONVOY_CXX);
}

Result<fs::path> host_library(std::string_view text, std::span<const KernelFile> files, const fs::path& folder) {
  const auto write = [&](const std::string& file, std::string_view content) {
    std::ofstream(folder / file) << content;
  };
  for (const KernelFile& file : files) {
    if (std::string_view(file.name) != "machine.cuh") write(file.name, file.text);
  }
  std::string whole(text);
  constexpr std::string_view kBegin = "__global__ void __launch_bounds__(";
  for (std::size_t at = text.find(kBegin); at != std::string_view::npos; at = text.find(kBegin, at + 1)) {
    const std::size_t name = text.find(") ", at) + 2;
    constexpr std::string_view kCluster = "__cluster_dims__(";
    const std::size_t line = text.rfind('\n', at) + 1, cluster = text.find(kCluster, line);
    const std::string_view blocks = cluster < at ? text.substr(cluster + kCluster.size(), 1) : "1";
    whole += fmt::format(
        "extern \"C\" bool walk_{0}(void* const* arguments, unsigned grid, unsigned block, bool backwards) {{\n"
        "  return walk::call(&{0}, arguments, grid, block, backwards, {1});\n}}\n"
        "extern \"C\" int walk_parameters_{0}() {{ return walk::parameters(&{0}); }}\n",
        text.substr(name, text.find('(', name) - name), blocks);
  }
  write("kernels.cc", whole);
  const std::string command = fmt::format(
      "{0} -std=c++17 -O1 -w -fPIC -shared -fcf-protection=none -ffp-contract=off -I {1} -I {2} {1}/kernels.cc -o "
      "{1}/kernels.so 2> {1}/errors",
      CONVOY_CXX, folder.string(), CONVOY_WALK_FOLDER);
  if (std::system(command.c_str()) == 0) return folder / "kernels.so";
  std::ifstream in(folder / "errors");
  const std::string words(std::istreambuf_iterator<char>(in), {});
  return Error{ErrorCode::internal, words.substr(0, 4000)};
}

}  // namespace convoy::generate
