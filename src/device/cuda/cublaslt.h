// cuBLASLt, loaded at run time. Convoy calls nothing of it but its version: cuDNN does, by its soname, and finds what
// this took. (The functions are declared here, since the library's header comes only in a package of half a gigabyte.)
#pragma once

#include <cstddef>

#include "device/cuda/libraries.h"

namespace convoy::cuda {

struct CublasLtApi {
  std::size_t (*GetVersion)() = nullptr;
  std::size_t (*GetCudartVersion)() = nullptr;
  std::size_t version = 0;  // 130100 is 13.1.0
};

// The table, made on first use. Errors: why there is none.
Result<const CublasLtApi*> cublaslt();
const LibraryReport& cublaslt_report();

const LibraryNames& cublaslt_names();
LoadedApi<CublasLtApi> load_cublaslt(const std::vector<LibraryPlace>& places);

}  // namespace convoy::cuda
