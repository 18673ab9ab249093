#include "device/cuda/libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/driver.h"
#include "device/cuda/nvml.h"
#include "device/cuda/nvrtc.h"

namespace convoy::cuda {
namespace {

namespace fs = std::filesystem;

bool begins_with(const std::string& text, std::string_view stem) { return text.compare(0, stem.size(), stem) == 0; }

// The entries of a folder whose names begin so, the latest version first; nothing where it can't be read.
std::vector<std::string> entries(const std::string& folder, std::string_view stem) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (begins_with(name, stem)) found.push_back((fs::path(folder) / name).string());
  }
  // "python3.11" is later than "python3.9".
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a > b;
  });
  return found;
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Python's package folders of a prefix: PREFIX/lib/python3.11/site-packages, and Debian's dist-packages.
std::vector<std::string> package_folders(const std::string& prefix) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const std::string& python : entries(prefix + "/lib", "python3")) {
    for (const char* kind : {"/site-packages", "/dist-packages"}) {
      if (fs::is_directory(python + kind, error)) folders.push_back(python + kind);
    }
  }
  return folders;
}

// The folders of libraries in a package folder: those of nvidia-* wheels, each in its own or all in nvidia/cu13/lib,
// and PyTorch's, which older wheels of it carry.
std::vector<std::string> library_folders(const std::string& packages) {
  std::vector<std::string> folders = entries(packages + "/nvidia", "");
  std::sort(folders.begin(), folders.end());
  for (std::string& folder : folders) folder += "/lib";
  folders.push_back(packages + "/torch/lib");
  return folders;
}

void add_folder(std::vector<LibrarySource>& places, const LibraryNames& library, const std::string& from,
                const std::string& folder) {
  for (const std::string& soname : library.sonames) {
    std::string file = (fs::path(folder) / soname).string();
    if (is_file(file)) places.push_back({.from = from, .file = std::move(file)});
  }
  if (library.stem.empty()) return;
  // Those of other major versions are not opened, but named, since they explain why nothing was found.
  for (const std::string& file : entries(folder, library.stem)) {
    const std::string name = fs::path(file).filename().string();
    const std::string major = name.substr(library.stem.size());
    const bool known = std::any_of(library.sonames.begin(), library.sonames.end(), [&](const std::string& soname) {
      return name == soname || begins_with(name, soname + ".");
    });
    if (known || major.find_first_not_of("0123456789") != std::string::npos) continue;
    places.push_back({.from = from, .file = file, .why_not = fmt::format("of another major version, {}", major)});
  }
}

void add_chosen(std::vector<LibrarySource>& places, const LibraryNames& library, const std::string& chosen) {
  const std::string from(describe(library.variable).name);
  std::error_code error;
  if (chosen == "off") {
    places.push_back({.from = from, .file = "", .why_not = "it is switched off"});
  } else if (!fs::is_directory(chosen, error)) {
    places.push_back({.from = from, .file = chosen});
  } else {
    const std::size_t before = places.size();
    add_folder(places, library, from, chosen);
    if (places.size() == before) {
      places.push_back({.from = from, .file = chosen, .why_not = "the folder has no " + library.sonames.front()});
    }
  }
}

// The prefixes of python3 on PATH: where the name stands, which for a virtual environment is the environment itself,
// and where the link leads.
void add_python(std::vector<std::string>& prefixes) {
  std::error_code error;
  for (const std::string& folder : split_folders(environment(Variable::path).value_or(""))) {
    const fs::path python = fs::path(folder) / "python3";
    if (!fs::exists(python, error)) continue;
    prefixes.push_back(fs::path(folder).parent_path().string());
    const fs::path real = fs::canonical(python, error);
    if (!error) prefixes.push_back(real.parent_path().parent_path().string());
    return;  // the first is the one that runs
  }
}

