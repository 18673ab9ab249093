// A budget shared among problems: every one gets its likely candidates before any gets its others.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "convoy/measurement.h"
#include "convoy/result.h"
#include "convoy/thread_team.h"

namespace convoy::selection {

// One problem's slice of the budget.
struct Slice {
  std::size_t problem = 0;
  // Its share of the budget; 0: there is no budget; negative: nothing is left of it. SelectionOptions::budget_seconds.
  double seconds = 0;
  bool likely_only = false;  // SelectionOptions::likely_only
};

struct SliceOutcome {
  bool settled = false;   // nothing is left to measure
  bool measured = false;  // something was
};

// What was measured in the rounds before, where no database keeps it. For one thread.
class RoundStore final : public MeasurementStore {
 public:
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override { return rows_[key]; }
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override {
    std::vector<Measurement>& rows = rows_[key];
    std::erase_if(rows, [&](const Measurement& m) { return m.candidate == measurement.candidate; });
    rows.push_back(measurement);
    return {};
  }

 private:
  std::map<MeasurementKey, std::vector<Measurement>> rows_;
};

// Gives every problem a slice with its likely candidates (where there is one problem, or no budget: with all), then
// slices with all of them to those that are not settled, until all are, the budget is spent, or a round measures
// nothing. A slice's share of what `left` says is left, infinity where there is no budget, goes by the weights of the
// problems still to come in its round. Until something was measured a share is positive, if tiny, so that a budget that
// is spent beforehand still gives one problem an answer. Returns the first error of `take`.
Result<void> measure_in_rounds(std::span<const double> weights, FunctionRef<double()> left,
                               FunctionRef<Result<SliceOutcome>(const Slice&)> take);

}  // namespace convoy::selection
