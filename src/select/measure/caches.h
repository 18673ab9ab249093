// The state of the caches before a sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "convoy/result.h"
#include "convoy/thread_team.h"

namespace convoy::selection {

// Evicts each core's private caches: every thread of the team reads and writes twice its L2. What a plan keeps (packed
// weights) so comes from the shared cache or memory, as it does inside a network, where other layers ran in between.
// Then writes `produced`, each thread its part, as the step before has just done there.
class CacheFlusher {
 public:
  // `shared_bytes`: of a shared cache that is to be evicted, too; 0: none. Error: out_of_memory. Without the sweep's
  // memory the caches would stay warm.
  static Result<CacheFlusher> make(ThreadTeam& team, std::int64_t l2_bytes, std::span<std::byte> produced = {},
                                   std::int64_t shared_bytes = 0);
  void flush();

 private:
  CacheFlusher(ThreadTeam& team, std::int64_t bytes_per_thread, std::shared_ptr<std::byte> memory,
               std::span<std::byte> produced)
      : team_(&team), bytes_per_thread_(bytes_per_thread), memory_(std::move(memory)), produced_(produced) {}

  ThreadTeam* team_;
  std::int64_t bytes_per_thread_;
  std::shared_ptr<std::byte> memory_;
  std::span<std::byte> produced_;
};

}  // namespace convoy::selection
