// Candidates of a network's convolutions timed side by side, where they run. No network and no clock of its own: what
// runs the network, and a clock, are given.
//
// A round is a run of the network with everybody's reference, and runs in which each convolution has one of its
// challengers, all of them in turn. What counts is the ratio of two runs of the same round: whatever happens to the
// machine meanwhile happens to both. Challengers that have lost leave, so rounds become shorter.
#pragma once

#include <span>
#include <vector>

#include "convoy/network.h"
#include "convoy/thread_team.h"
#include "select/measure/statistics.h"

namespace convoy::network {

// A convolution problem of the network.
struct Contest {
  std::vector<std::size_t> steps;  // that have it; their times are added
  std::size_t challengers = 0;
};

struct TrialOptions {
  int unread_runs = 1;  // of a lineup, first, while what ran before is in the caches
  int runs = 3;         // of a lineup, that count
  int min_rounds = 3;   // before anybody has won
  int tie_rounds = 10;  // after which it is no longer asked which of several that are faster is the fastest
  int max_rounds = 25;
  double worth = 5e-4;        // of the network's time: who can't save so much, beyond doubt, has lost
  double budget_seconds = 0;  // a round that would end later is not started
};

enum class Verdict { open, faster, not_faster };

struct Duel {                // of a challenger with the reference
  selection::Summary ratio;  // its time over the reference's
  Verdict verdict = Verdict::open;
};

struct TrialResult {
  std::vector<std::vector<Duel>> duels;       // by contest and challenger
  std::vector<selection::Summary> reference;  // by contest: seconds of its steps
  selection::Summary whole;                   // a network of challengers' time over the references'
  int rounds = 0;
  bool settled = false;  // nothing that may win is open; otherwise it was ended
};

// One run of the network: for each contest 0, the reference, or a challenger, from 1.
using RunNetwork = FunctionRef<Result<RunStatistics>(std::span<const std::size_t> lineup)>;
using Seconds = FunctionRef<double()>;  // from any fixed origin; monotonic

// Ends when no challenger is open and each contest has at most one that is faster, after max_rounds, with the budget,
// or as soon as `keep_going`, asked before each run, says no. A round that is cut short doesn't count. Errors: those of
// a run.
Result<TrialResult> run_trial(std::span<const Contest> contests, const TrialOptions& options, RunNetwork run,
                              Seconds clock, FunctionRef<bool()> keep_going);

}  // namespace convoy::network
