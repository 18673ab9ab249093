#include "base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <filesystem>
#include <utility>

namespace convoy {
namespace {

using Lookup = void* (*)(void*, const char*);

constinit std::atomic<Lookup> c_library_lookup{nullptr};

}  // namespace

void* symbol_of(void* handle, const char* name) {
  Lookup lookup = c_library_lookup.load(std::memory_order_relaxed);
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {  // (until 2.34 it was in libdl)
    if (lookup == nullptr) lookup = reinterpret_cast<Lookup>(::dlvsym(RTLD_NEXT, "dlsym", version));
  }
  if (lookup == nullptr) lookup = &::dlsym;  // a C library that counts otherwise
  c_library_lookup.store(lookup, std::memory_order_relaxed);
  return lookup(handle, name);
}

Result<SharedLibrary> SharedLibrary::open(const std::string& file_or_name, SymbolScope scope) {
  ::dlerror();
  const int flags = scope == SymbolScope::own_first ? RTLD_DEEPBIND : 0;
  void* handle = ::dlopen(file_or_name.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error{ErrorCode::not_found, why != nullptr ? why : file_or_name + ": can't be loaded"};
  }
  return SharedLibrary(handle);
}

std::optional<SharedLibrary> SharedLibrary::already_loaded(const std::string& name) {
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return std::nullopt;
  return SharedLibrary(handle);
}

SharedLibrary::SharedLibrary(SharedLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), kept_(other.kept_) {}

SharedLibrary& SharedLibrary::operator=(SharedLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(kept_, other.kept_);
  return *this;
}

SharedLibrary::~SharedLibrary() {
  if (handle_ != nullptr && !kept_) ::dlclose(handle_);
}

void* SharedLibrary::symbol(const char* name) const { return symbol_of(handle_, name); }

std::string SharedLibrary::file() const {
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return {};
  return map->l_name;
}

Error LibraryReport::missing() const {
  std::string message = "no " + name + ": ";
  for (std::size_t i = 0; i < others.size(); ++i) {
    const LibraryAttempt& attempt = others[i];
    // The loader's own words mostly begin with the file.
    const bool named = attempt.file.empty() || attempt.why_not.find(attempt.file) != std::string::npos;
    message += (i > 0 ? "; " : "") + attempt.from + ": " + (named ? "" : attempt.file + ": ") + attempt.why_not;
  }
  if (others.empty()) message += "there is nowhere to look for it";
  return {ErrorCode::not_found, std::move(message)};
}

LibraryReport search_library(std::string name, const std::vector<LibrarySource>& places,
                             const std::function<Result<std::string>(const SharedLibrary&)>& accept) {
  LibraryReport report;
  report.name = std::move(name);
  for (const LibrarySource& place : places) {
    const auto pass_over = [&](std::string why) { report.others.push_back({place.from, place.file, std::move(why)}); };
    if (!place.why_not.empty()) {
      pass_over(place.why_not);
      continue;
    }
    if (report.found()) {
      std::error_code error;
      const bool same = std::filesystem::equivalent(place.file, report.file, error);
      if (!place.already_loaded && !same) pass_over("not tried: one was taken before it");
      continue;
    }
    std::optional<SharedLibrary> library;
    if (place.already_loaded) {
      library = SharedLibrary::already_loaded(place.file);
      if (!library) continue;  // the usual case, not worth a line
    } else {
      Result<SharedLibrary> opened = SharedLibrary::open(place.file);
      if (!opened.ok()) {
        pass_over(opened.error().message);
        continue;
      }
      library = std::move(*opened);
    }
    Result<std::string> version = accept(*library);
    if (!version.ok()) {
      pass_over(version.error().message);
      continue;
    }
    library->keep();
    const std::string file = library->file();
    report.file = file.empty() ? place.file : file;
    report.from = place.from;
    report.version = std::move(*version);
  }
  return report;
}

}  // namespace convoy
