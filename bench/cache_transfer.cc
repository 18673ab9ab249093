// What an empty parallel region takes, and what a step takes longer where other threads wrote its input.
//
//     g++ -O3 -march=haswell -fopenmp bench/cache_transfer.cc -o build/cache_transfer && GOMP_SPINCOUNT=100000
//     build/cache_transfer THREADS
//
// A step adds 1 to each of some floats that the step before it wrote; each on all threads, or on the calling one.
// Medians, in microseconds. src/network/assign/threads.cc has what follows from them.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Sample>
double median(int count, Sample sample) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(sample());
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(count) / 2];
}

void step(std::vector<float>& to, const std::vector<float>& from, bool on_all, int threads) {
  const auto part = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) to[i] = from[i] + 1;
  };
  if (!on_all) return part(0, to.size());
  const std::size_t lines = to.size() / 16, count = static_cast<std::size_t>(threads);
#pragma omp parallel num_threads(threads)
  {
    const auto t = static_cast<std::size_t>(omp_get_thread_num());
    part(lines * t / count * 16, lines * (t + 1) / count * 16);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  std::vector<float> a(16), b(16);
  std::printf("an empty region: %.2f us\n", median(2000, [&] {
                const double start = now();
#pragma omp parallel num_threads(threads)
                {}
                return now() - start;
              }));
  std::printf("KB     one, after one    all, after all    all, after one    one, after all\n");
  for (const std::size_t bytes : {2U << 10, 8U << 10, 32U << 10, 128U << 10, 512U << 10, 2048U << 10}) {
    a.assign(bytes / sizeof(float), 0);
    b.assign(bytes / sizeof(float), 0);
    const auto takes = [&](bool all, bool after_all) {
      return median(1000, [&] {
        step(a, b, after_all, threads);
        const double start = now();
        step(b, a, all, threads);
        return now() - start;
      });
    };
    std::printf("%-5zu  %-16.2f  %-16.2f  %-16.2f  %.2f\n", bytes >> 10, takes(false, false), takes(true, true),
                takes(true, false), takes(false, true));
  }
}
