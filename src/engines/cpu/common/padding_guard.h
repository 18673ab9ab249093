// For engines that multiply by zeros what convolution.h leaves out: padding, other groups that they compute as one,
// what lies beside an odd number of channels. Zero times an infinity or a NaN is a NaN. Where one may come from there,
// outputs that became a NaN are computed again, term by term, as the oracle does.
#pragma once

#include <functional>
#include <vector>

#include "convoy/engine.h"

namespace convoy::cpu {

// Whether a tensor has an infinity or a NaN. In strided ones what lies between elements may count.
bool has_special_values(const TensorDesc& desc, const void* data, ThreadTeam* team = nullptr);

struct Zeros {
  bool beside_data = false;  // values of x (dgrad: y) are multiplied by zeros, too, not only weights
  bool hides_nan = false;    // the fused activation makes a number of a NaN
};

class PaddingGuard {
 public:
  explicit PaddingGuard(const ConvProblem& problem, Zeros zeros = {});

  // Constant weights, alive during the call. They are kept where they may be needed.
  void keep(const void* weights);
  bool has_special_weights() const { return special_weights_; }  // constant ones
  std::size_t retained_bytes() const { return weights_.size(); }

  Result<void> run(const ConvArgs& args, ThreadTeam& team, const std::function<Result<void>()>& execute) const;

 private:
  ConvProblem problem_;
  Zeros zeros_;
  bool reads_padding_;
  bool constant_ = false, special_weights_ = false;
  std::vector<std::byte> weights_;
};

}  // namespace convoy::cpu