void remove_repeats(std::vector<std::string>& folders) {
  std::vector<std::string> kept;
  for (std::string& folder : folders) {
    if (std::find(kept.begin(), kept.end(), folder) == kept.end()) kept.push_back(std::move(folder));
  }
  folders = std::move(kept);
}

}  // namespace

std::vector<std::string> split_folders(std::string_view text) {
  std::vector<std::string> folders;
  while (!text.empty()) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    if (colon > 0) folders.emplace_back(text.substr(0, colon));
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return folders;
}

std::string version_text(int cuda_version) {
  return fmt::format("{}.{}", cuda_version / 1000, cuda_version % 1000 / 10);
}

Surroundings surroundings(const LibraryNames& library) {
  Surroundings around;
  around.chosen = environment(library.variable).value_or("");
  if (library.comes_with_driver) {
    around.folders = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"};
    return around;
  }
  for (const Variable variable : {Variable::virtual_env, Variable::conda_prefix}) {
    if (const auto prefix = environment(variable)) around.environments.push_back(*prefix);
  }
  add_python(around.environments);
  remove_repeats(around.environments);
  if (const auto home = environment(Variable::home)) around.site_folders = package_folders(*home + "/.local");
  for (const std::string prefix : {"/usr/local", "/usr"}) {
    for (const std::string& python : entries(prefix + "/lib", "python3")) {
      around.site_folders.push_back(python + "/dist-packages");
    }
  }
  around.folders = entries("/usr/local", "cuda");
  for (std::string& folder : around.folders) folder += "/lib64";
  return around;
}

std::vector<LibrarySource> library_places(const LibraryNames& library, const Surroundings& around) {
  std::vector<LibrarySource> places;
  if (!around.chosen.empty()) {
    add_chosen(places, library, around.chosen);
    return places;
  }
  for (const std::string& soname : library.sonames) {
    places.push_back({.from = "this process", .file = soname, .already_loaded = true});
  }
  for (const std::string& prefix : around.environments) {
    for (const std::string& packages : package_folders(prefix)) {
      for (const std::string& folder : library_folders(packages)) {
        add_folder(places, library, "Python environment " + prefix, folder);
      }
    }
  }
  for (const std::string& packages : around.site_folders) {
    for (const std::string& folder : library_folders(packages)) {
      add_folder(places, library, "Python packages", folder);
    }
  }
  for (const std::string& soname : library.sonames) {
    places.push_back({.from = "system loader", .file = soname});
  }
  for (const std::string& folder : around.folders) add_folder(places, library, "installed", folder);
  // A file may be reached in several ways, by links too; the first counts.
  std::vector<std::string> seen;
  std::erase_if(places, [&](const LibrarySource& place) {
    std::error_code error;
    const fs::path real = place.file.find('/') == std::string::npos ? fs::path() : fs::canonical(place.file, error);
    if (real.empty()) return false;
    if (std::find(seen.begin(), seen.end(), real.string()) != seen.end()) return true;
    seen.push_back(real.string());
    return false;
  });
  return places;
}

Result<void> bind(const SharedLibrary& library, std::span<const Symbol> symbols) {
  for (const Symbol& symbol : symbols) {
    *symbol.pointer = library.symbol(symbol.name);
    if (*symbol.pointer == nullptr && symbol.required) {
      return Error{ErrorCode::unsupported, fmt::format("it has no function {}", symbol.name)};
    }
  }
  return {};
}

Result<void> suits_driver(int cuda_version) {
  const Result<const DriverApi*> api = driver();
  if (!api.ok() || cuda_version / 1000 <= (*api)->version / 1000) return {};
  return Error{ErrorCode::unsupported, fmt::format("it is for CUDA {}, the driver here for CUDA {}",
                                                   version_text(cuda_version), version_text((*api)->version))};
}

std::vector<LibraryReport> library_reports() {
  return {driver_report(), nvml_report(), nvrtc_report(), cudnn_report(), cublaslt_report()};
}

}  // namespace convoy::cuda
