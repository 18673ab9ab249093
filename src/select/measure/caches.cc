#include "select/measure/caches.h"

#include <algorithm>

#include "convoy/host_tensor.h"

namespace convoy::selection {

CacheFlusher::CacheFlusher(ThreadTeam& team, std::int64_t l2_bytes)
    : team_(team),
      bytes_per_thread_(2 * std::max<std::int64_t>(l2_bytes, 1 << 20)),
      memory_(allocate_aligned(static_cast<std::size_t>(bytes_per_thread_ * team.size()))) {}

void CacheFlusher::flush() {
  if (!memory_) return;
  constexpr std::int64_t line = 64;
  team_.run([&](int thread) {
    auto* own = reinterpret_cast<volatile unsigned char*>(memory_.get()) + thread * bytes_per_thread_;
    for (std::int64_t i = 0; i < bytes_per_thread_; i += line) own[i] = static_cast<unsigned char>(own[i] + 1);
  });
}

}  // namespace convoy::selection
