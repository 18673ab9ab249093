// What convolutions took in runs of a network, in place of what a store says of them alone.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "convoy/measurement.h"
#include "network/side_by_side.h"

namespace convoy::network {

// Alone, a convolution finds its weights in the shared cache; in a network of more weights than that holds, or whose
// neighbours on the machine need it too, they come from memory, and a Winograd convolution has four times as many. So
// costs measured alone may prefer what then takes longer. Of the same candidate in several places the mean counts. What
// it took with one epilogue it takes with another, too, as long as that hasn't run: else a convolution without its
// epilogue would look faster for having been looked at less.
class SeenInRuns final : public MeasurementStore {
 public:
  // `alone` may be null, and outlives it.
  SeenInRuns(MeasurementStore* alone, std::span<const Engine* const> engines) : alone_(alone), engines_(engines) {}

  void add(const Timed& timed);

  Result<std::vector<Measurement>> find(const MeasurementKey& key) override;
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override;

 private:
  struct Seen {
    Candidate candidate;
    int threads = 1;
    double seconds = 0;
    int places = 0;
  };
  MeasurementStore* alone_;
  std::span<const Engine* const> engines_;
  // What was seen of this problem, or else of one with another epilogue; null: nothing.
  const std::vector<Seen>* seen_of(const std::string& problem) const;
  std::map<std::string, std::vector<Seen>> seen_;           // by problem string
  std::map<std::string, std::vector<Seen>> with_epilogue_;  // the same, by the problem string without its epilogue
};

}  // namespace convoy::network
