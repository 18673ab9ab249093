// Kernels compiled for one problem at run time, by NVRTC. Needs no GPU; without NVRTC it gives the error that says why.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/result.h"
#include "device/cuda/program.h"

namespace convoy::cuda {

// A kernel of src/engines/cuda/kernels with the constants it is compiled for.
struct KernelRequest {
  std::string source;     // "depthwise_nhwc.cu"
  std::string constants;  // Constants::text()
  int architecture = 90;  // CudaDevice::architecture
  friend bool operator==(const KernelRequest&, const KernelRequest&) = default;
};

// Compiles, whatever the cache holds. The error has the source's name and the compiler's log.
Result<Compilation> compile(const KernelRequest& request, bool verbose = false);

// The same for a source that is not among them, and may include them. request.source is its name.
Result<Compilation> compile_text(std::string_view text, const KernelRequest& request, bool verbose = false);

// What compile() compiles, or with `text` compile_text(): the request and the texts must outlive what is made of it.
// Error: there is no such source.
Result<ProgramSource> program_source(const KernelRequest& request, std::string_view text = {});

// The images in the requests' order, from the disk cache (device/cuda/code_cache.h) where they are there, and else
// compiled, several at once, and kept.
Result<std::vector<KernelImage>> compile_all(std::span<const KernelRequest> requests);

}  // namespace convoy::cuda
