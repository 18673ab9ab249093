#include "network/tune/placement.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"

namespace convoy::network {

Result<Placement> Placement::make(const Network& network, std::span<const HostTensor> inputs,
                                  const NetworkOptions& options, std::span<const ConvolutionCandidates> convolutions) {
  std::vector<TensorDesc> descs;
  for (const HostTensor& input : inputs) descs.push_back(input.desc);
  Placement placement;
  placement.inputs_ = inputs;
  const double start = monotonic_seconds();
  CONVOY_TRY(placement.session_, network.prepare_switchable(descs, options, convolutions));
  placement.preparing_seconds_ = monotonic_seconds() - start;
  log(LogLevel::info, "network prepared", {{"seconds", fmt::format("{:.3g}", placement.preparing_seconds_)}});
  const std::vector<NetworkStep>& steps = placement.session_->steps();
  for (const ConvolutionCandidates& convolution : convolutions) {
    auto& own = placement.steps_.emplace_back();
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const bool same = steps[s].kind == "conv" && steps[s].problem == convolution.problem;
      if (same && steps[s].selection.by == SelectedBy::given) own.push_back(s);
    }
  }
  return placement;
}

Result<RunStatistics> Placement::run(std::span<const std::size_t> lineup) const {
  for (std::size_t c = 0; c < lineup.size(); ++c) session_->use(c, lineup[c]);
  RunStatistics statistics;
  CONVOY_CHECK(session_->run(inputs_, &statistics));
  return statistics;
}

}  // namespace convoy::network
