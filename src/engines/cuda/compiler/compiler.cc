#include "engines/cuda/compiler/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "device/cuda/nvrtc.h"
#include "engines/cuda/compiler/code_cache.h"
#include "engines/cuda/compiler/kernel_sources.h"

namespace convoy::cuda {
namespace {

// Ends a program however its compilation went.
struct Program {
  const NvrtcApi* api;
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle != nullptr) api->DestroyProgram(&handle);
  }
};

// What the compiler is asked for: machine code where it knows the architecture, else the newest PTX that it can make.
struct Target {
  std::string option;
  bool machine_code = true;
};

Result<Target> target_for(const NvrtcApi& api, int architecture) {
  int count = 0;
  if (api.GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) {
    return Error{ErrorCode::unsupported, "NVRTC doesn't say which architectures it supports"};
  }
  std::vector<int> known(count);
  api.GetSupportedArchs(known.data());
  if (std::find(known.begin(), known.end(), architecture) != known.end()) {
    // The instructions that belong to one architecture alone (Hopper's wgmma) need the suffix.
    return Target{fmt::format("--gpu-architecture=sm_{}{}", architecture, architecture >= 90 ? "a" : "")};
  }
  std::erase_if(known, [&](int each) { return each > architecture; });
  if (known.empty()) {
    return Error{
        ErrorCode::unsupported,
        fmt::format("NVRTC {} can't compile for sm_{}: the architecture is too old for it", api.text, architecture)};
  }
  return Target{fmt::format("--gpu-architecture=compute_{}", *std::max_element(known.begin(), known.end())), false};
}

Error failed(const NvrtcApi& api, nvrtcResult status, const KernelRequest& request, const std::string& log) {
  return {ErrorCode::internal, fmt::format("NVRTC {}: {} for sm_{}: {}\n{}", api.text, request.source,
                                           request.architecture, api.GetErrorString(status), log)};
}

std::string options_text(const NvrtcApi& api, const Target& target) {
  return fmt::format("{} --std=c++17 nvrtc={}", target.option, api.version);
}

}  // namespace

Result<Compilation> compile(const KernelRequest& request, bool verbose) {
  for (const KernelSource& source : kernel_sources()) {
    if (request.source == source.name) return compile_text(source.text, request, verbose);
  }
  return Error{ErrorCode::not_found, "there is no kernel source '" + request.source + "'"};
}

Result<Compilation> compile_text(std::string_view text, const KernelRequest& request, bool verbose) {
  CONVOY_TRY(const NvrtcApi* api, nvrtc());
  CONVOY_TRY(const Target target, target_for(*api, request.architecture));
  std::vector<const char*> texts{request.constants.c_str()};
  std::vector<const char*> names{"problem.h"};
  for (const KernelSource& source : kernel_sources()) {
    texts.push_back(source.text);
    names.push_back(source.name);
  }
  Program program{api};
  const std::string main(text);
  nvrtcResult status = api->CreateProgram(&program.handle, main.c_str(), request.source.c_str(),
                                          static_cast<int>(texts.size()), texts.data(), names.data());
  if (status != NVRTC_SUCCESS) return failed(*api, status, request, "");
  std::vector<const char*> options{target.option.c_str(), "--std=c++17", "--extra-device-vectorization"};
  if (verbose) options.push_back("--ptxas-options=-v");
  status = api->CompileProgram(program.handle, static_cast<int>(options.size()), options.data());

  Compilation result;
  std::size_t size = 0;
  if (api->GetProgramLogSize(program.handle, &size) == NVRTC_SUCCESS && size > 1) {
    result.log.resize(size);
    api->GetProgramLog(program.handle, result.log.data());
    result.log.resize(size - 1);
  }
  if (status != NVRTC_SUCCESS) return failed(*api, status, request, result.log);
  status = target.machine_code ? api->GetCUBINSize(program.handle, &size) : api->GetPTXSize(program.handle, &size);
  if (status != NVRTC_SUCCESS || size == 0) return failed(*api, status, request, "no code came of it");
  result.image.resize(size);
  status = target.machine_code ? api->GetCUBIN(program.handle, result.image.data())
                               : api->GetPTX(program.handle, result.image.data());
  if (status != NVRTC_SUCCESS) return failed(*api, status, request, "its code can't be had");
  return result;
}

Result<std::vector<KernelImage>> compile_all(std::span<const KernelRequest> requests) {
  CONVOY_TRY(const NvrtcApi* api, nvrtc());
  std::vector<std::optional<Result<KernelImage>>> results(requests.size());
  const auto one = [&](std::size_t i) -> Result<KernelImage> {
    CONVOY_TRY(const Target target, target_for(*api, requests[i].architecture));
    const CodeKey key = code_key(requests[i], options_text(*api, target));
    const CodeCache& cache = code_cache();
    if (std::optional<KernelImage> found = cache.find(key)) return std::move(*found);
    CONVOY_TRY(Compilation compiled, compile(requests[i]));
    cache.keep(key, compiled.image);
    return std::move(compiled.image);
  };
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++) results[i] = one(i);
  };
  const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min(requests.size(), most); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();

  std::vector<KernelImage> images;
  for (auto& result : results) {
    if (!result->ok()) return result->error();
    images.push_back(std::move(**result));
  }
  return images;
}

}  // namespace convoy::cuda
