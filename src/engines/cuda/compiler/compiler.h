// Kernels compiled for one problem at run time, by NVRTC. Needs no GPU; without NVRTC it gives the error that says why.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/result.h"

namespace convoy::cuda {

// A kernel of src/engines/cuda/kernels with the constants it is compiled for.
struct KernelRequest {
  std::string source;     // "depthwise_nhwc.cu"
  std::string constants;  // Constants::text()
  int architecture = 90;  // CudaDevice::architecture
  friend bool operator==(const KernelRequest&, const KernelRequest&) = default;
};

// Code that Module::load takes: a cubin, or PTX where NVRTC doesn't know the architecture yet.
using KernelImage = std::vector<char>;

struct Compilation {
  KernelImage image;
  std::string log;  // warnings and, where `verbose`, the assembler's report: registers and spills
};

// Compiles, whatever the cache holds. The error has the source's name and the compiler's log.
Result<Compilation> compile(const KernelRequest& request, bool verbose = false);

// The same for a source that is not among them, and may include them. request.source is its name.
Result<Compilation> compile_text(std::string_view text, const KernelRequest& request, bool verbose = false);

// The images in the requests' order, from the disk cache (code_cache.h) where they are there, and else compiled,
// several at once, and kept.
Result<std::vector<KernelImage>> compile_all(std::span<const KernelRequest> requests);

}  // namespace convoy::cuda
