// Conversions of activations as a share of a copy's bandwidth: of a memcpy of as many bytes by the same threads from
// memory of its own to memory of its own. Samples in turns, caches as the runs before leave them. Time is the processor
// time of the thread that used most of it, so that programs that run beside this one don't count, nor does the start of
// the threads, which is the same for both. A JSON line each. usage: convert_bench [SECONDS [layouts|types]]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/convert.h"
#include "convoy/host_tensor.h"

namespace convoy {
namespace {

using Clock = std::chrono::steady_clock;

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A team that adds up what its slowest thread uses of the processor, run by run.
class TimedTeam final : public ThreadTeam {
 public:
  explicit TimedTeam(int threads) : team_(make_cpu_team(threads)), used_(static_cast<std::size_t>(threads) * kApart) {}
  int size() const override { return team_->size(); }
  void run(FunctionRef<void(int thread)> body) override {
    team_->run([&](int thread) {
      const double start = thread_seconds();
      body(thread);
      used_[static_cast<std::size_t>(thread) * kApart] = thread_seconds() - start;
    });
    double most = 0;
    for (std::size_t i = 0; i < used_.size(); i += kApart) most = std::max(most, used_[i]);
    seconds_ += most;
  }
  // Seconds since the last call. Of one thread all of it, as what is too small to be split needs no team.
  double take() {
    const double now = thread_seconds();
    const double alone = now - std::exchange(taken_, now), together = std::exchange(seconds_, 0);
    return size() == 1 ? alone : together;
  }

 private:
  static constexpr std::size_t kApart = 16;  // a line each
  std::unique_ptr<ThreadTeam> team_;
  std::vector<double> used_;
  double seconds_ = 0, taken_ = 0;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The medians of each task's seconds, samples in turns for about `seconds`, in alternating order.
std::vector<double> medians(TimedTeam& team, const std::vector<std::function<void()>>& tasks, double seconds) {
  std::vector<int> repeats;
  for (const auto& task : tasks) {  // a sample takes 100 us or more
    task();
    const auto start = Clock::now();
    int count = 0;
    while (count == 0 || seconds_since(start) < 100e-6) task(), ++count;
    repeats.push_back(count);
  }
  std::vector<std::vector<double>> samples(tasks.size());
  const auto begin = Clock::now();
  for (int round = 0; round < 15 || seconds_since(begin) < seconds; ++round) {
    for (std::size_t turn = 0; turn < tasks.size(); ++turn) {
      const std::size_t i = round % 2 == 0 ? turn : tasks.size() - 1 - turn;
      tasks[i]();  // the other task had the caches
      team.take();
      for (int n = 0; n < repeats[i]; ++n) tasks[i]();
      samples[i].push_back(team.take() / repeats[i]);
    }
  }
  std::vector<double> result;
  for (auto& each : samples) {
    std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
    result.push_back(each[each.size() / 2]);
  }
  return result;
}

struct Pair {
  DataType from_type;
  Layout from;
  DataType to_type;
  Layout to;
};

std::vector<Pair> pairs(bool types) {
  std::vector<Pair> all;
  const Layout n = Layout::nchw, h = Layout::nhwc, b8 = Layout::nchw8c, b16 = Layout::nchw16c;
  const DataType f32 = DataType::f32;
  if (types) {
    for (const DataType narrow : {DataType::bf16, DataType::f16}) {
      for (const auto& [from, to] : {std::pair(n, n), {n, h}, {h, n}, {n, b16}, {b16, n}, {h, b16}, {b16, h}}) {
        all.push_back({f32, from, narrow, to});
        all.push_back({narrow, from, f32, to});
      }
    }
    return all;
  }
  for (const DataType type : {f32, DataType::bf16, DataType::f16, DataType::u8}) {
    for (const Layout a : {n, h, b8, b16}) {
      for (const Layout b : {n, h, b8, b16}) {
        if (a != b) all.push_back({type, a, type, b});
      }
    }
  }
  return all;
}

// About `bytes` of the source, in a square.
Dims dims_of(std::int64_t bytes, std::int64_t channels, DataType type) {
  const double positions =
      static_cast<double>(bytes) / static_cast<double>(channels) / static_cast<double>(size_of(type));
  const auto side = static_cast<std::int64_t>(std::sqrt(positions));
  return {1, channels, side, side};
}

void measure(std::int64_t bytes, std::int64_t channels, int threads, double seconds, bool types) {
  TimedTeam team(threads);
  for (const Pair& pair : pairs(types)) {
    const Dims dims = dims_of(bytes, channels, pair.from_type);
    const TensorDesc from = TensorDesc::packed(pair.from_type, dims, pair.from);
    const TensorDesc to = TensorDesc::packed(pair.to_type, dims, pair.to);
    const HostTensor source = *HostTensor::zeros(from), target = *HostTensor::zeros(to);
    // A copy reads and writes as many bytes as there are in both, padding included.
    const std::int64_t moved = from.bytes() + to.bytes();
    const std::int64_t half = moved / 2;
    const auto copy_from = allocate_aligned(half), copy_to = allocate_aligned(half);
    std::memset(copy_from.get(), 1, half);
    std::memset(copy_to.get(), 1, half);
    const auto copy = [&] {
      parallel_ranges(team, half, [&](std::int64_t begin, std::int64_t end, int) {
        std::memcpy(copy_to.get() + begin, copy_from.get() + begin, end - begin);
      });
    };
    const auto convert = [&] { convert_layout(from, source.data.get(), to, target.data.get(), team); };
    const std::vector<double> s = medians(team, {copy, convert}, seconds);
    fmt::print(
        "{{\"from\":\"{} {}\",\"to\":\"{} "
        "{}\",\"dims\":\"{}\",\"kilobytes\":{},\"threads\":{},\"kind\":\"{}\",\"copy_GB_"
        "per_s\":{:.1f},\"GB_per_s\":{:.1f},\"share\":{:.2f},\"microseconds\":{:.1f}}}\n",
        name_of(from.type), name_of(pair.from, 2), name_of(to.type), name_of(pair.to, 2), to_string(dims), bytes >> 10,
        threads, name_of(conversion_kind(from, to)), 1e-9 * static_cast<double>(moved) / s[0],
        1e-9 * static_cast<double>(moved) / s[1], s[0] / s[1], s[1] * 1e6);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.2;
  const std::string_view what = argc > 2 ? argv[2] : "";
  if (argc > 4) {
    for (const bool types : {false, true}) {
      convoy::measure(std::atoll(argv[2]) << 10, std::atoll(argv[3]), std::atoi(argv[4]), seconds, types);
    }
    return 0;
  }
  for (const bool types : {false, true}) {
    if (what == (types ? "layouts" : "types")) continue;
    for (const std::int64_t bytes : {std::int64_t{256} << 10, std::int64_t{8} << 20}) {
      for (const std::int64_t channels : {24, 64, 100, 3}) {
        for (const int threads : {1, 2}) convoy::measure(bytes, channels, threads, seconds, types);
      }
    }
  }
}
