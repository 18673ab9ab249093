#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/environment.h"
#include "base/log.h"
#include "device/onednn_api.h"

#undef dnnl_version  // here the linked library's

namespace convoy::onednn {
namespace {

constexpr const char* kNames[] = {CONVOY_ONEDNN_NAMES};
constexpr int kMajor = 3, kOldestMinor = 2;

std::string version_text(const dnnl_version_t& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

// A plan's threads are OpenMP's, of the implementation that this build was made with.
Result<std::string> accept(const SharedLibrary& library) {
  for (const char* name : kNames) {
    if (library.symbol(name) == nullptr) return Error{ErrorCode::unsupported, fmt::format("it has no {}", name)};
  }
  const auto get_version = reinterpret_cast<const dnnl_version_t* (*)()>(library.symbol("dnnl_version"));
  const dnnl_version_t& version = *get_version();
  if (version.major != kMajor || version.minor < kOldestMinor) {
    return Error{ErrorCode::unsupported, fmt::format("it is oneDNN {}; Convoy needs {}.{} or a later {}.x",
                                                     version_text(version), kMajor, kOldestMinor, kMajor)};
  }
  if (version.cpu_runtime != DNNL_RUNTIME_OMP) {
    return Error{ErrorCode::unsupported, "it was not built for OpenMP (ONEDNN_CPU_RUNTIME=OMP)"};
  }
  if (library.symbol("__kmpc_fork_call") != nullptr) {
    return Error{ErrorCode::unsupported, "it was built for another OpenMP than GCC's, libgomp"};
  }
  return version_text(version);
}

std::optional<SharedLibrary>& taken() {
  static auto& library = *new std::optional<SharedLibrary>;  // never destroyed: used while the process ends
  return library;
}

LibraryReport find() {
  LibraryReport report{.name = "oneDNN", .file = "linked", .from = {}, .version = {}, .others = {}};
  if (auto chosen = environment(Variable::onednn)) {
    std::error_code error;
    if (std::filesystem::is_directory(*chosen, error)) *chosen += "/libdnnl.so.3";
    const auto refuse = [&](const std::string& why) {
      report.others.push_back({"CONVOY_ONEDNN", *chosen, why});
      log(LogLevel::warning, "library",
          {{"name", "oneDNN"}, {"from", "CONVOY_ONEDNN"}, {"file", *chosen}, {"error", why}});
    };
    // Its calls to itself must not reach the linked one.
    auto opened = SharedLibrary::open(*chosen, SymbolScope::own_first);
    const auto version = opened.ok() ? accept(*opened) : Result<std::string>(opened.error());
    if (version.ok()) {
      opened->keep();
      report.file = opened->file();
      report.from = "CONVOY_ONEDNN";
      report.version = *version;
      taken() = std::move(*opened);
      return report;
    }
    refuse(version.error().message);
  }
  report.version = version_text(*::dnnl_version());
  return report;
}

}  // namespace

const LibraryReport& library() {
  static const auto& report = *new LibraryReport(find());
  return report;
}

bool is_linked_library() { return library().from.empty(); }

void* function_of_library(const char* name) { return is_linked_library() ? nullptr : taken()->symbol(name); }

}  // namespace convoy::onednn
