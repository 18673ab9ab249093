// The tensors of a convolution problem, filled, each between red zones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "convoy/engine.h"
#include "engines/testing/guarded_buffer.h"
#include "engines/testing/random.h"

namespace convoy::testing {

enum class Fill : std::uint8_t {
  normal,          // floats from a normal distribution, integers over their whole range
  spikes,          // normal, and one in fifty a thousand times as large: cancellation, and tiles of unequal size
  small_integers,  // -2 to 2 (0 to 3 where unsigned): sums stay exact in every accumulator
  limits,          // of integer problems: sums as large as they can be, and s32 over its whole range; else as normal
  special,         // normal, and in some tensors one kind of NaN, infinities, the type's limits, 1e30, 1e10, subnormals
};
std::string_view name_of(Fill fill);
std::optional<Fill> parse_fill(std::string_view name);

class ConvData {
 public:
  // Data that only the problem, the seed and the fill decide. The elements of a tensor are filled, the channel padding
  // of blocked inputs is zero, gaps between the elements of strided tensors are NaN.
  ConvData(const ConvProblem& problem, std::uint64_t seed, Fill fill);

  // Pointers to the inputs, out being its prior contents: what the oracle takes.
  ConvArgs args() const;
  const void* weights() const { return w_.data(); }
  // `out` with the prior contents where beta != 0, else NaN.
  void reset(GuardedBuffer& out) const;
  GuardedBuffer make_out() const;
  // What an execution that wrote `out` did besides its job: "" or a sentence.
  std::string trespass(const GuardedBuffer& out) const;

 private:
  ConvProblem problem_;
  GuardedBuffer x_, w_, y_, prior_, bias_, z_, slopes_, scales_, x_zero_, w_zeros_, gate_;
  std::vector<bool> written_;  // bytes of out that belong to an element or to channel padding
};

// Fills the elements of a tensor; `spread` is the largest integer, or the standard deviation of a float.
void fill_tensor(const TensorDesc& desc, void* data, Random& random, Fill fill, double spread = 1);

}  // namespace convoy::testing
