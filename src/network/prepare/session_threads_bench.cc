// Throughput of one session that several threads run. usage: session_threads_bench MODEL SIZE THREADS RUNS [AT_ONCE]
// Each run has THREADS threads of its own, and AT_ONCE go on side by side, else as many as the processor has threads
// for; for 1, 2, 4 and 8 callers it prints the runs a second. See bench/session_threads.py for the same from Python,
// beside ONNX Runtime.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "convoy/network.h"

using namespace convoy;

namespace {

template <class T>
T check(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

double runs_per_second(Session& session, const HostTensor& input, int callers, int runs) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < callers; ++t) {
    threads.emplace_back([&] {
      for (int run = 0; run < runs / callers; ++run) check(session.run({{input}}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return runs / callers * callers / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr, "usage: session_threads_bench MODEL SIZE THREADS RUNS [AT_ONCE]\n");
    return 2;
  }
  const auto network = check(Network::load(argv[1]));
  const std::int64_t size = std::atoll(argv[2]);
  const HostTensor input = check(HostTensor::zeros(TensorDesc::packed(DataType::f32, {1, 3, size, size})));
  NetworkOptions options;
  options.threads = std::atoi(argv[3]);
  if (argc == 6) options.cpu.logical_cpus = options.threads * std::atoi(argv[5]);
  const auto session = check(network->prepare({{input.desc}}, options));
  check(session->run({{input}}));
  double first = 0;
  for (const int callers : {1, 2, 4, 8}) {
    const double rate = runs_per_second(*session, input, callers, std::atoi(argv[4]));
    if (callers == 1) first = rate;
    std::printf("%d callers: %8.1f runs/s, %.2f x\n", callers, rate, rate / first);
  }
  std::printf("%d runs at once\n", session->runs_at_once());
}
