#include "ort/memory.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "convoy.h"

namespace convoy::ort {
namespace {

struct Pages {
  std::uintptr_t begin, end;
};

// The code of libconvoy.so and of the oneDNN that it is linked to.
std::vector<Pages> code_pages() {
  const auto convoy = reinterpret_cast<std::uintptr_t>(&convoy_version_text);
  std::vector<std::uintptr_t> inside = {convoy};
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(convoy), &library) != 0) {
    if (void* const handle = dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      inside.push_back(reinterpret_cast<std::uintptr_t>(dlsym(handle, "dnnl_version")));
      dlclose(handle);
    }
  }
  struct Search {
    const std::vector<std::uintptr_t>& inside;
    std::vector<Pages> found;
  } search{inside, {}};
  const auto look = [](dl_phdr_info* module, std::size_t, void* given) {
    auto& [wanted, found] = *static_cast<Search*>(given);
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    for (int i = 0; i < module->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = module->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & (PF_X | PF_W)) != PF_X) continue;
      const std::uintptr_t begin = module->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
      const bool is_wanted = std::ranges::any_of(wanted, [&](auto at) { return at >= begin && at < end; });
      if (is_wanted) found.push_back({begin / page * page, (end + page - 1) / page * page});
    }
    return 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

}  // namespace

void give_back_memory() {
  static const std::vector<Pages> code = code_pages();
  malloc_trim(0);
  for (const auto& [begin, end] : code) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace convoy::ort
