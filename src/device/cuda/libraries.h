// Where NVIDIA's libraries are looked for. Nothing is linked: each is loaded when it is first asked for and stays for
// the life of the process, and without any of them Convoy runs on the CPU. The order of the search:
//   1. the environment variable (CONVOY_CUDNN and its like): a file or a folder, and then nothing else; "off": nowhere
//   2. what this process has loaded already (PyTorch's, say)
//   3. nvidia-* packages of the active Python environment: VIRTUAL_ENV, CONDA_PREFIX, then those of python3 on PATH
//   4. the system's loader: LD_LIBRARY_PATH, ldconfig
//   5. /usr/local/cuda*/lib64
// The driver and NVML belong to the driver's installation: for them step 3 is left out, and 5 is where drivers put
// them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/shared_library.h"

namespace convoy::cuda {

// A function of a table: where its pointer goes, and the symbol it is filled with.
struct Symbol {
  const char* name;
  void** pointer;
  bool required = true;  // otherwise null in versions that don't have it
};

struct LibraryNames {
  std::string_view name;             // "cuDNN"
  Variable variable;                 // CONVOY_CUDNN
  std::vector<std::string> sonames;  // that Convoy can use, the best first: "libcudnn.so.9"
  std::string stem;                  // "libcudnn.so.": other files that begin so are of another version
  bool comes_with_driver = false;
};

// What the search reads of its surroundings.
struct Surroundings {
  std::string chosen;                     // the variable's value, or empty
  std::vector<std::string> environments;  // prefixes of Python environments, the active one first
  std::vector<std::string> site_folders;  // Python's package folders outside of those
  std::vector<std::string> folders;       // of step 5
};
Surroundings surroundings(const LibraryNames& library);

// The places in the order of the search.
std::vector<LibrarySource> library_places(const LibraryNames& library, const Surroundings& around);

// The folders of a list like PATH, without empty entries.
std::vector<std::string> split_folders(std::string_view text);

// Fills a table. The error names the first required symbol that the library lacks.
Result<void> bind(const SharedLibrary& library, std::span<const Symbol> symbols);

// "12.8" of 12080, as the driver and the CUDA libraries count.
std::string version_text(int cuda_version);

// Why a library built for CUDA `cuda_version` (12080) can't serve the driver of this machine: its code is for newer
// ones. Nothing where it can, or where there is no driver to ask.
Result<void> suits_driver(int cuda_version);

template <class Api>
struct LoadedApi {
  Api api{};
  LibraryReport report;
};

// All five, loaded if they weren't: driver, NVML, NVRTC, cuDNN, cuBLASLt.
std::vector<LibraryReport> library_reports();

}  // namespace convoy::cuda

// Rows of a table of functions: X(name) stands for prefix##name of the library's own header.
#define CONVOY_SYMBOL_TEXT_(symbol) #symbol
#define CONVOY_SYMBOL_TEXT(symbol) CONVOY_SYMBOL_TEXT_(symbol)
