#include "engines/cuda/compiler/compiler.h"

#include <optional>

#include "base/side_by_side.h"
#include "engines/cuda/compiler/kernel_sources.h"

namespace convoy::cuda {
namespace {

ProgramSource source_with(std::string_view text, const KernelRequest& request) {
  ProgramSource source{request.source, text, {{"problem.h", request.constants}}, request.architecture};
  for (const KernelSource& each : kernel_sources()) source.files.push_back({each.name, each.text});
  return source;
}

}  // namespace

Result<ProgramSource> program_source(const KernelRequest& request, std::string_view text) {
  if (!text.empty()) return source_with(text, request);
  for (const KernelSource& source : kernel_sources()) {
    if (request.source == source.name) return source_with(source.text, request);
  }
  return Error{ErrorCode::not_found, "there is no kernel source '" + request.source + "'"};
}

Result<Compilation> compile(const KernelRequest& request, bool verbose) {
  CONVOY_TRY(const ProgramSource source, program_source(request));
  return compile_program(source, verbose);
}

Result<Compilation> compile_text(std::string_view text, const KernelRequest& request, bool verbose) {
  return compile_program(source_with(text, request), verbose);
}

Result<std::vector<KernelImage>> compile_all(std::span<const KernelRequest> requests) {
  std::vector<std::optional<Result<KernelImage>>> results(requests.size());
  const auto one = [&](std::size_t i) -> Result<KernelImage> {
    CONVOY_TRY(const ProgramSource source, program_source(requests[i]));
    return program_image(source);
  };
  side_by_side(requests.size(), [&](std::size_t i) { results[i] = one(i); });
  std::vector<KernelImage> images;
  for (auto& result : results) {
    if (!result->ok()) return result->error();
    images.push_back(std::move(**result));
  }
  return images;
}

}  // namespace convoy::cuda
