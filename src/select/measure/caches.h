// The state of the caches before a sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

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

// Of `count` things that threads share in order, those of a thread whose part begins all but a thread's share of a part
// later: of two threads half a part. Begin and end, twice, since the last part goes on at the beginning.
std::array<std::pair<std::int64_t, std::int64_t>, 2> other_part(std::int64_t count, int threads, int thread);

// Writes what is there, each thread another part of the lines than parallel_ranges gives it, so that half of them (with
// two threads, more with more) lie in another core's cache: as the steps before and after leave what a step reads and
// writes, where each splits its work in its own way. With one thread nothing happens.
void write_in_other_parts(ThreadTeam& team, std::span<std::byte> bytes);

}  // namespace convoy::selection
