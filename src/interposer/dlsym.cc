// dlsym, for programs that look cuDNN up by name. Everything but that is none of ours, and glibc judges RTLD_NEXT and
// RTLD_DEFAULT by the caller's address: so the lookup is jumped to with the caller's own frame on top. Nothing here
// allocates, takes a lock of ours or needs a constructor to have run: allocators look names up before any has.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <string_view>

#include "base/shared_library.h"
#include "interposer/functions.h"

#ifdef __x86_64__

namespace {

using Lookup = void* (*)(void*, const char*);

// The dlsym that a program would have without this library: another preloaded one's, else the C library's.
Lookup next_lookup() {
  static constinit std::atomic<Lookup> found{nullptr};
  Lookup next = found.load(std::memory_order_relaxed);
  if (next == nullptr) {
    next = reinterpret_cast<Lookup>(convoy::symbol_of(RTLD_NEXT, "dlsym"));
    found.store(next, std::memory_order_relaxed);
  }
  return next;
}

struct Path {
  std::string_view folder, file;
};

Path split(const char* path) {
  const std::string_view whole = path == nullptr ? "" : path;
  const std::size_t slash = whole.rfind('/') + 1;  // 0 where there is none
  return {whole.substr(0, slash), whole.substr(slash)};
}

Path file_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? Path() : split(info.dli_fname);
}

// "libcudnn_graph" of libcudnn_graph.so.9.
std::string_view stem(const Path& path) { return path.file.substr(0, path.file.find(".so")); }

bool is_cudnn(const Path& path) { return path.file.starts_with("libcudnn"); }

// Whether this part of cuDNN is in this process once: a function of ours calls one of them only. (The other parts may
// come from another folder, where LD_LIBRARY_PATH has one.)
bool is_only_cudnn(Path path) {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, std::size_t, void* data) {
               const auto& asked = *static_cast<const Path*>(data);
               const Path other = split(info->dlpi_name);
               return int(stem(other) == stem(asked) && other.folder != asked.folder);
             },
             &path) == 0;
}

void* look_up(void* handle, const char* name) {
  void* const found = next_lookup()(handle, name);
  if (found == nullptr) return nullptr;
  const Path path = file_of(found);
  return is_cudnn(path) && is_only_cudnn(path) ? convoy::interposer::function_in_front(name) : found;
}

}  // namespace

// Where a call of dlsym goes on. cuDNN finds its own parts by name, and so do libraries of Convoy: they get what they
// ask for.
extern "C" [[gnu::visibility("hidden")]] Lookup convoy_route_lookup(void* handle, const char* name,
                                                                    const void* caller) {
  constexpr char kPrefix[] = "cudnn";
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || name == nullptr ||
      std::strncmp(name, kPrefix, sizeof kPrefix - 1) != 0 || convoy::interposer::function_in_front(name) == nullptr) {
    return next_lookup();
  }
  const Path asks = file_of(caller);
  return is_cudnn(asks) || asks.file.starts_with("libconvoy") ? next_lookup() : &look_up;
}

extern "C" [[gnu::naked, gnu::visibility("default")]] void* dlsym(void*, const char*) noexcept {
  asm(R"(
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx
    call convoy_route_lookup
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
  )");
}

#endif
