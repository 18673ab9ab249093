// How far off predictions are, by what was measured.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "network/cost/chooser.h"

namespace convoy::network {

// How many times as long as predicted what was measured takes: geometric means.
class OffPredictions {
 public:
  void add(const Cost& cost) {
    if (!cost.measured || !(cost.predicted > 0) || !(cost.seconds > 0)) return;
    all_.add(std::log(cost.seconds / cost.predicted));
    by_engine_[cost.runs_on].add(std::log(cost.seconds / cost.predicted));
  }
  std::optional<double> all() const { return all_.mean(); }
  std::optional<double> of(const std::string& engine) const {
    const auto found = by_engine_.find(engine);
    return found == by_engine_.end() ? std::nullopt : found->second.mean();
  }

 private:
  struct Logarithms {
    double sum = 0;
    int count = 0;
    void add(double value) {
      sum += value;
      ++count;
    }
    std::optional<double> mean() const { return count > 0 ? std::optional(std::exp(sum / count)) : std::nullopt; }
  };
  Logarithms all_;
  std::map<std::string, Logarithms> by_engine_;
};

}  // namespace convoy::network
