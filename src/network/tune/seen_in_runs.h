// What steps took in runs of a network, in place of what a store says of them alone.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/measurement.h"
#include "network/tune/side_by_side.h"
#include "select/tune/rounds.h"

namespace convoy::network {

// Alone, a convolution finds its weights in the shared cache; in a network of more weights than that holds, or whose
// neighbours on the machine need it too, they come from memory, and a Winograd convolution has four times as many. So
// costs measured alone may prefer what then takes longer; and among many that are a few percent off, the solver prefers
// those that came out too low, operators and conversions as well. Of the same candidate in several places the mean
// counts. What a convolution took with one epilogue it takes with another, too, as long as that hasn't run: else a
// convolution without its epilogue would look faster for having been looked at less.
class SeenInRuns final : public MeasurementStore {
 public:
  // `alone` may be null, and outlives it. It is only read: what is measured by and by is kept here, so that who tunes
  // next finds the candidates that were compared, and no others.
  SeenInRuns(MeasurementStore* alone, std::span<const Engine* const> engines) : alone_(alone), engines_(engines) {}

  // What it took counts `scale` times.
  void add(const Timed& timed, double scale = 1);

  // What hasn't run counts so many times as long as alone: what was chosen by such times took longer by that.
  void set_over_alone(double times) { over_alone_ = times; }

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
  static void add(std::vector<Seen>& of_problem, const Candidate& candidate, int threads, double seconds);
  // What was seen of this problem, or else of one with another epilogue; null: nothing.
  const std::vector<Seen>* seen_of(const std::string& problem) const;
  // Of a candidate, as if it had been measured; nothing where its engine isn't there.
  std::optional<Measurement> measurement_of(const Candidate& candidate) const;
  double over_alone_ = 1;
  selection::RoundStore measured_since_;
  std::map<std::string, std::vector<Seen>> seen_;           // by problem string
  std::map<std::string, std::vector<Seen>> with_epilogue_;  // the same, by the problem string without its epilogue
};

}  // namespace convoy::network
