// Computations as kernels: CUDA C that NVRTC compiles, with what it is launched with. The text includes "generate.cuh",
// which is among the files that come with it (kernel_files), and names no device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/result.h"
#include "generate/computation.h"

namespace convoy::generate {

struct Kernel {
  std::string name;  // of the function
  std::string text;
  unsigned grid = 0;  // blocks; 0: there is nothing to do
  unsigned block = 0;
  std::string schedule;  // "map{vector=8}", "rows{block=256,vector=8}"
  // Its parameters: the pointers of these, in this order, then `count` in 64 bits. The size of the dim that moves
  // slowest is in none of the text, so that batches of other sizes share a kernel.
  std::vector<int> inputs, outputs;
  std::uint64_t count = 0;

  // The first line of a pack of kernels in one source.
  static constexpr std::string_view kInclude = "#include \"generate.cuh\"\n";
};

// With `most_shares` blocks at most in a cluster, whose blocks read each other's shared memory: 1 where a GPU has none.
// The refusal says what no kernel is made for: blocked channels, a type, a table that is too long.
Result<Kernel> write_kernel(const Computation& computation, const std::string& name, int most_shares = 1);

struct KernelFile {
  const char* name;
  const char* text;
};
// What texts include: generate.cuh, and machine.cuh, which has what differs from one machine to another.
std::span<const KernelFile> kernel_files();

}  // namespace convoy::generate
