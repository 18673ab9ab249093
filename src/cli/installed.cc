#include "cli/installed.h"

#include <filesystem>

namespace convoy::cli {

namespace fs = std::filesystem;

std::string files_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  // CONVOY_SHARE: from the folder of installed programs. The other is build/bin of the source.
  for (const char* there : {CONVOY_SHARE, "../.."}) {
    const fs::path folder = (program.parent_path() / there).lexically_normal();
    if (fs::is_directory(folder / "problems", error)) return folder.string();
  }
  return {};
}

std::string installed_or_here(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) || (path != "problems" && !path.starts_with("problems/"))) return path;
  const std::string folder = files_folder();
  const fs::path there = fs::path(folder) / path;
  return !folder.empty() && fs::exists(there, error) ? there.string() : path;
}

}  // namespace convoy::cli
