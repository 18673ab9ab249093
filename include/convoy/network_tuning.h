// Tuning a network where it runs: its convolutions' candidates are timed in the network itself, where the caches and
// the memory are what they will be.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/network.h"

namespace convoy {

// A convolution of the network and what is known of its candidates, now or from before.
struct TunedConvolution {
  NetworkConvolution convolution;
  std::vector<Measurement> alone;       // verified, and timed roughly; first the reference, which is the heuristic's
                                        // choice (where that is wrong, who was predicted next), then the fastest first;
                                        // empty where nothing was measured
  std::vector<Measurement> wrong;       // that failed
  std::vector<Measurement> in_network;  // of those in `alone`: seconds of one execution; first the reference
  int measured = 0;                     // candidates, by this call, alone or in the network
  bool partial = false;                 // something that may yet be faster is open
};

struct NetworkTuning {
  std::vector<TunedConvolution> convolutions;
  bool partial = false;  // it was ended before everything was settled; another call goes on
  // The network with all that was chosen beside the heuristic's choices: their time over its own, where it was tried.
  std::optional<double> speedup;
  std::vector<std::string> remarks;
};

// `fraction` of the time, and what is being done.
using NetworkTuningProgress = std::function<void(double fraction, std::string_view what)>;

// Measures what options.selection.store (not null) doesn't know (with `again`: also what it does) of `convolutions` (of
// Network::convolutions, for the inputs' shapes). First candidates are verified and timed roughly, alone; with
// options.selection.all_knobs all of them, else those predicted to be fast. Then the promising are timed in the
// network, run on `inputs`, beside the heuristic's choice. One takes its place only where it is faster beyond doubt,
// there and again in the network of all that were chosen; where that network is not faster as a whole, the heuristic's
// choices are kept. What is found is stored as CacheState::network; choices that read the store
// (SelectionOptions::store) follow it.
//
// Ends within options.selection.budget_seconds (0: no limit), or soon after options.selection.stop is set, with what is
// known by then. A network that can't be prepared or run so (on these inputs, for want of memory) is a remark. Errors:
// those of the store; unsupported where the objective is not time alone or options.selection.caches is not cold.
Result<NetworkTuning> tune_in_network(const Network& network, std::span<const NetworkConvolution> convolutions,
                                      std::span<const HostTensor> inputs, const NetworkOptions& options,
                                      const NetworkTuningProgress& progress = {}, bool again = false);

// A plan of a network, and what it takes beside the others.
struct TimedPlan {
  std::string how;  // what made it: "global"
  NetworkPlan plan;
  double predicted_seconds = 0;  // of its lines together
  int lines = 0, measured = 0;   // lines that cost something, and of how many that was measured
  double seconds = 0;            // of a run: the median
  double undisturbed_seconds =
      0;                  // of one while nobody else used the processor: what predictions are to be compared with
  double over_first = 1;  // how many times as long as the first plan
  double relative_uncertainty = 0;  // of `over_first`: half of its 95% interval; 1: too few turns to say
};
struct PlanChoice {
  // In the order of `hows`, then those of the solver's that runs led to; without those whose lines another has already.
  std::vector<TimedPlan> plans;
  std::size_t fastest = 0;  // the first, or what takes less beyond doubt: `over_first` with its uncertainty is below 1
  // The solver's last answer, whatever took least, and what its lines cost by what it knew then.
  struct Answer {
    std::size_t plan = 0;
    double predicted_seconds = 0;
    int lines = 0, measured = 0;  // as TimedPlan's
  };
  std::optional<Answer> solvers;  // none: "global" is not among `hows`
  std::string kept;               // the file that it was written to
  std::vector<std::string> remarks;
};

// Where the command keeps plans: a folder beside the tuning database, for NetworkOptions::kept_plans; "" for "".
std::string kept_plans_folder(const std::string& database);

// Makes a plan in each of these ways (NetworkOptions::how) from what is known, and times them all end to end on
// `inputs`, in turns, within options.selection.budget_seconds (0: two dozen turns). Where "global" is among them, the
// solver is asked again with what steps took in those runs, until it knows nothing better, up to four times; a new plan
// ("global, seen 1") is timed beside the fastest. The first of `hows` gives way only to what takes less beyond doubt,
// whatever was predicted. The fastest is kept in options.kept_plans, where prepare() finds it. Network::plan with a
// budget measures what plans cost. A plan that can't be made or prepared, or isn't in half of the time, is a remark.
// Errors: those of the first one, and of runs; unsupported where the time, or options.selection.stop, ends it before it
// can say.
Result<PlanChoice> choose_plan(const Network& network, std::span<const HostTensor> inputs,
                               const NetworkOptions& options, std::span<const std::string> hows,
                               const NetworkTuningProgress& progress = {});

struct WholeTuning {
  NetworkTuning tuning;
  std::optional<PlanChoice> plans;  // none: nothing was measured anew, or a remark says why they could not be compared
};

// What `convoy tune MODEL` does: measures what the lines of plans cost that are made in several ways (a fifth of
// options.selection.budget_seconds), tunes `convolutions` (tune_in_network, until three fifths) and lets choose_plan
// keep the fastest of those ways' plans. Costs are measured where options.kept_plans has no plan yet, or with `again`;
// plans are compared where anything was measured. Without options.kept_plans convolutions are tuned, and that is all.
// Errors: those of Network::plan and tune_in_network.
Result<WholeTuning> tune_network(const Network& network, std::span<const NetworkConvolution> convolutions,
                                 std::span<const HostTensor> inputs, const NetworkOptions& options,
                                 const NetworkTuningProgress& progress = {}, bool again = false);

}  // namespace convoy
