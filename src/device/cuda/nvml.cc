#include "device/cuda/nvml.h"

#include <fmt/format.h>

namespace convoy::cuda {

const LibraryNames& nvml_names() {
  static const auto* kept = new LibraryNames{.name = "NVML",
                                             .variable = Variable::nvml,
                                             .sonames = {"libnvidia-ml.so.1"},
                                             .stem = "",
                                             .comes_with_driver = true};
  return *kept;
}

LoadedApi<NvmlApi> load_nvml(const std::vector<LibrarySource>& places) {
  LoadedApi<NvmlApi> loaded;
  loaded.report =
      search_library(std::string(nvml_names().name), places, [&](const SharedLibrary& library) -> Result<std::string> {
        NvmlApi& api = loaded.api = {};
        const Symbol symbols[] = {
#define CONVOY_ROW(name) {CONVOY_SYMBOL_TEXT(nvml##name), reinterpret_cast<void**>(&api.name)},
#define CONVOY_NEWER_ROW(name) {CONVOY_SYMBOL_TEXT(nvml##name), reinterpret_cast<void**>(&api.name), false},
            CONVOY_NVML_FUNCTIONS(CONVOY_ROW) CONVOY_NVML_NEWER_FUNCTIONS(CONVOY_NEWER_ROW)
#undef CONVOY_ROW
#undef CONVOY_NEWER_ROW
        };
        CONVOY_CHECK(bind(library, symbols));
        if (const nvmlReturn_t status = api.Init(); status != NVML_SUCCESS) {
          return Error{ErrorCode::device_failed, fmt::format("nvmlInit: {}", api.ErrorString(status))};
        }
        char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = {};
        if (api.SystemGetDriverVersion(text, sizeof text) == NVML_SUCCESS) api.driver = text;
        return "driver " + (api.driver.empty() ? "of unknown version" : api.driver);
      });
  return loaded;
}

namespace {

const LoadedApi<NvmlApi>& loaded_nvml() {
  static const auto* kept = new LoadedApi<NvmlApi>(load_nvml(library_places(nvml_names(), surroundings(nvml_names()))));
  return *kept;
}

}  // namespace

Result<const NvmlApi*> nvml() {
  if (!loaded_nvml().report.found()) return loaded_nvml().report.missing();
  return &loaded_nvml().api;
}

const LibraryReport& nvml_report() { return loaded_nvml().report; }

}  // namespace convoy::cuda
