#include "select/measure/caches.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/host_tensor.h"

namespace convoy::selection {

namespace {

constexpr std::int64_t kLine = 64;

// Writes what is there to every cache line.
void rewrite(std::byte* bytes, std::int64_t begin, std::int64_t end) {
  auto* const all = reinterpret_cast<volatile unsigned char*>(bytes);
  for (std::int64_t i = begin; i < end; i += kLine) all[i] = all[i];
}

}  // namespace

Result<CacheFlusher> CacheFlusher::make(ThreadTeam& team, std::int64_t l2_bytes, std::span<std::byte> produced,
                                        std::int64_t shared_bytes) {
  const std::int64_t of_shared = shared_bytes / team.size() / kLine * kLine;
  const std::int64_t bytes_per_thread = std::max(2 * std::max<std::int64_t>(l2_bytes, 1 << 20), of_shared * 5 / 4);
  const auto bytes = static_cast<std::size_t>(bytes_per_thread * team.size());
  auto memory = allocate_aligned(bytes);
  if (!memory) {
    return Error{
        ErrorCode::out_of_memory,
        fmt::format("{} bytes to sweep the caches with can't be had; with warm caches none are needed", bytes)};
  }
  return CacheFlusher(team, bytes_per_thread, std::move(memory), produced);
}

void CacheFlusher::flush() {
  team_->run([&](int thread) { rewrite(memory_.get(), thread * bytes_per_thread_, (thread + 1) * bytes_per_thread_); });
  parallel_ranges(*team_, static_cast<std::int64_t>(produced_.size()),
                  [&](std::int64_t begin, std::int64_t end, int) { rewrite(produced_.data(), begin, end); });
}

std::array<std::pair<std::int64_t, std::int64_t>, 2> other_part(std::int64_t count, int threads, int thread) {
  const std::int64_t later = count * (threads - 1) / (std::int64_t{threads} * threads);
  const std::int64_t begin = count * thread / threads + later, end = count * (thread + 1) / threads + later;
  return {{{std::min(begin, count), std::min(end, count)},
           {std::max<std::int64_t>(begin - count, 0), std::max<std::int64_t>(end - count, 0)}}};
}

void write_in_other_parts(ThreadTeam& team, std::span<std::byte> bytes) {
  if (team.size() == 1) return;
  const auto size = static_cast<std::int64_t>(bytes.size());
  team.run([&](int thread) {
    for (const auto& [begin, end] : other_part((size + kLine - 1) / kLine, team.size(), thread)) {
      rewrite(bytes.data(), begin * kLine, std::min(end * kLine, size));
    }
  });
}

}  // namespace convoy::selection
