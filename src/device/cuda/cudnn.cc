#include "device/cuda/cudnn.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "device/cuda/nvrtc.h"

namespace convoy::cuda {
namespace {

namespace fs = std::filesystem;

// cuDNN opens its other libraries by name, and LD_LIBRARY_PATH comes before its own folder. Where that variable would
// bring those of another cuDNN, they are loaded first, from the chosen file's folder, under the names that it asks for.
Result<void> pin_parts(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  const std::string suffix = fmt::format(".so.{}", kCudnnMajor);
  std::error_code error;
  bool shadowed = false;
  for (const std::string& other : split_folders(environment(Variable::ld_library_path).value_or(""))) {
    if (fs::equivalent(other, folder, error)) break;
    if (fs::exists(fs::path(other) / ("libcudnn_graph" + suffix), error)) shadowed = true;
  }
  if (!shadowed) return {};
  // In the order in which they need each other.
  for (const char* part : {"graph", "ops", "engines_runtime_compiled", "engines_precompiled", "heuristic", "cnn"}) {
    const fs::path path = folder / (std::string("libcudnn_") + part + suffix);
    if (!fs::exists(path, error)) continue;
    CONVOY_TRY(SharedLibrary library, SharedLibrary::open(path.string()));
    library.keep();
  }
  return {};
}

}  // namespace

const LibraryNames& cudnn_names() {
  static const auto* kept = new LibraryNames{
      .name = "cuDNN", .variable = Variable::cudnn, .sonames = {"libcudnn.so.9"}, .stem = "libcudnn.so."};
  return *kept;
}

LoadedApi<CudnnApi> load_cudnn(const std::vector<LibrarySource>& places) {
  LoadedApi<CudnnApi> loaded;
  loaded.report =
      search_library(std::string(cudnn_names().name), places, [&](const SharedLibrary& library) -> Result<std::string> {
        CudnnApi& api = loaded.api = {};
        const Symbol first[] = {{"cudnnGetVersion", reinterpret_cast<void**>(&api.GetVersion)}};
        CONVOY_CHECK(bind(library, first));
        CONVOY_CHECK(pin_parts(library.file()));
        api.version = static_cast<int>(api.GetVersion());
        // Up to 8 a major version was a thousand.
        const int major = api.version >= 90000 ? api.version / 10000 : api.version / 1000;
        if (major != kCudnnMajor) {
          return Error{ErrorCode::unsupported, fmt::format("it is cuDNN {} (version {}); Convoy needs cuDNN {}", major,
                                                           api.version, kCudnnMajor)};
        }
        const Symbol symbols[] = {
#define CONVOY_ROW(name) {CONVOY_SYMBOL_TEXT(cudnn##name), reinterpret_cast<void**>(&api.name)},
#define CONVOY_NEWER_ROW(name) {CONVOY_SYMBOL_TEXT(cudnn##name), reinterpret_cast<void**>(&api.name), false},
            CONVOY_CUDNN_FUNCTIONS(CONVOY_ROW) CONVOY_CUDNN_NEWER_FUNCTIONS(CONVOY_NEWER_ROW)
#undef CONVOY_ROW
#undef CONVOY_NEWER_ROW
        };
        CONVOY_CHECK(bind(library, symbols));
        api.text = fmt::format("{}.{}.{}", major, api.version / 100 % 100, api.version % 100);
        api.cuda = static_cast<int>(api.GetCudartVersion());
        CONVOY_CHECK(suits_driver(api.cuda));
        return api.text;
      });
  return loaded;
}

namespace {

LibrarySource& preferred() {
  static auto* const place = new LibrarySource;
  return *place;
}

std::vector<LibrarySource> places() {
  const Surroundings around = surroundings(cudnn_names());
  std::vector<LibrarySource> all = library_places(cudnn_names(), around);
  if (around.chosen.empty() && !preferred().file.empty()) all.insert(all.begin(), preferred());
  return all;
}

const LoadedApi<CudnnApi>& loaded_cudnn() {
  // cuDNN compiles with the NVRTC that is in the process already; nvrtc() also brings what that needs. Without one,
  // cuDNN looks for its own.
  [[maybe_unused]] const bool compiler = nvrtc().ok();
  static const auto* kept = new LoadedApi<CudnnApi>(load_cudnn(places()));
  return *kept;
}

}  // namespace

void prefer_cudnn(std::string from, std::string file) {
  preferred() = {.from = std::move(from), .file = std::move(file)};
}

Result<const CudnnApi*> cudnn() {
  if (!loaded_cudnn().report.found()) return loaded_cudnn().report.missing();
  return &loaded_cudnn().api;
}

const LibraryReport& cudnn_report() { return loaded_cudnn().report; }

}  // namespace convoy::cuda
