// Buffers with reproducible random contents for one problem: what a measurement or a verification runs on.
#pragma once

#include <cstdint>

#include "convoy/engine.h"
#include "convoy/host_tensor.h"

namespace convoy::selection {

// Fills a tensor's storage: floats uniform in [-1, 1) (so sums stay in range for every type), integers from -8 to 23;
// the channel padding of blocked tensors is zero.
void fill_random(const TensorDesc& desc, void* data, std::uint64_t seed);

enum class Operand : std::uint8_t { x, w, y, z };

// The same for a problem's tensor, or the beginning of its storage. Integer problems get bytes over their whole range,
// most of x as far from its zero point as they can be; where the result is exact, the filters 0, 2, 4 ... are likewise,
// so that sums come near the largest that there are, and s32 is anything.
void fill_operand(const ConvProblem& problem, Operand operand, const TensorDesc& storage, void* data,
                  std::uint64_t seed);

// w of ProblemData with this seed.
Result<HostTensor> random_weights(const ConvProblem& problem, std::uint64_t seed);

struct ProblemData {
  HostTensor x, w, y;  // all three are allocated; the one the pass computes holds the prior output
  HostTensor bias, z, slopes, scales, x_zero, w_zeros, gate;

  // out_of_memory where a buffer can't be had. `weights`, when not null, is used (and copied) as w.
  static Result<ProblemData> make(const ConvProblem& problem, std::uint64_t seed, const void* weights = nullptr);

  // Everything but x, w, y and z, which are null then.
  static Result<ProblemData> make_small(const ConvProblem& problem, std::uint64_t seed);

  // What the output holds before an execution.
  const HostTensor& prior(Pass pass) const { return pass == Pass::fprop ? y : pass == Pass::dgrad ? x : w; }

  // Arguments that compute into `out` (described like problem.out()).
  ConvArgs args(void* out) const;
};

}  // namespace convoy::selection
