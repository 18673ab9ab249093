// A network prepared with several candidates for its convolutions, to time them where they will run. It has memory of
// its own, and where that lies makes a candidate faster or slower by a few percent: another placement may say
// otherwise.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "convoy/network.h"

namespace convoy::network {

class Placement {
 public:
  // Errors: those of prepare_switchable.
  static Result<Placement> make(const Network& network, std::span<const HostTensor> inputs,
                                const NetworkOptions& options, std::span<const ConvolutionCandidates> convolutions);

  // Of the network, those that run convolution `c` on the candidate that is said; none where a rule decides.
  const std::vector<std::size_t>& steps(std::size_t c) const { return steps_[c]; }
  double preparing_seconds() const { return preparing_seconds_; }

  // A run on candidate lineup[c] of each convolution c.
  Result<RunStatistics> run(std::span<const std::size_t> lineup) const;

 private:
  std::span<const HostTensor> inputs_;
  std::unique_ptr<SwitchableSession> session_;
  std::vector<std::vector<std::size_t>> steps_;
  double preparing_seconds_ = 0;
};

}  // namespace convoy::network
