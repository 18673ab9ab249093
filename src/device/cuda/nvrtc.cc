#include "device/cuda/nvrtc.h"

#include <fmt/format.h>

#include <filesystem>

namespace convoy::cuda {
namespace {

// NVRTC opens libnvrtc-builtins by name when it compiles, and has no search path of its own: in a Python package the
// loader would not find it. So it is loaded first, from NVRTC's folder; where it isn't there, the loader may know
// better.
void load_builtins(const std::string& file, int major, int minor) {
  const auto path = std::filesystem::path(file).parent_path() / fmt::format("libnvrtc-builtins.so.{}.{}", major, minor);
  if (Result<SharedLibrary> library = SharedLibrary::open(path.string()); library.ok()) library->keep();
}

}  // namespace

const LibraryNames& nvrtc_names() {
  static const auto* kept = new LibraryNames{.name = "NVRTC",
                                             .variable = Variable::nvrtc,
                                             .sonames = {"libnvrtc.so.13", "libnvrtc.so.12"},
                                             .stem = "libnvrtc.so."};
  return *kept;
}

LoadedApi<NvrtcApi> load_nvrtc(const std::vector<LibrarySource>& places) {
  LoadedApi<NvrtcApi> loaded;
  loaded.report =
      search_library(std::string(nvrtc_names().name), places, [&](const SharedLibrary& library) -> Result<std::string> {
        NvrtcApi& api = loaded.api = {};
        const Symbol symbols[] = {
#define CONVOY_ROW(name) {CONVOY_SYMBOL_TEXT(nvrtc##name), reinterpret_cast<void**>(&api.name)},
            CONVOY_NVRTC_FUNCTIONS(CONVOY_ROW)
#undef CONVOY_ROW
#define CONVOY_ROW(name) {CONVOY_SYMBOL_TEXT(nvrtc##name), reinterpret_cast<void**>(&api.name), false},
                CONVOY_NVRTC_OPTIONAL_FUNCTIONS(CONVOY_ROW)
#undef CONVOY_ROW
        };
        CONVOY_CHECK(bind(library, symbols));
        int major = 0, minor = 0;
        if (api.Version(&major, &minor) != NVRTC_SUCCESS) {
          return Error{ErrorCode::unsupported, "it doesn't say its version"};
        }
        api.version = 1000 * major + 10 * minor;
        api.text = fmt::format("{}.{}", major, minor);
        if (major < 12)
          return Error{ErrorCode::unsupported, fmt::format("it is {}; Convoy needs 12 or newer", api.text)};
        CONVOY_CHECK(suits_driver(api.version));
        load_builtins(library.file(), major, minor);
        return api.text;
      });
  return loaded;
}

namespace {

const LoadedApi<NvrtcApi>& loaded_nvrtc() {
  static const auto* kept =
      new LoadedApi<NvrtcApi>(load_nvrtc(library_places(nvrtc_names(), surroundings(nvrtc_names()))));
  return *kept;
}

}  // namespace

Result<const NvrtcApi*> nvrtc() {
  if (!loaded_nvrtc().report.found()) return loaded_nvrtc().report.missing();
  return &loaded_nvrtc().api;
}

const LibraryReport& nvrtc_report() { return loaded_nvrtc().report; }

}  // namespace convoy::cuda
