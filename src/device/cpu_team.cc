#include <omp.h>

#include <algorithm>
#include <cstring>

#include "convoy/thread_team.h"
#include "device/apart.h"

namespace convoy {
namespace {

class OpenMpTeam final : public ThreadTeam {
 public:
  explicit OpenMpTeam(int threads) : threads_(std::max(1, threads)), apart_(threads_) {}

  int size() const override { return threads_; }

  void run(FunctionRef<void(int thread)> body) override {
    if (threads_ == 1) {
      body(0);
      return;
    }
    Apart::Region region(apart_);
#pragma omp parallel num_threads(threads_)
    {
      region.enter(omp_get_thread_num(), omp_get_num_threads());
      // OpenMP may give fewer threads than asked for (OMP_THREAD_LIMIT, nesting): then each takes several parts.
      for (int thread = omp_get_thread_num(); thread < threads_; thread += omp_get_num_threads()) body(thread);
    }
  }

 private:
  int threads_;
  Apart apart_;
};

}  // namespace

DeviceKind ThreadTeam::kind() const { return DeviceKind::cpu; }
Result<void> ThreadTeam::copy_in(void* to, const void* host, std::size_t bytes) { return copy(to, host, bytes); }
Result<void> ThreadTeam::copy_out(void* host, const void* from, std::size_t bytes) { return copy(host, from, bytes); }
Result<void> ThreadTeam::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return {};
}
Result<void> ThreadTeam::fill(void* to, std::uint8_t value, std::size_t bytes) {
  if (bytes > 0) std::memset(to, value, bytes);
  return {};
}
Result<void> ThreadTeam::finish() { return {}; }

std::unique_ptr<ThreadTeam> make_cpu_team(int threads) { return std::make_unique<OpenMpTeam>(threads); }

void parallel_ranges(ThreadTeam& team, std::int64_t count,
                     FunctionRef<void(std::int64_t begin, std::int64_t end, int thread)> body) {
  if (count <= 0) return;
  const std::int64_t parts = team.size();
  const std::int64_t least = count / parts, larger = count % parts;  // the first `larger` ranges have one more
  auto run_part = [&](int thread) {
    const std::int64_t begin = thread * least + std::min<std::int64_t>(thread, larger);
    const std::int64_t end = begin + least + (thread < larger ? 1 : 0);
    if (begin < end) body(begin, end, thread);
  };
  if (count == 1) {
    run_part(0);  // nothing to share: don't wake the team
    return;
  }
  team.run(run_part);
}

}  // namespace convoy
