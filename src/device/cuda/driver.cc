#include "device/cuda/driver.h"

#include <fmt/format.h>

namespace convoy::cuda {

const LibraryNames& driver_names() {
  static const auto* kept = new LibraryNames{.name = "CUDA driver",
                                             .variable = Variable::cuda_driver,
                                             .sonames = {"libcuda.so.1"},
                                             .stem = "",
                                             .comes_with_driver = true};
  return *kept;
}

LoadedApi<DriverApi> load_driver(const std::vector<LibrarySource>& places) {
  LoadedApi<DriverApi> loaded;
  loaded.report = search_library(
      std::string(driver_names().name), places, [&](const SharedLibrary& library) -> Result<std::string> {
        DriverApi& api = loaded.api = {};
        // The version first: an old driver also lacks symbols, but its age is the reason worth saying.
        const Symbol first[] = {{"cuDriverGetVersion", reinterpret_cast<void**>(&api.DriverGetVersion)}};
        CONVOY_CHECK(bind(library, first));
        if (const CUresult status = api.DriverGetVersion(&api.version); status != CUDA_SUCCESS) {
          if (status == CUDA_ERROR_STUB_LIBRARY) {
            return Error{ErrorCode::unsupported, "it is the toolkit's stub for linking, not a driver"};
          }
          return Error{ErrorCode::device_failed, fmt::format("cuDriverGetVersion returned {}", int{status})};
        }
        if (api.version < kOldestDriver) {
          return Error{ErrorCode::unsupported,
                       fmt::format("it is for CUDA {}; Convoy needs a driver for CUDA {} or newer",
                                   version_text(api.version), version_text(kOldestDriver))};
        }
        const Symbol symbols[] = {
#define CONVOY_ROW(name) {CONVOY_SYMBOL_TEXT(cu##name), reinterpret_cast<void**>(&api.name)},
#define CONVOY_NEWER_ROW(name) {CONVOY_SYMBOL_TEXT(cu##name), reinterpret_cast<void**>(&api.name), false},
            CONVOY_CUDA_DRIVER_FUNCTIONS(CONVOY_ROW) CONVOY_CUDA_DRIVER_NEWER_FUNCTIONS(CONVOY_NEWER_ROW)
#undef CONVOY_ROW
#undef CONVOY_NEWER_ROW
                {"cuEventElapsedTime", reinterpret_cast<void**>(&api.EventElapsedTime)}};
        CONVOY_CHECK(bind(library, symbols));
        return "CUDA " + version_text(api.version);
      });
  return loaded;
}

namespace {

const LoadedApi<DriverApi>& loaded_driver() {
  static const auto* kept =
      new LoadedApi<DriverApi>(load_driver(library_places(driver_names(), surroundings(driver_names()))));
  return *kept;
}

}  // namespace

Result<const DriverApi*> driver() {
  if (!loaded_driver().report.found()) return loaded_driver().report.missing();
  return &loaded_driver().api;
}

const LibraryReport& driver_report() { return loaded_driver().report; }

}  // namespace convoy::cuda
