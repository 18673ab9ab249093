#include "cli/input_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/errors.h"
#include "core/text.h"
#include "io/file.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> files_of_folder(const std::string& folder, std::string& remark) {
  std::error_code failed;
  std::vector<std::string> files;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) files.push_back(entry->path());
  }
  if (failed) return invalid(fmt::format("{}: {}", folder, failed.message()));
  std::sort(files.begin(), files.end());
  for (const FileKind kind : {FileKind::picture, FileKind::volume, FileKind::tensor}) {
    std::vector<std::string> chosen;
    std::copy_if(files.begin(), files.end(), std::back_inserter(chosen),
                 [&](const std::string& file) { return kind_of_file(file) == kind; });
    if (chosen.empty()) continue;
    if (chosen.size() < files.size()) {
      remark = fmt::format("{}: {} of {} files are taken: the {}", folder, chosen.size(), files.size(),
                           kind == FileKind::picture  ? "pictures"
                           : kind == FileKind::volume ? "volumes"
                                                      : "tensors");
    }
    return chosen;
  }
  return invalid(
      fmt::format("{}: the folder has no pictures (png jpg jpeg), volumes (nii nii.gz) or tensors (npy pb)", folder));
}

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

}  // namespace

FileKind kind_of_file(const std::string& path) {
  const std::string extension = io::lower_extension(path);
  const auto is_one_of = [&](std::initializer_list<const char*> known) {
    return std::find(known.begin(), known.end(), extension) != known.end();
  };
  if (is_one_of({"png", "jpg", "jpeg"})) return FileKind::picture;
  if (is_one_of({"nii", "nii.gz"})) return FileKind::volume;
  if (is_one_of({"npy", "pb"})) return FileKind::tensor;
  return FileKind::unknown;
}

Result<std::vector<std::string>> expand_files(const std::string& text, std::string& remark) {
  std::error_code ignored;
  if (fs::is_directory(text, ignored)) return files_of_folder(text, remark);
  if (fs::exists(text, ignored) || text.find_first_of("*?[") == std::string::npos) return std::vector{text};
  const std::vector<std::string> files = matching(text);
  if (files.empty()) return invalid(fmt::format("no file matches {}", convoy::quoted(text)));
  return files;
}

}  // namespace convoy::cli
