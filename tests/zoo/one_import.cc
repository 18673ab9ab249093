// Loads a model once and runs it on inputs of any number of sizes and batches, prepared one after another:
//   one_import MODEL THREADS [INPUT.npy OUTPUT.npy]...
// One input and the first output each; a line of statistics a run. Used by zoo_test.py.
#include <cstdio>
#include <cstdlib>

#include "convoy/network.h"
#include "io/npy.h"

namespace {

using namespace convoy;

Result<void> run_one(const Network& network, const NetworkOptions& options, const char* from, const char* to) {
  CONVOY_TRY(HostTensor input, io::read_npy(from));
  const TensorDesc desc = input.desc;
  CONVOY_TRY(const auto session, network.prepare({&desc, 1}, options));
  RunStatistics statistics;
  CONVOY_TRY(const auto outputs, session->run({&input, 1}, &statistics));
  std::printf("%s %.6f\n", to_string(desc.dims).c_str(), statistics.seconds);
  return io::write_npy(to, outputs.at(0));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: one_import MODEL THREADS INPUT.npy OUTPUT.npy [INPUT.npy OUTPUT.npy ...]\n");
    return 2;
  }
  const auto network = Network::load(argv[1]);
  if (!network) {
    std::fprintf(stderr, "%s\n", network.error().message.c_str());
    return 1;
  }
  NetworkOptions options;
  options.threads = std::atoi(argv[2]);
  options.cpu = cpu_features();
  for (int i = 3; i + 1 < argc; i += 2) {
    if (const auto done = run_one(**network, options, argv[i], argv[i + 1]); !done) {
      std::fprintf(stderr, "%s: %s\n", argv[i], done.error().message.c_str());
      return 1;
    }
  }
  return 0;
}
