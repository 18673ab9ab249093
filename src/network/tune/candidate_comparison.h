// Promising candidates of several convolutions compared in the network itself: all in one placement first, then those
// that were faster beside the references in placements of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/network_tuning.h"
#include "network/tune/placement.h"
#include "network/tune/trial.h"

namespace convoy::network {

// A convolution with several promising candidates.
struct Entry {
  TunedConvolution* tuned = nullptr;
  MeasurementKey key;
  std::vector<Measurement> candidates;  // as they were measured alone, the reference first
  Contest contest = {};
  std::size_t chosen = 0;
  bool left_out = false;  // more candidates are promising than there was time for
  bool timed = false;     // `candidates` are of the network
};

class CandidateComparison {
 public:
  struct Clock {
    std::function<double()> left;                 // seconds; infinity without a budget, 0 where it is to stop
    std::function<void(std::string_view)> doing;  // asked for before each run, told what is going on
  };

  // `run_seconds`: of the network, as those of its convolutions let expect. All that is named outlives this.
  CandidateComparison(const Network& network, std::span<const HostTensor> inputs, const NetworkOptions& options,
                      std::vector<Entry>& entries, double run_seconds, Clock clock);

  // Leaves challengers out for whom there is no time or memory, the slowest alone first. False: there is none even for
  // one of each.
  bool leave_what_takes_too_long();

  // Times them and chooses; an entry's candidates are then of the network. Errors: those of preparing and running it,
  // with inputs that it can't take and without memory for it among them.
  Result<void> run();

  // Once it ran: of the network with what was chosen over that with the references; none where these stay.
  std::optional<double> speedup() const { return speedup_; }
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  Result<void> place(std::vector<std::vector<std::size_t>> lineups);
  double preparing_seconds() const;
  double stage_seconds() const;
  Result<TrialResult> hold_trial(std::span<const Contest> contests, const TrialOptions& options,
                                 FunctionRef<std::size_t(std::size_t e, std::size_t challenger)> candidate_of,
                                 std::string_view what);
  Result<void> compete();
  Result<void> confirm();
  void withdraw_slower(const std::vector<std::vector<selection::Summary>>& ratios);
  Result<std::optional<TrialResult>> time_chosen(bool references_first, double seconds);

  const Network& network_;
  std::span<const HostTensor> inputs_;
  const NetworkOptions& options_;
  std::vector<Entry>& entries_;
  double run_seconds_;
  Clock clock_;
  std::optional<Placement> placement_;
  std::vector<std::vector<std::size_t>> lineups_;  // by entry: which of its candidates that has
  TrialOptions trial_;
  std::optional<double> speedup_;
  std::vector<std::string> remarks_;
};

}  // namespace convoy::network
