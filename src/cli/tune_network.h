// convoy tune of a network: candidates are compared where they run.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "convoy/network_tuning.h"
#include "convoy/tuning_database.h"

namespace convoy::cli {

// The database, counting and telling what goes into it.
class WatchedStore final : public MeasurementStore {
 public:
  using Watcher = std::function<void(const MeasurementKey&, const Measurement&)>;
  WatchedStore(TuningDatabase& database, Watcher watcher) : database_(database), watcher_(std::move(watcher)) {}

  Result<std::vector<Measurement>> find(const MeasurementKey& key) override;
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override;

  // What this run has measured: candidates of a problem, of all problems, and operators and conversions.
  std::int64_t measured(const ConvProblem& problem) const;
  std::int64_t candidates() const { return candidates_; }
  std::int64_t steps() const { return steps_; }

  std::int64_t stored = 0;
  bool only_fresh = false;  // finds only what this run has stored

 private:
  TuningDatabase& database_;
  Watcher watcher_;
  std::set<std::pair<MeasurementKey, std::string>> own_;
  std::map<std::string, std::set<std::string>> measured_;  // candidates by problem
  std::int64_t candidates_ = 0, steps_ = 0;
};

// A problem, or a convolution of a network, and what came of it.
struct Tuned {
  NetworkConvolution convolution;
  Selection selection;
  std::vector<Measurement> alone;       // all that is known, measured outside a network
  std::vector<Measurement> in_network;  // those that were compared there, the heuristic's choice first
  std::optional<Candidate> untuned;     // what runs without tuning; nothing where not asked
  std::optional<Error> failure;
  std::int64_t measured = 0;  // candidates, in this run
  bool partial = true;
  double weight = 0;  // its part of the budget, of all problems' weights
};

// convoy::tune_network on random inputs, with a bar; `options` have budget, store and stop.
struct TunedNetwork {
  std::vector<Tuned> convolutions;
  WholeTuning whole;
};
Result<TunedNetwork> tune_network(const Program& program, const Network& network, std::span<const TensorDesc> inputs,
                                  std::span<const NetworkConvolution> convolutions, const NetworkOptions& options,
                                  bool again);

}  // namespace convoy::cli
