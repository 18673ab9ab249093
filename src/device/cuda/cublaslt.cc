#include "device/cuda/cublaslt.h"

#include <fmt/format.h>

namespace convoy::cuda {

const LibraryNames& cublaslt_names() {
  static const auto* kept = new LibraryNames{.name = "cuBLASLt",
                                             .variable = Variable::cublaslt,
                                             .sonames = {"libcublasLt.so.13", "libcublasLt.so.12"},
                                             .stem = "libcublasLt.so."};
  return *kept;
}

LoadedApi<CublasLtApi> load_cublaslt(const std::vector<LibrarySource>& places) {
  LoadedApi<CublasLtApi> loaded;
  loaded.report = search_library(
      std::string(cublaslt_names().name), places, [&](const SharedLibrary& library) -> Result<std::string> {
        CublasLtApi& api = loaded.api = {};
#define CONVOY_ROW(name) {"cublasLt" #name, reinterpret_cast<void**>(&api.name), false},
        const Symbol symbols[] = {{"cublasLtGetVersion", reinterpret_cast<void**>(&api.GetVersion)},
                                  {"cublasLtGetCudartVersion", reinterpret_cast<void**>(&api.GetCudartVersion)},
                                  CONVOY_ROW(Create) CONVOY_ROW(MatmulDescCreate) CONVOY_ROW(MatmulDescDestroy)
                                      CONVOY_ROW(MatmulDescSetAttribute) CONVOY_ROW(MatrixLayoutCreate)
                                          CONVOY_ROW(MatrixLayoutDestroy) CONVOY_ROW(MatrixLayoutSetAttribute)
                                              CONVOY_ROW(MatmulPreferenceCreate) CONVOY_ROW(MatmulPreferenceDestroy)
                                                  CONVOY_ROW(MatmulPreferenceSetAttribute)
                                                      CONVOY_ROW(MatmulAlgoGetHeuristic) CONVOY_ROW(Matmul)};
#undef CONVOY_ROW
        CONVOY_CHECK(bind(library, symbols));
        api.version = api.GetVersion();
        CONVOY_CHECK(suits_driver(static_cast<int>(api.GetCudartVersion())));
        return fmt::format("{}.{}.{}", api.version / 10000, api.version / 100 % 100, api.version % 100);
      });
  return loaded;
}

namespace {

const LoadedApi<CublasLtApi>& loaded_cublaslt() {
  static const auto* kept =
      new LoadedApi<CublasLtApi>(load_cublaslt(library_places(cublaslt_names(), surroundings(cublaslt_names()))));
  return *kept;
}

}  // namespace

Result<const CublasLtApi*> cublaslt() {
  if (!loaded_cublaslt().report.found()) return loaded_cublaslt().report.missing();
  return &loaded_cublaslt().api;
}

const LibraryReport& cublaslt_report() { return loaded_cublaslt().report; }

}  // namespace convoy::cuda
